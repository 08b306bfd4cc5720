"""Writes the picture of the package into CONTRIBUTING.md: ``python tests/house.py``; a test fails if it is outdated."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
_PACKAGE = ROOT / "mlflow_ragmetrics"
_WIDTH = 26
PICTURE = re.compile(r"(?<=^```text\nmlflow_ragmetrics/\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


def picture() -> str:
    """One line per room with the start of its docstring, top layer first, nested rooms indented."""
    contract = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition('name = "Layers"')[2].partition("]")[0]
    names = dict.fromkeys(re.findall(r"mlflow_ragmetrics\.(\w+)", contract))
    files = ((_PACKAGE / name, _PACKAGE / f"{name}.py") for name in names)
    return "".join(_lines(file if file.exists() else folder) for folder, file in files)


def _lines(place: Path, indent: str = "  ") -> str:
    name, module = (f"{place.name}/", place / "__init__.py") if place.is_dir() else (place.name, place)
    said = (ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    inner = sorted(each.parent for each in place.glob("*/__init__.py")) if place.is_dir() else []
    return f"{indent + name:{_WIDTH}}{said}\n" + "".join(_lines(each, f"{indent}  ") for each in inner)


if __name__ == "__main__":
    text = CONTRIBUTING.read_text(encoding="utf-8")
    CONTRIBUTING.write_text(PICTURE.sub(lambda _: picture(), text, count=1), encoding="utf-8")
