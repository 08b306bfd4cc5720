"""The crew does all that fits, in time, away from the caller's context."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Sequence
from typing import Any

from mlflow_ragmetrics.adapters.langchain.queue import Crew

MINE: contextvars.ContextVar[str] = contextvars.ContextVar("mine", default="nobody's")


def crew_of(work: Any, **options: Any) -> Crew[Any]:
    return Crew(work, **{"busy": lambda: False, "size": 1000, "when_full": "drop", "workers": 1, **options})


def test_many_threads_put_and_all_is_done_once() -> None:
    done: list[int] = []
    crew = crew_of(done.extend, workers=3, size=10, when_full="block")
    threads = [threading.Thread(target=lambda k=k: [crew.put(100 * k + i) for i in range(100)]) for k in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert crew.wait(10)
    assert sorted(done) == list(range(500))
    crew.close()


def test_the_context_is_empty() -> None:
    seen: list[str] = []
    MINE.set("the application's")
    crew = crew_of(lambda batch: seen.append(MINE.get()))
    crew.put(1)
    assert crew.wait(5)
    assert seen == ["nobody's"]


def test_idle_threads_end_and_begin_again(monkeypatch: Any) -> None:
    monkeypatch.setattr("mlflow_ragmetrics.adapters.langchain.queue._IDLE_SECONDS", 0.05)
    done: list[int] = []
    crew = crew_of(done.extend)
    for number in range(3):
        crew.put(number)
        assert crew.wait(5)
        until = time.monotonic() + 5
        while crew._threads and time.monotonic() < until:
            time.sleep(0.01)
        assert crew._threads == []
    assert done == [0, 1, 2]


def test_a_busy_application_goes_first_until_somebody_waits() -> None:
    done: list[int] = []
    crew = crew_of(done.extend, busy=lambda: True)
    crew.put(1)
    time.sleep(0.02)
    assert done == []
    assert crew.wait(5)
    assert done == [1]


def test_batches_are_bounded() -> None:
    gate, sizes = threading.Event(), []

    def work(batch: Sequence[int]) -> None:
        gate.wait(5)
        sizes.append(len(batch))

    crew = crew_of(work)
    for number in range(50):
        assert crew.put(number)
    gate.set()
    assert crew.wait(5)
    assert sum(sizes) == 50
    assert max(sizes) <= 16


def test_a_closed_crew_takes_nothing() -> None:
    crew = crew_of(lambda batch: None)
    crew.close()
    assert not crew.put(1)
    assert crew.wait(0.1)
