"""SQLite files locked by another process: the cache, and MLflow's store."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlflow
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Rating

_HOLD = """
import sqlite3, sys, time
held = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
held.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
time.sleep(float(sys.argv[2]))
held.execute("COMMIT")
"""
ROWS = [{"question": f"Why {n}?", "answer": f"Because {n}.", "reference": f"For {n}."} for n in range(20)]


class Counting:
    """A remote judge that counts its questions."""

    name = fingerprint = "counting"
    asked = 0

    def answer(self, questions: Any) -> list[Any]:
        self.asked += len(questions)
        return [Rating(4, "fine") for _ in questions]


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
    """Another process locks the file."""
    command = [sys.executable, "-c", _HOLD, str(path), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            yield
        finally:
            holder.kill()


@pytest.mark.parametrize(("seconds", "lost"), [(1.0, False), (60.0, True)])
def test_the_cache(seconds: float, lost: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short lock delays the cache; a long one is skipped with one warning and no lost score."""
    if lost:
        monkeypatch.setattr("mlflow_ragmetrics.cache._BUSY_SECONDS", 0.5)
    path, judge = tmp_path / "cache.db", Counting()
    suite = rm.Suite(["correctness"], judge=judge, cache=path)
    suite.evaluate(ROWS[:1])
    with locked(path, seconds), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        began = time.monotonic()
        report = suite.evaluate(ROWS)
        assert time.monotonic() - began < 20
    assert report.metrics["correctness/n_scored"] == len(ROWS)
    assert [str(each.message).count("is locked") for each in said if "cache" in str(each.message)] == [1] * lost
    before = judge.asked
    assert suite.evaluate(ROWS).usage["cached"] == len(ROWS) - (judge.asked - before)
    assert (judge.asked == before) is not lost


def test_mlflows_store_is_waited_for(mlflow_store: str) -> None:
    report = rm.Suite(["rouge"]).evaluate(ROWS)
    mlflow.search_experiments()
    with locked(Path(mlflow_store.removeprefix("sqlite:///")), 1.5):
        run_id = report.log()
    assert mlflow.get_run(run_id).data.tags["ragmetrics.status"] == "complete"


def test_mlflows_store_that_stays_locked_is_one_sentence(mlflow_store: str) -> None:
    report = rm.Suite(["rouge"]).evaluate(ROWS)
    path = Path(mlflow_store.removeprefix("sqlite:///"))
    mlflow.search_experiments()
    with (
        locked(path, 600),
        pytest.raises(rm.RagMetricsError, match=r"^no run could be started .*locked") as said,
    ):
        report.log()
    assert "SQL:" not in str(said.value)
    with mlflow.start_run() as run:
        with locked(path, 600), pytest.raises(rm.RagMetricsError, match=rf"to run {run.info.run_id}: .*locked"):
            report.log()
        report.log()
    found = mlflow.get_run(run.info.run_id)
    assert (found.info.status, found.data.tags["ragmetrics.status"]) == ("FINISHED", "complete")
    assert len(mlflow.search_traces(run_id=run.info.run_id, return_type="list")) == len(ROWS)
