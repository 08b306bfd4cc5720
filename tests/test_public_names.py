from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mlflow_ragmetrics as rm
import mlflow_ragmetrics.errors as errors
from mlflow_ragmetrics.registry import all_metrics

from .public_types import STUB, stub

ROOT = Path(__file__).parents[1]


def test_every_public_name_exists_and_is_what_it_is_called():
    assert rm.__all__ == sorted(set(rm.__all__))
    for name in rm.__all__:
        assert getattr(rm, name) is not None
    assert set(rm.__all__) <= set(dir(rm))


def test_metrics_are_public_by_their_own_names():
    for name, metric in all_metrics().items():
        assert getattr(rm, name) == metric


def test_errors_are_public_in_a_module_of_their_own():
    assert {"RagMetricsError"} == set(errors.__all__) & set(rm.__all__)
    assert len(rm.__all__) <= 60
    fields = {*rm.Report.__dataclass_fields__}
    assert len([name for name in {*dir(rm.Report), *fields} if not name.startswith("_")]) <= 29


def test_the_types_are_those_of_the_names():
    assert STUB.read_text(encoding="utf-8") == stub(), "run: python tests/public_types.py"


def _users_code() -> Iterator[tuple[str, str]]:
    for path in (ROOT / "examples").glob("*.py"):
        yield path.name, path.read_text(encoding="utf-8")
    cells = json.loads((ROOT / "examples" / "main_flow.ipynb").read_text(encoding="utf-8"))["cells"]
    yield "main_flow.ipynb", "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    yield "README.md", "\n".join(blocks)
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S):
            if page.parent.name != "reference":
                yield page.stem, block
    plugin = ROOT / "tests" / "plugin_package" / "ragmetrics_politeness" / "__init__.py"
    yield "a plugin", plugin.read_text(encoding="utf-8")


def test_what_users_write_needs_the_public_names_only():
    public = ("mlflow_ragmetrics.errors", "mlflow_ragmetrics.spark")
    found = []
    for name, code in _users_code():
        nodes = list(ast.walk(ast.parse(code)))
        modules = [each.module or "" for each in nodes if isinstance(each, ast.ImportFrom)]
        modules += [alias.name for each in nodes if isinstance(each, ast.Import) for alias in each.names]
        found += [(name, each) for each in modules if each.startswith("mlflow_ragmetrics.") and each not in public]
    assert found == []


def test_importing_the_package_loads_nothing_heavy():
    heavy = ("mlflow", "langchain_core", "pandas", "numpy", "pydantic", "matplotlib", "scipy")
    code = f"import sys, mlflow_ragmetrics; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_using_the_core_loads_neither_mlflow_nor_langchain_nor_pandas():
    code = (
        "import sys, mlflow_ragmetrics as rm\n"
        "rm.score('rouge', {'answer': 'a', 'reference': 'a'})\n"
        "print([name for name in ('mlflow', 'langchain_core', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_says_so():
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = rm.no_such_thing
