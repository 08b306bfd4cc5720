"""No network, no secret, many threads, loops and processes; hostile texts in everything for MLflow and the terminal."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Rating

ROWS = [
    {
        "question": f"Who built tower {number}?",
        "answer": f"Tower {number} was built by engineers in {1800 + number}. I am sure.",
        "reference": f"Engineers built tower {number} in 1889.",
        "contexts": [f"Tower {number} was built in 1889 by engineers.", "It is in Paris."],
        "retrieved_doc_ids": ["a", "b"],
        "gold_doc_ids": ["a"],
    }
    for number in range(40)
]
SECRET = "correct-horse-battery-staple-9000"


def figures(report: rm.Report) -> dict[str, float]:
    return {name: value for name, value in report.metrics.items() if "duration" not in name}


def test_one_suite_in_32_threads_and_in_several_loops() -> None:
    suite = rm.Suite.preset("full")
    expected = figures(suite.evaluate(ROWS[:5]))
    with ThreadPoolExecutor(32) as pool:
        assert all(figures(each) == expected for each in pool.map(lambda _: suite.evaluate(ROWS[:5]), range(64)))

    async def together() -> list[rm.Report]:
        return await asyncio.gather(*(suite.aevaluate(ROWS[:5]) for _ in range(4)))

    with ThreadPoolExecutor(3) as loops:
        for reports in loops.map(lambda _: asyncio.run(together()), range(3)):
            assert all(figures(report) == expected for report in reports)


def evaluated(suite: rm.Suite | None, sender: Any) -> None:
    sender.send(figures((suite or rm.Suite.preset("lexical")).evaluate(ROWS[:3])))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_suite_works_in_a_child_process(method: str) -> None:
    suite = rm.Suite.preset("lexical")
    expected = figures(suite.evaluate(ROWS[:3]))
    context = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=evaluated, args=(suite if method == "fork" else None, sender))
    child.start()
    assert receiver.poll(60)
    assert receiver.recv() == expected
    child.join(10)
    assert child.exitcode == 0


class Counting:
    """A remote judge that counts its questions."""

    name = fingerprint = "counting"

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self._lock = threading.Lock()

    def answer(self, questions: Any) -> list[Any]:
        with self._lock:
            self.asked.extend(questions)
        return [Rating(4, SECRET if "leak" in str(question) else "fine") for question in questions]


def test_threads_that_share_a_cache_ask_nothing_again(tmp_path: Path) -> None:
    judge = Counting()
    suite = rm.Suite(["correctness", "answer_relevance"], judge=judge, cache=tmp_path / "c.db")
    suite.evaluate(ROWS)
    assert len(judge.asked) == len(set(judge.asked)) == 2 * len(ROWS)
    with ThreadPoolExecutor(8) as pool:
        reports = list(pool.map(lambda _: suite.evaluate(ROWS), range(8)))
    assert len(judge.asked) == 2 * len(ROWS)
    assert all(report.usage["cached"] == 2 * len(ROWS) for report in reports)


@pytest.mark.parametrize("place", ["/proc/no/cache.db", "/dev/full/cache.db", "/dev/full", "folder"])
def test_a_cache_that_cannot_be_kept_is_one_warning(place: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    suite = rm.Suite(["correctness"], judge=Counting(), cache=tmp_path / place)
    with pytest.warns(RuntimeWarning, match="cache") as said:
        report = suite.evaluate(ROWS[:5])
    assert report.metrics["correctness/n_scored"] == 5
    assert len([each for each in said if "cache" in str(each.message)]) == 1
