"""Work beside an event loop, in a daemon thread: whoever stops waiting for it ends it."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from mlflow_ragmetrics.core.workers import ENDED

__all__ = ["run_beside"]

T = TypeVar("T")


async def run_beside(action: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """What ``action`` returns or raises. Where the task is cancelled, the crews that ``action`` waits for stop.

    ``asyncio.to_thread`` would let it go on, and a program that was interrupted would wait for its end.
    """
    ended = threading.Event()
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(resolve: Callable[[Any], None], outcome: Any) -> None:
        if not future.done():
            resolve(outcome)

    def work() -> None:
        ENDED.set(ended)
        outcome: Any
        try:
            resolve, outcome = future.set_result, action(*arguments, **options)
        except BaseException as error:  # raised again by the task that waits
            resolve, outcome = future.set_exception, error  # type: ignore[assignment]
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, resolve, outcome)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True, name="ragmetrics-evaluation").start()
    try:
        return await future
    finally:
        ended.set()
