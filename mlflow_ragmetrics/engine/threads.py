"""One pool of daemon threads for whatever must not wait or must not be waited for.

``start_thread`` runs an action on a thread of the pool; ``run_in_thread`` waits for its result, with a timeout;
``run_beside`` awaits it from an event loop; ``Workers`` runs many, with a limit on how many run at once. ``after_fork``
says what a forked process does first: it has none of these threads, and drops what belongs to its parent.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import inspect
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from itertools import count
from typing import Any, Generic, TypeVar

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError

T = TypeVar("T")
ENDED: ContextVar[threading.Event | None] = ContextVar("ragmetrics_ended", default=None)
"""Set by whoever no longer waits for the workers that are made in this context."""
TO_HAND_OVER = 30.0
"""Seconds that an evaluation which is cancelled has at most to hand over, and to log, what is done."""
_SLICE = 1.0
_SLOT_SLICE = 0.25
_IDLE_SECONDS = 10.0
_local = threading.local()


class ThreadTimeoutError(TimeoutError):
    """An action did not end in time; its thread is left to itself."""


class CancelledEvaluationError(JudgeError):
    """Nobody waits any more for what is being evaluated; what is done is its ``report``."""


def check_awaited() -> None:
    """``CancelledEvaluationError`` where nobody waits any more for what this context does."""
    ended = ENDED.get()
    if ended is not None and ended.is_set():
        raise CancelledEvaluationError("the evaluation was cancelled", code="interrupted")


def result_of(task: Future[T]) -> T:
    """What ``task`` returns or raises, waited for as long as somebody awaits this context."""
    while True:
        check_awaited()
        if wait([task], timeout=_SLICE).done:
            return task.result()


class ThreadTask:
    """An action that runs on a thread of the pool."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._ended = False

    @property
    def alive(self) -> bool:
        """Whether it still runs; never in a process that was forked from the one that started it."""
        return not self._ended and self._process == os.getpid()


class _Thread:
    """A daemon thread that runs one action after another, and ends when there was none for a while."""

    def __init__(self, pool: _Pool) -> None:
        self._pool = pool
        self.inbox: queue.SimpleQueue[tuple[Callable[[], object], ThreadTask, str]] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                action, task, name = self.inbox.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                if self._pool.dismiss(self):
                    return
                continue
            self.thread.name = name
            try:
                action()
            finally:
                task._ended = True
            del action, task  # an idle thread keeps nothing of what it did
            self.thread.name = "ragmetrics-idle"
            self._pool.idle.append(self)


class _Pool:
    def __init__(self) -> None:
        self.process = os.getpid()
        self.idle: list[_Thread] = []
        self._lock = threading.Lock()

    def take(self) -> _Thread:
        """An idle thread, the one that was busy last, or a new one."""
        with self._lock:
            return self.idle.pop() if self.idle else _Thread(self)

    def dismiss(self, thread: _Thread) -> bool:
        """Whether the thread may end: not where it has just been taken."""
        with self._lock:
            if thread not in self.idle:
                return False
            self.idle.remove(thread)
            return True


_pool = _Pool()


def start_thread(action: Callable[[], object], *, name: str, context: contextvars.Context | None = None) -> ThreadTask:
    """Run ``action`` on a daemon thread of that name, in an empty context or in ``context``; it must not raise.

    Threads are reused: nothing of the caller's (callbacks, open spans) reaches the action but through ``context``.
    """
    global _pool
    if _pool.process != os.getpid():  # the threads of the parent are not in a forked process
        _pool = _Pool()
    task = ThreadTask()
    _pool.take().inbox.put((partial((context or contextvars.Context()).run, action), task, name))
    return task


