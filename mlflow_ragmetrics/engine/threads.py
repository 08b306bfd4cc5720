"""Daemon threads for work that must not block, or must not keep the process alive.

``start_thread`` runs an action on a thread; ``run_in_thread`` waits for its result, with a timeout;
``run_beside`` awaits it from an event loop; ``Workers`` runs many with a concurrency limit. ``after_fork`` registers
actions for forked processes, which have none of these threads and must drop their parent's state.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import ContextVar
from functools import lru_cache, partial, wraps
from itertools import count
from typing import Any, Generic, ParamSpec, TypeVar

from mlflow_ragmetrics.core.options import check_count
from mlflow_ragmetrics.errors import JudgeError

P = ParamSpec("P")
T = TypeVar("T")
LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("ragmetrics_loop", default=None)
"""The event loop that awaits this work; in a call of a chain, the loop it runs in."""
ENDED: ContextVar[threading.Event | None] = ContextVar("ragmetrics_ended", default=None)
"""Set when nobody waits any longer for the workers created in this context."""
TO_HAND_OVER = 30.0
"""Maximum seconds that a cancelled evaluation has to return and log finished work."""
_SLICE = 1.0
_SLOT_SLICE = 0.25
_local = threading.local()


class ThreadTimeoutError(TimeoutError):
    """An action did not end in time; its thread continues in the background."""


class CancelledEvaluationError(JudgeError):
    """The evaluation was cancelled; finished work is in its ``report``."""


def check_awaited() -> None:
    """Raise ``CancelledEvaluationError`` if nobody waits any longer for this context's work."""
    ended = ENDED.get()
    if ended is not None and ended.is_set():
        raise CancelledEvaluationError("the evaluation was cancelled", code="interrupted")


def result_of(task: Future[T]) -> T:
    """Wait for the result or exception of ``task``, unless this context is cancelled."""
    while True:
        check_awaited()
        if wait([task], timeout=_SLICE).done:
            return task.result()


def start_thread(
    action: Callable[[], object], *, name: str, context: contextvars.Context | None = None
) -> threading.Event:
    """Run ``action`` on a daemon thread of that name, in an empty context or in ``context``; it must not raise.

    Returns an event that is set when the action has ended.
    """
    ended = threading.Event()

    def run() -> None:
        try:
            (context or contextvars.Context()).run(action)
        finally:
            ended.set()

    threading.Thread(target=run, name=name, daemon=True).start()
    return ended


_loop_lock = threading.Lock()


def event_loop(purpose: str) -> asyncio.AbstractEventLoop:
    """Return this process's event loop for synchronous callers with this purpose, which runs in a thread forever.

    A purpose has only one, because the connections of an async client belong to a loop. Each purpose has its own,
    because a node of an async chain may block its loop while it waits for an async judge.
    """
    with _loop_lock:
        return _loop_of(os.getpid(), purpose)


@lru_cache
def _loop_of(process: int, purpose: str) -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    start_thread(loop.run_forever, name=f"ragmetrics-{purpose}")
    return loop


def run_in_thread(action: Callable[[], T], timeout: float | None) -> T:
    """Run ``action`` on a thread, in an empty context; return its result or raise.

    Callbacks and open traces are context variables, so the action inherits neither. After ``timeout``
    seconds, ``ThreadTimeoutError`` is raised, regardless of the client's own timeout. The abandoned action keeps the
    slot of its worker until it ends; the worker needs another slot for its next action.
    """
    slots: Slots | None = getattr(_local, "slots", None)
    if slots is not None and _local.slot is None:
        _local.slot = slots.take(timeout)
        if _local.slot is None:
            raise ThreadTimeoutError(f"no free slot within {timeout:g} s: abandoned requests are still running")
    done: Future[T] = Future()
    start_thread(lambda: settle(done, action), name="ragmetrics-call")
    if not wait([done], timeout).done:
        if slots is not None:
            slot, _local.slot = _local.slot, None
            done.add_done_callback(lambda _: slot.release())
        raise ThreadTimeoutError(f"no reply within {timeout:g} s")
    return done.result()


def pause(seconds: float) -> None:
    """Sleep; raise ``JudgeError`` as soon as this thread's ``Workers`` are closed."""
    closing: threading.Event | None = getattr(_local, "closing", None)
    if closing is None:
        time.sleep(seconds)
    elif closing.wait(seconds):
        raise JudgeError("the run ended before the judge answered", code="interrupted")


class Slots:
    """A limit on concurrent jobs, shared by several ``Workers``; each process has its own slots.

    ``InvalidOptionError`` if the limit is not a whole number of at least 1.
    """

    def __init__(self, limit: int) -> None:
        check_count("concurrency", limit)
        self.limit = limit
        self._process = os.getpid()
        self._free = threading.Semaphore(limit)

    def __reduce__(self) -> tuple[type[Slots], tuple[int]]:
        return Slots, (self.limit,)

    def take(self, timeout: float | None = None) -> threading.Semaphore | None:
        """Wait for a free slot, which the caller must release; ``None`` if there is none within ``timeout`` seconds."""
        if self._process != os.getpid():  # slots held by the parent's threads are never released here
            self._process, self._free = os.getpid(), threading.Semaphore(self.limit)
        free = self._free
        return free if free.acquire(timeout=timeout) else None


