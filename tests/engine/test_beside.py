"""Work next to an event loop: if the task is cancelled, it returns its partial result, and nobody waits longer."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from typing import Any

import pytest

from mlflow_ragmetrics.engine.threads import CancelledEvaluationError, check_awaited, result_of, run_beside


def _work() -> None:
    """Work until nobody waits, and return the result."""
    try:
        while True:
            check_awaited()
            time.sleep(0.005)
    except CancelledEvaluationError as error:
        error.report = "half of it"
        raise


async def _cancelled(patience: float) -> Any:
    found: list[Any] = []

    async def work() -> None:
        try:
            await run_beside(_work, patience=patience)
        except asyncio.CancelledError as error:  # on Python 3.10 the awaiting task gets another one
            found.append(getattr(error, "report", None))
            raise

    task = asyncio.create_task(work())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return found[0]


def test_it_returns_and_raises_what_the_work_does() -> None:
    def fail() -> None:
        raise KeyError("no")

    assert asyncio.run(run_beside(lambda: 7)) == 7
    with pytest.raises(KeyError, match="no"):
        asyncio.run(run_beside(fail))


def test_a_cancelled_task_waits_for_what_is_handed_over_if_it_has_patience() -> None:
    assert asyncio.run(_cancelled(10.0)) == "half of it"
    assert asyncio.run(_cancelled(0.0)) is None


def test_work_that_outlives_its_event_loop_is_no_error() -> None:
    gate, ended = threading.Event(), threading.Event()

    def work() -> None:
        gate.wait(10)
        ended.set()

    async def left() -> None:
        task = asyncio.create_task(run_beside(work))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(left())
    gate.set()
    assert ended.wait(10)


def test_a_result_is_waited_for_as_long_as_somebody_awaits_it() -> None:
    done: Future[int] = Future()
    done.set_result(3)
    check_awaited()  # the waiting task was not cancelled
    assert result_of(done) == 3

    async def cancelled() -> None:
        task = asyncio.create_task(run_beside(lambda: result_of(Future())))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
