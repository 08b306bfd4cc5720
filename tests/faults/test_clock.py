"""A wall clock that jumps: nothing hangs or gets lost, and no duration is negative."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import mlflow
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from mlflow_ragmetrics.judges.chat.retry import retry_after
from tests.faults.budget import LONG
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
    from langchain_core.runnables import RunnableLambda

    report = rm.Suite(["rouge"]).evaluate(ROWS[:10])
    run_id = report.log()
    run = mlflow.get_run(run_id)
    assert (run.info.status, run.data.tags["ragmetrics.status"]) == ("FINISHED", "complete")
    assert len(mlflow.search_traces(run_id=run_id, return_type="list")) == 10
    chain: Any = RunnableLambda(lambda question: f"answer to {question}")
    with mlflow.start_run() as live, rm.RagMetricsCallback(rm.Suite(["content_safety"])) as handler:
        chain.batch([f"question {n}" for n in range(30)], {"callbacks": [handler]})
    assert (handler.counts["scored"], handler.counts["unwritten"]) == (30, 0)
    points = mlflow.MlflowClient().get_metric_history(live.info.run_id, "content_safety")
    assert sorted(point.step for point in points) == list(range(30))


@pytest.mark.parametrize("skew", [-24 * HOUR, -30.0, 0.0, 30.0, 24 * HOUR])
def test_a_date_to_wait_for_is_read_by_the_clock_that_wrote_it(skew: float) -> None:
    """The server's clock is ``skew`` seconds ahead of this machine's; it asks for two seconds, and gets two seconds."""
    now = time.time() - skew
    dates = [format_datetime(datetime.fromtimestamp(at, timezone.utc), usegmt=True) for at in (now, now + 2)]
    response = httpx.Response(429, headers={"Date": dates[0], "Retry-After": dates[1]})
    error = httpx.HTTPStatusError("busy", request=httpx.Request("POST", "http://x"), response=response)
    assert retry_after(error) == 2.0


@pytest.mark.skipif(sys.platform != "linux", reason="libfaketime")
@pytest.mark.parametrize("jump", ["-30d", "+30d", "i10.0", "i0.1"])
def test_the_command_under_another_clock(jump: str, tmp_path: Path) -> None:
    """With libfaketime (Debian: apt-get install faketime), the clock of the whole process is wrong, fast or slow."""
    import shutil
    import subprocess

    if shutil.which("faketime") is None:
        pytest.skip("faketime is not installed (Debian: apt-get install faketime)")
    (tmp_path / "rows.csv").write_text("answer,reference\nIn Paris.,Paris.\n", encoding="utf-8")
    program = "from mlflow_ragmetrics.cli import main\nmain()"
    options = ["evaluate", "rows.csv", "-m", "rouge", "-m", "fact_recall", "--no-log"]
    command = ["faketime", "-f", jump if jump[0] != "i" else f"+0 {jump.replace('i', 'x')}"]
    began = time.monotonic()
    ended = subprocess.run(
        [*command, sys.executable, "-c", program, *options], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
    assert "rouge" in ended.stdout
    assert time.monotonic() - began < 100