class Workers(Generic[T]):
    """Runs jobs on at most ``slots.limit`` threads and returns their results through ``finished``.

    The threads are daemons: a hanging call does not keep the interpreter alive.
    """

    def __init__(self, slots: Slots) -> None:
        self.limit = slots.limit
        self.in_flight = 0
        self._slots = slots
        self._threads = 0
        self._closing = threading.Event()
        self._sequence = count()
        self._jobs: queue.PriorityQueue[tuple[float, int, Callable[[], T] | None]] = queue.PriorityQueue()
        self._results: queue.SimpleQueue[Future[T]] = queue.SimpleQueue()

    def submit(self, job: Callable[[], T], priority: float = 0) -> None:
        """Queue ``job``; the lowest ``priority`` (0 or more) runs first."""
        self.in_flight += 1
        self._jobs.put((priority, next(self._sequence), job))
        if self._threads < min(self.limit, self.in_flight):
            self._threads += 1
            start_thread(self._work, name=f"ragmetrics-{self._threads}")

    def finished(self) -> list[T]:
        """Wait for a result, then return all results available; re-raises a job's exception."""
        results = [self._wait().result()]
        while not self._results.empty():
            results.append(self._results.get().result())
        self.in_flight -= len(results)
        return results

    def close(self) -> None:
        """Drop jobs that have not started, stop those that wait to retry, and let the threads end."""
        self._closing.set()
        for _ in range(self._threads):
            self._jobs.put((-1, next(self._sequence), None))

    def _wait(self) -> Future[T]:
        while True:
            check_awaited()
            with suppress(queue.Empty):  # in slices: on some platforms Ctrl-C cannot interrupt a blocking get
                return self._results.get(timeout=_SLICE)

    def _work(self) -> None:
        _local.closing, _local.slots, _local.slot = self._closing, self._slots, None
        while (job := self._jobs.get()[-1]) is not None:
            while _local.slot is None:
                if self._closing.is_set():
                    return
                _local.slot = self._slots.take(_SLOT_SLICE)
            done: Future[T] = Future()
            try:
                settle(done, job)
            finally:
                if _local.slot is not None:  # an abandoned action may have kept it
                    _local.slot.release()
                    _local.slot = None
            self._results.put(done)


def settle(done: Future[T], action: Callable[[], T]) -> None:
    """Run ``action``, and give ``done`` its result or its exception."""
    try:
        done.set_result(action())
    except BaseException as error:
        done.set_exception(error)


async def run_beside(action: Callable[[], T], *, patience: float = 0.0) -> T:
    """Run ``action`` and return its result or raise. If the task is cancelled, ``check_awaited`` raises in ``action``.

    The action then has ``patience`` seconds to end; the ``report`` of its exception is copied to the
    ``CancelledError``. A second cancellation ends the wait at once. ``asyncio.to_thread`` would let the action continue
    and delay the exit of an interrupted program.
    """
    ended, loop = threading.Event(), asyncio.get_running_loop()
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()  # the thread's work cannot be cancelled, only the wait for it

    def work() -> None:
        ENDED.set(ended)
        LOOP.set(loop)
        settle(done, action)

    future = asyncio.wrap_future(done)
    future.add_done_callback(lambda done: done.cancelled() or done.exception())  # avoids a log entry if nobody awaits
    start_thread(work, name="ragmetrics-evaluation", context=contextvars.copy_context())
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError as cancelled:
        ended.set()
        if patience:
            await asyncio.wait([future], timeout=patience)
        if future.done():
            cancelled.report = getattr(future.exception(), "report", None)  # type: ignore[attr-defined]
        raise
    finally:
        ended.set()
        future.cancel()  # the loop may be closed when the action ends


def awaited(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return ``function`` for callers in an event loop: it runs on a thread, and stops if the task is cancelled."""

    @wraps(function)
    async def run(*args: P.args, **options: P.kwargs) -> T:
        return await run_beside(partial(function, *args, **options), patience=TO_HAND_OVER)

    run.__name__ = f"a{function.__name__}"
    run.__qualname__ = function.__qualname__.removesuffix(function.__name__) + run.__name__
    run.__doc__ = f"""Like ``{function.__name__}``, for callers in an event loop.

If the task is cancelled, the ``CancelledError`` has the ``report`` of the scored rows. On Python 3.10
the report is on the exception's ``__context__`` instead.

{inspect.cleandoc(function.__doc__ or "")}
"""
    return run


Action = TypeVar("Action", bound=Callable[[], object])
_ACTIONS: list[Callable[[], Callable[[], object] | None]] = []


def after_fork(action: Action) -> Action:
    """Register ``action`` to run in each forked process; a method only as long as its object lives."""
    _ACTIONS[:] = [find for find in _ACTIONS if find() is not None]
    _ACTIONS.append(weakref.WeakMethod(action) if inspect.ismethod(action) else lambda: action)
    return action


def _begin_child() -> None:
    for action in [find() for find in _ACTIONS]:
        if action is not None:
            action()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)
