"""A background queue does all tasks that fit, in time, outside the caller's context."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from mlflow_ragmetrics.adapters.langchain.handler import BackgroundQueue

MINE: contextvars.ContextVar[str] = contextvars.ContextVar("mine", default="nobody's")


def queue_of(work: Any, **options: Any) -> BackgroundQueue:
    return BackgroundQueue(work, **{"busy": lambda: False, **options})


def test_many_threads_put_and_all_is_done_once() -> None:
    done: list[int] = []
    tasks = queue_of(done.extend)
    threads = [threading.Thread(target=lambda k=k: [tasks.put(100 * k + i) for i in range(100)]) for k in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tasks.wait(10)
    assert sorted(done) == list(range(500))
    tasks.close()


def test_the_context_is_empty() -> None:
    seen: list[str] = []
    MINE.set("the application's")
    tasks = queue_of(lambda batch: seen.append(MINE.get()))
    tasks.put(1)
    assert tasks.wait(5)
    assert seen == ["nobody's"]


def test_an_idle_queue_holds_no_thread() -> None:
    done: list[int] = []
    tasks = queue_of(done.extend)
    for number in range(3):
        tasks.put(number)
        assert tasks.wait(5)
        until = time.monotonic() + 5
        while "ragmetrics-scoring" in [each.name for each in threading.enumerate()] and time.monotonic() < until:
            time.sleep(0.01)
        assert "ragmetrics-scoring" not in [each.name for each in threading.enumerate()]
    assert done == [0, 1, 2]


def test_what_comes_one_by_one_is_done_in_few_batches() -> None:
    batches: list[int] = []
    tasks = queue_of(lambda batch: batches.append(len(batch)))
    for number in range(10):
        tasks.put(number)
    assert tasks.wait(5)
    assert sum(batches) == 10
    assert len(batches) <= 2
    tasks.close()


def test_a_busy_application_goes_first_until_somebody_waits() -> None:
    done: list[int] = []
    tasks = queue_of(done.extend, busy=lambda: True)
    tasks.put(1)
    time.sleep(0.02)
    assert done == []
    assert tasks.wait(5)
    assert done == [1]


def test_a_failing_batch_does_not_stop_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    done: list[int] = []

    def work(batch: Sequence[int]) -> None:
        if batch[0] == 1:
            raise SystemExit
        done.extend(batch)

    tasks = queue_of(work)
    for number in (1, 2):
        assert tasks.put(number)
        assert tasks.wait(5)
    assert done == [2]


def test_batches_are_bounded() -> None:
    gate, sizes = threading.Event(), []

    def work(batch: Sequence[int]) -> None:
        gate.wait(5)
        sizes.append(len(batch))

    tasks = queue_of(work)
    for number in range(50):
        assert tasks.put(number)
    gate.set()
    assert tasks.wait(5)
    assert sum(sizes) == 50
    assert max(sizes) <= 16


def test_a_closed_queue_takes_nothing() -> None:
    tasks = queue_of(lambda batch: None)
    tasks.close()
    assert not tasks.put(1)
    assert tasks.wait(0.1)
