"""The time to import the package and to show the command's help, in new interpreters."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from contest import Contestant, compete
from table import Figure, main


def _fresh(*arguments: str) -> Callable[[int], Callable[[], Any]]:
    return lambda size: lambda: _run([sys.executable, *arguments])


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)


_SCORE = "import mlflow_ragmetrics as rm; rm.score('rouge', {'answer': 'a b', 'reference': 'a'})"
WORKS = {
    "nothing": _fresh("-c", "pass"),
    "package": _fresh("-c", "import mlflow_ragmetrics"),
    "score": _fresh("-c", _SCORE),
    "help": _fresh("-c", "from mlflow_ragmetrics.cli import main; main(['--help'])"),
    "mlflow": _fresh("-c", "import mlflow"),
    "ragas": _fresh("-c", "import ragas"),
    "deepeval": _fresh("-c", "import deepeval"),
}
_OURS = (
    ("import mlflow_ragmetrics", "package"),
    ("Python alone", "nothing"),
    ("and a first score", "score"),
    ("ragmetrics --help", "help"),
    ("import mlflow", "mlflow"),
)
_PEERS = (("import ragas", "ragas", "ragas"), ("import deepeval", "deepeval", "deepeval"))


def figures(short: bool) -> Sequence[Figure]:
    contestants = [Contestant(*each) for each in _OURS] + ([] if short else [Contestant(*each) for each in _PEERS])
    found = compete(__file__, contestants, 0, 1 if short else 3)
    return [Figure("Fresh interpreters", found, "package < 0.15 s, help < 0.25 s")]


if __name__ == "__main__":
    main(WORKS, figures)
