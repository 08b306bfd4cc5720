from __future__ import annotations

import subprocess
import sys

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.registry import all_metrics


def test_every_public_name_exists_and_is_what_it_is_called():
    assert rm.__all__ == sorted(set(rm.__all__))
    for name in rm.__all__:
        assert getattr(rm, name) is not None
    assert set(rm.__all__) <= set(dir(rm))


def test_metrics_are_public_by_their_own_names():
    for name, metric in all_metrics().items():
        assert getattr(rm, name) == metric


def test_importing_the_package_loads_nothing_heavy():
    heavy = ("mlflow", "langchain_core", "pandas", "numpy", "pydantic", "matplotlib", "scipy")
    code = f"import sys, mlflow_ragmetrics; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


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
