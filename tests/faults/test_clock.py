"""A wall clock that jumps: nothing hangs or gets lost, and no duration is negative."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from tests.faults.budget import LONG
from tests.faults.processes import ECHO
from tests.judges.misbehaving_server import Fault, misbehaving_server

ROWS = [
    {"question": f"Why {n}?", "answer": f"Because {n}.", "reference": f"For {n}."} for n in range(400 if LONG else 60)
]
HOUR = 3600.0


@pytest.fixture
def jumping(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """``time.time`` is within a day of the truth, and jumps every 10 ms."""
    true, chance, offset, ended = time.time, random.Random(3), [0.0], threading.Event()

    def jump() -> None:
        while not ended.wait(0.01):
            offset[0] = chance.choice((-24, -1, 0, 1, 24)) * HOUR

    monkeypatch.setattr(time, "time", lambda: true() + offset[0])
    monkeypatch.setattr(time, "time_ns", lambda: int((true() + offset[0]) * 1e9))
    thread = threading.Thread(target=jump, daemon=True)
    thread.start()
    yield
    ended.set()
    thread.join()


def test_an_evaluation_with_limits_retries_and_a_cache(
    jumping: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    busy = [Fault(status=429, headers={"Retry-After": "0.05"}), Fault(status=500), Fault()]
    with misbehaving_server(*busy * 10) as server:
        judge = ChatJudge(
            "openai:/local",
            base_url=server.url,
            retry={"initial": 0.01, "longest": 0.02},
            requests_per_minute=10_000,
            tokens_per_minute=10_000_000,
        )
        suite = rm.Suite(["correctness", "rouge"], judge=judge, cache=tmp_path / "cache.db")
        began = time.monotonic()
        report = suite.evaluate(ROWS)
        assert time.monotonic() - began < 60
        again = suite.evaluate(ROWS)
    assert report.metrics["correctness/n_scored"] == report.metrics["rouge1_f1/n_scored"] == len(ROWS)
    assert all(score.duration_ms >= 0 for row in report.rows for score in row.scores.values())
    assert report.usage["wall_seconds"] > 0
    assert (again.usage["cached"], again.usage.get("calls", 0)) == (len(ROWS), 0)


def test_logging_and_a_chain(jumping: None) -> None:
    report = rm.Suite(["rouge"]).evaluate(ROWS[:10])
    run_id = report.log()
    run = mlflow.get_run(run_id)
    assert (run.info.status, run.data.tags["ragmetrics.status"]) == ("FINISHED", "complete")
    assert len(mlflow.search_traces(run_id=run_id, return_type="list")) == 10
    with mlflow.start_run() as live, rm.RagMetricsCallback(rm.Suite(["content_safety"])) as handler:
        ECHO.batch([f"question {n}" for n in range(30)], {"callbacks": [handler]})
    assert (handler.counts["scored"], handler.counts["unwritten"]) == (30, 0)
    points = mlflow.MlflowClient().get_metric_history(live.info.run_id, "content_safety")
    assert sorted(point.step for point in points) == list(range(30))
