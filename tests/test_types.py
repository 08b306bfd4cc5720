"""What a user's type checker sees: mypy, strict, on a program outside the package."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed"),
]

PROGRAM = """
from __future__ import annotations

from collections.abc import Sequence

import mlflow_ragmetrics as rm

suite = rm.Suite(["faithfulness", "rouge"], judge=rm.LexicalJudge())
report = suite.evaluate([{"question": "q", "answer": "a"}])
score: rm.Score = rm.score("rouge", {"answer": "a", "reference": "a"})
reveal_type(report.metrics)
reveal_type(rm.compare(report, report).verdict)


@rm.metric
def brevity(answer: str, *, limit: int = 20) -> float:
    return min(1.0, limit / max(1, len(answer.split())))


reveal_type(brevity)
reveal_type(rm.evaluate_chain)
"""
MISTAKES = """
import mlflow_ragmetrics as rm

rm.Suite(["rouge"], concurrency="many")
score: int = rm.score("rouge", {"answer": "a", "reference": "a"})
"""


def _mypy(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(program, encoding="utf-8")
    arguments = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(folder), "program.py"]
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)


def test_a_correct_program_has_no_errors_and_the_types_are_known(tmp_path: Path) -> None:
    done = _mypy(tmp_path, PROGRAM)
    assert done.returncode == 0, done.stdout
    said = done.stdout.replace("builtins.", "")
    for known in ("dict[str, float]", "regressed", "mlflow_ragmetrics.core.metric.Metric"):
        assert known in said, f"{known} is not in {said}"


def test_mistakes_are_found(tmp_path: Path) -> None:
    done = _mypy(tmp_path, MISTAKES)
    assert done.stdout.count("error:") == 2, done.stdout
