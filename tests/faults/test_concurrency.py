"""One suite in many threads, event loops and processes at once: figures, counts and the cache stay correct."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sqlite3
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Rating
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from tests.faults.budget import LONG
from tests.judges.fake_models import dutiful
from tests.judges.misbehaving_server import Script, served

THREADS = 32
ROUNDS = 20 if LONG else 1
METRICS = ["faithfulness", "answer_relevance"]


def rows(of: str = "", count: int = 6) -> list[dict[str, Any]]:
    texts = [f"Tower {of}{n}" for n in range(count)]
    return [
        {"question": f"Who built {t}?", "answer": f"{t} was built. It is {of} high.", "contexts": [f"{t}."]}
        for t in texts
    ]


def values(report: rm.Report) -> list[Any]:
    return [(score.value, score.reason, score.items) for row in report.rows for score in row.scores.values()]


@pytest.mark.timeout(1200)
def test_a_suite_in_32_threads_counts_every_call_once(tmp_path: Path) -> None:
    """Half of the threads evaluate the same rows, the others their own rows, with one cache."""
    for number in range(ROUNDS):
        model = dutiful(latency=0.002)
        suite = rm.Suite(METRICS, judge=model, cache=tmp_path / f"{number}.db", concurrency=4)
        data = [rows() if n % 2 else rows(f"{n}/") for n in range(THREADS)]
        with ThreadPoolExecutor(THREADS) as pool, warnings.catch_warnings():
            warnings.simplefilter("error")
            reports = list(pool.map(suite.evaluate, data))
        calm = [rm.Suite(METRICS, judge=dutiful()).evaluate(each) for each in data[:2]]
        assert all(values(report) == values(calm[1]) for report in reports[1::2])
        assert all(len(report) == 6 and report.metrics["faithfulness/n_scored"] == 6 for report in reports)
        assert values(reports[0]) == values(calm[0])
        counts = suite.judges[0].usage.snapshot()  # type: ignore[attr-defined]
        assert counts["calls"] == len(model.sent)
        with sqlite3.connect(tmp_path / f"{number}.db") as store:
            (kept,) = store.execute("SELECT count(*) FROM answers").fetchone()
        assert kept == (THREADS // 2 + 1) * calm[0].usage["calls"]
        assert suite.evaluate(data[0]).usage["cached"] == calm[0].usage["calls"]


@pytest.mark.parametrize("judge", ["lexical", "chat"])
def test_a_suite_in_many_threads_and_several_event_loops(judge: str) -> None:
    suite = rm.Suite(METRICS, judge=dutiful(latency=0.002)) if judge == "chat" else rm.Suite.preset("full")
    expected = values(suite.evaluate(rows()))
    with ThreadPoolExecutor(THREADS) as pool:
        assert all(values(report) == expected for report in pool.map(lambda _: suite.evaluate(rows()), range(THREADS)))

    async def together() -> list[rm.Report]:
        return await asyncio.gather(*(suite.aevaluate(rows()) for _ in range(8)))

    with ThreadPoolExecutor(4) as loops:
        for reports in loops.map(lambda _: asyncio.run(together()), range(4)):
            assert all(values(report) == expected for report in reports)


def test_a_cancelled_task_asks_nothing_more() -> None:
    model = dutiful(latency=0.05)
    suite = rm.Suite(METRICS, judge=model, concurrency=4)

    async def give_up() -> None:
        task = asyncio.ensure_future(suite.aevaluate(rows(count=200)))
        while len(model.sent) < 10:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    until = time.monotonic() + 10
    while any(each.name == "ragmetrics-evaluation" for each in threading.enumerate()):
        assert time.monotonic() < until
        time.sleep(0.05)
    asked = len(model.sent)
    time.sleep(0.3)
    assert asked <= len(model.sent) <= asked + 4
    assert len(model.sent) < 300


def in_child(suite: rm.Suite | None, url: str, of: str, cache: str, sender: Any) -> None:
    suite = suite or rm.Suite(METRICS, judge=ChatJudge("openai:/local", base_url=url), cache=cache)
    sender.send(values(suite.evaluate(rows(of))))
    sender.close()
    os._exit(0)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_that_use_a_suite_while_the_parent_does(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process gets its own answers. The fork precedes the first question, as HTTP clients require."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    context = multiprocessing.get_context(method)
    cache = str(tmp_path / "cache.db")
    for number in range(ROUNDS if method == "fork" else 1):
        with served(Script(delay=0.02)) as server, ThreadPoolExecutor(2) as pool:
            judge = ChatJudge("openai:/local", base_url=server.url, timeout=10, retry={"initial": 0.05})
            suite = rm.Suite(METRICS, judge=judge, cache=cache)
            children = []
            for each in range(2):
                receiver, sender = context.Pipe(duplex=False)
                of = f"child {number}.{each}/"
                given = (suite if method == "fork" else None, server.url, of, cache, sender)
                child = context.Process(target=in_child, args=given)
                child.start()
                children.append((child, receiver, of))
            own = pool.submit(suite.evaluate, rows(f"parent {number}/", 30))
            for child, receiver, of in children:
                assert receiver.poll(90), "a child hangs"
                assert receiver.recv() == values(rm.Suite(METRICS, judge=dutiful()).evaluate(rows(of)))
                child.join(10)
            expected = rm.Suite(METRICS, judge=dutiful()).evaluate(rows(f"parent {number}/", 30))
            assert values(own.result(90)) == values(expected)


class Broken:
    """A judge whose answers cannot be stored, in a program that turns warnings into errors."""

    name = fingerprint = "broken"

    def answer(self, questions: Any) -> list[Any]:
        return [Rating(4, "fine") for _ in questions]


@pytest.mark.timeout(60)
def test_a_thread_that_fails_is_not_waited_for(tmp_path: Path) -> None:
    suite = rm.Suite(["correctness"], judge=Broken(), cache=tmp_path)  # a folder
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="cannot be read"):
            suite.evaluate([{"question": "Q?", "answer": "A.", "reference": "A."}])