def run_in_thread(action: Callable[[], T], timeout: float | None, context: contextvars.Context | None = None) -> T:
    """What ``action`` returns or raises, run on a thread of the pool in an empty context or in ``context``.

    A chain's callbacks and an open trace live in context variables, so that the action inherits neither. After
    ``timeout`` seconds a ``ThreadTimeoutError`` is raised, whatever a client does with its own timeout. An action that
    was given up keeps the slot of the worker that ran it until it ends; the worker needs another for its next action.
    """
    lease: _Lease | None = getattr(_local, "lease", None)
    if lease is not None and not lease.renew(timeout):
        raise ThreadTimeoutError(f"no free slot within {timeout:g} s: requests that were given up are still running")
    results: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()
    ended = threading.Event()

    def run() -> None:
        results.put(_attempted(action))
        ended.set()
        if lease is not None:
            lease.end(ended)

    start_thread(run, name="ragmetrics-call", context=context)
    try:
        result = results.get(timeout=timeout)
    except queue.Empty:
        if lease is not None:
            lease.leave_to(ended)
        raise ThreadTimeoutError(f"no reply within {timeout:g} s") from None
    return result()


def pause(seconds: float) -> bool:
    """Sleep; True where the ``Workers`` that this thread works for were closed, which ends the sleep at once."""
    closing: threading.Event | None = getattr(_local, "closing", None)
    if closing is None:
        time.sleep(max(0.0, seconds))
        return False
    return closing.wait(max(0.0, seconds))


class Slots:
    """How many jobs several ``Workers`` may run at once, together; another process has slots of its own.

    ``InvalidOptionError`` for a limit that is not a whole number from 1.
    """

    def __init__(self, limit: int) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InvalidOptionError(f"concurrency={shown(limit)} must be a whole number from 1", param="concurrency")
        self.limit = limit
        self._process = os.getpid()
        self._free = threading.Semaphore(limit)

    def __reduce__(self) -> tuple[type[Slots], tuple[int]]:
        return Slots, (self.limit,)

    def take(self, timeout: float | None = None) -> threading.Semaphore | None:
        """A slot, once one is free, to be released; ``None`` where none was within ``timeout`` seconds."""
        if self._process != os.getpid():  # those that the parent's threads hold are never given back here
            self._process, self._free = os.getpid(), threading.Semaphore(self.limit)
        free = self._free
        return free if free.acquire(timeout=timeout) else None


