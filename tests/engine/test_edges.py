"""Rare cases of threads and judges: full queues, actions that take too long, too few answers."""

from __future__ import annotations

import pickle
import threading
import time
from typing import Any

import pytest

from mlflow_ragmetrics.adapters.langchain import handler
from mlflow_ragmetrics.cache import SQLiteStore
from mlflow_ragmetrics.core.question import Question
from mlflow_ragmetrics.engine.engine import JudgeSession, answer_call
from mlflow_ragmetrics.engine.threads import Slots
from mlflow_ragmetrics.errors import JudgeError


def test_a_full_queue_drops_and_a_closed_one_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "QUEUE_SIZE", 1)
    going = threading.Event()

    def work(tasks: Any) -> None:
        going.wait(10)

    queue: Any = handler.BackgroundQueue(work, busy=lambda: False)
    assert queue.put(1)
    until = time.monotonic() + 10
    taken = [queue.put(n) for n in range(2, 40)]
    while all(taken) and time.monotonic() < until:
        taken.append(queue.put(0))
    assert not all(taken)
    going.set()
    assert queue.wait(10)
    queue.close()
    assert not queue.put(2)


def test_slots_are_new_in_another_process() -> None:
    assert pickle.loads(pickle.dumps(Slots(3))).limit == 3


class _Judge:
    name = "odd"
    local = False
    fingerprint = None
    usage = None

    def answer(self, questions: Any) -> list[Any]:
        return []

    def calls(self, pending: Any, in_flight: Any) -> list[Any]:
        return []


def test_a_judge_that_gives_too_few_answers_or_nothing_that_identifies_it(tmp_path: Any) -> None:
    judge: Any = _Judge()
    (outcome,) = answer_call(judge, (Question(),))
    assert isinstance(outcome, JudgeError)
    assert "returned 0 answers to 1 questions" in str(outcome)
    with pytest.warns(RuntimeWarning, match="its answers are not cached"):
        session = JudgeSession(judge, SQLiteStore(tmp_path / "cache.db"))
    assert session.calls((Question(),), ()) == [(Question(),)]
    session.closed = JudgeError("no more")
    assert session.ask((Question(),)) == [session.closed]