class _Lease:
    """The slot that a worker holds for its job, handed on to an action that outlives the worker's patience."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._held: threading.Semaphore | None = None
        self._left: dict[threading.Event, threading.Semaphore] = {}
        self._lock = threading.Lock()

    def renew(self, timeout: float | None) -> bool:
        """Hold a slot again, within ``timeout`` seconds, where the last was left to an action."""
        if self._held is None:
            self._held = self._slots.take(timeout)
        return self._held is not None

    def leave_to(self, ended: threading.Event) -> None:
        """Let the action keep the slot, if it has not ended meanwhile."""
        with self._lock:
            if not ended.is_set() and self._held is not None:
                self._left[ended] = self._held
                self._held = None

    def end(self, ended: threading.Event) -> None:
        """Release the slot that was left to the action, if one was."""
        with self._lock:
            slot = self._left.pop(ended, None)
        if slot is not None:
            slot.release()

    def release(self) -> None:
        """Release the slot that the worker itself still holds."""
        if self._held is not None:
            self._held.release()
            self._held = None


class Workers(Generic[T]):
    """Runs jobs on at most ``slots.limit`` threads of the pool and hands their results back through ``finished``.

    The threads are daemons: a call that hangs cannot keep the interpreter from ending.
    """

    def __init__(self, slots: Slots) -> None:
        self.limit = slots.limit
        self.in_flight = 0
        self._slots = slots
        self._threads = 0
        self._closing = threading.Event()
        self._backlog: list[tuple[float, int, Callable[[], T], Callable[[], bool]]] = []
        self._sequence = count()
        self._handed = 0
        self._jobs: queue.SimpleQueue[tuple[Callable[[], T], Callable[[], bool]] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()

    def submit(self, job: Callable[[], T], priority: float = 0, *, idle: Callable[[], bool] = lambda: False) -> None:
        """Queue ``job``; of those waiting the lowest ``priority`` goes first. While it is ``idle`` it needs no slot."""
        self.in_flight += 1
        heapq.heappush(self._backlog, (priority, next(self._sequence), job, idle))
        self._hand_out()
        if self._threads < min(self.limit, self.in_flight):
            self._threads += 1
            start_thread(self._work, name=f"ragmetrics-{self._threads}")

    def finished(self) -> list[T]:
        """Wait for a result, then take all that are there; raises what a job raised."""
        results = [self._wait()()]
        while not self._results.empty():
            results.append(self._results.get()())
        self.in_flight -= len(results)
        self._handed -= len(results)
        self._hand_out()
        return results

    def close(self) -> None:
        """Drop what has not begun and let the threads end when they are done; those that wait to try again stop."""
        self._closing.set()
        self._backlog.clear()
        with suppress(queue.Empty):
            while True:
                self._jobs.get_nowait()
        for _ in range(self._threads):
            self._jobs.put(None)

    def _hand_out(self) -> None:
        """Keep twice as many jobs with the threads as there are threads: none is idle, and the rest can be sorted."""
        while self._backlog and self._handed < 2 * self.limit:
            self._jobs.put(heapq.heappop(self._backlog)[2:])
            self._handed += 1

    def _wait(self) -> Callable[[], T]:
        while True:
            check_awaited()
            with suppress(queue.Empty):  # in slices: a blocking get cannot be interrupted by Ctrl-C on every platform
                return self._results.get(timeout=_SLICE)

    def _work(self) -> None:
        _local.closing = self._closing
        try:
            while (handed := self._jobs.get()) is not None:
                job, idle = handed
                lease = _local.lease = _Lease(self._slots)
                try:
                    while not (idle() or self._closing.is_set() or lease.renew(_SLOT_SLICE)):
                        pass
                    if self._closing.is_set():
                        return
                    result = _attempted(job)
                finally:
                    _local.lease = None
                    lease.release()
                self._results.put(result)
        finally:
            _local.closing = None  # the thread goes on to work for others


def _attempted(job: Callable[[], T]) -> Callable[[], T]:
    """What gives the result of ``job``, or raises what it raised: a thread that died would be waited for forever."""
    try:
        result = job()
    except BaseException as error:
        return partial(_raise, error)
    return lambda: result


def _raise(error: BaseException) -> Any:
    raise error


async def run_beside(action: Callable[[], T], *, patience: float = 0.0) -> T:
    """What ``action`` returns or raises. Where the task is cancelled, ``action`` is told so by ``check_awaited``.

    Then it has ``patience`` seconds to end: the ``report`` of what it raises is that of the ``CancelledError``. A task
    that is cancelled again ends at once. ``asyncio.to_thread`` would let it go on, and a program that was interrupted
    would wait for its end.
    """
    ended = threading.Event()
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    future.add_done_callback(lambda done: done.cancelled() or done.exception())  # no note of one that nobody awaits

    def settle(resolve: Callable[[Any], None], outcome: Any) -> None:
        if not future.done():
            resolve(outcome)

    def work() -> None:
        ENDED.set(ended)
        outcome: Any
        try:
            resolve, outcome = future.set_result, action()
        except BaseException as error:  # raised again by the task that waits
            resolve, outcome = future.set_exception, error  # type: ignore[assignment]
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, resolve, outcome)

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


Action = TypeVar("Action", bound=Callable[[], object])
_ACTIONS: list[Callable[[], Callable[[], object] | None]] = []


def after_fork(action: Action) -> Action:
    """Call ``action`` in each process forked from this one; a method, as long as its object lives."""
    _ACTIONS[:] = [find for find in _ACTIONS if find() is not None]
    _ACTIONS.append(weakref.WeakMethod(action) if inspect.ismethod(action) else lambda: action)
    return action


def _begin_child() -> None:
    for action in [find() for find in _ACTIONS]:
        if action is not None:
            action()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)
