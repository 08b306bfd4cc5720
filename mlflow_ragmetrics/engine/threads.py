"""One pool of daemon threads for whatever must not wait or must not be waited for.

``start_thread`` runs an action on a thread of the pool; ``run_in_thread`` waits for its result, with a timeout;
``run_beside`` awaits it from an event loop; ``Workers`` runs many, with a limit on how many run at once;
``BackgroundQueue`` works off what is put in.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from itertools import count
from typing import Any, Generic, Literal, TypeVar

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError

__all__ = [
    "ENDED",
    "BackgroundQueue",
    "Slots",
    "ThreadTask",
    "ThreadTimeoutError",
    "WhenFull",
    "Workers",
    "pause",
    "run_beside",
    "run_in_thread",
    "start_thread",
]

T = TypeVar("T")
ENDED: ContextVar[threading.Event | None] = ContextVar("ragmetrics_ended", default=None)
"""Set by whoever no longer waits for the workers that are made in this context."""
_SLICE = 1.0
_SLOT_SLICE = 0.25
_IDLE_SECONDS = 10.0
_local = threading.local()


class ThreadTimeoutError(TimeoutError):
    """An action did not end in time; its thread is left to itself."""


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


def run_in_thread(action: Callable[[], T], timeout: float | None) -> T:
    """What ``action`` returns or raises, run on a thread of the pool with an empty context.

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

    start_thread(run, name="ragmetrics-call")
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
        self._ended = ENDED.get()
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
        while not self._jobs.empty():
            try:
                self._jobs.get_nowait()
            except queue.Empty:  # a thread took it in between
                break
        for _ in range(self._threads):
            self._jobs.put(None)

    def _hand_out(self) -> None:
        """Keep twice as many jobs with the threads as there are threads: none is idle, and the rest can be sorted."""
        while self._backlog and self._handed < 2 * self.limit:
            self._jobs.put(heapq.heappop(self._backlog)[2:])
            self._handed += 1

    def _wait(self) -> Callable[[], T]:
        while self._ended is None or not self._ended.is_set():
            try:  # in slices: a blocking get cannot be interrupted by Ctrl-C on every platform
                return self._results.get(timeout=_SLICE)
            except queue.Empty:
                continue
        raise JudgeError("the evaluation was cancelled", code="interrupted")

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


async def run_beside(action: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """What ``action`` returns or raises. Where the task is cancelled, the ``Workers`` that ``action`` waits for stop.

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

    start_thread(work, name="ragmetrics-evaluation", context=contextvars.copy_context())
    try:
        return await future
    finally:
        ended.set()


WhenFull = Literal["drop", "block"]
_TASKS_PER_BATCH = 16
_QUEUE_IDLE_SECONDS = 2.0
_GATHER_SECONDS = 0.02
_LONGEST_YIELD = 0.1
_YIELD_STEP = 0.005


class BackgroundQueue(Generic[T]):
    """A bounded queue whose tasks daemon threads hand to ``work``, in batches; ``work`` must not raise.

    Threads begin when there is something to do, also after a fork, and end when there has been nothing for a while.
    They run in an empty context: nothing of the application's (callbacks, open spans) reaches what they call. They let
    tasks gather for a moment, and while the application is ``busy`` they let it go first, for a tenth of a second, both
    as long as the queue is not half full and nobody waits.
    """

    def __init__(
        self,
        work: Callable[[Sequence[T]], None],
        *,
        busy: Callable[[], bool],
        size: int,
        when_full: WhenFull,
        workers: int,
    ) -> None:
        self._work = work
        self._busy = busy
        self._size = size
        self._waiters = 0
        self._tasks: queue.Queue[T] = queue.Queue(size)
        self._when_full = when_full
        self._workers = workers
        self._threads: dict[int, ThreadTask] = {}
        self._numbers = count()
        self._starting = threading.Lock()
        self._closed = threading.Event()

    def put(self, task: T) -> bool:
        """Queue a task; False where there is no room for it, or the queue is closed."""
        while not self._closed.is_set():
            try:
                self._tasks.put(task, block=self._when_full == "block", timeout=1.0)
            except queue.Full:
                if self._when_full == "drop":
                    return False
            else:
                self._start_thread()
                return True
        return False

    def wait(self, timeout: float) -> bool:
        """Wait until everything that was put in is done; False when ``timeout`` seconds were not enough."""
        deadline = time.monotonic() + timeout
        with self._tasks.all_tasks_done:
            self._waiters += 1
            while self._tasks.unfinished_tasks and (left := deadline - time.monotonic()) > 0:
                self._tasks.all_tasks_done.wait(left)
            self._waiters -= 1
            return not self._tasks.unfinished_tasks

    def close(self) -> None:
        """Let the threads end; what is still queued is left."""
        self._closed.set()

    def _start_thread(self) -> None:
        with self._starting:
            self._threads = {number: thread for number, thread in self._threads.items() if thread.alive}
            if len(self._threads) < self._workers:
                number = next(self._numbers)
                self._threads[number] = start_thread(partial(self._run, number), name="ragmetrics-scoring")

    def _run(self, number: int) -> None:
        while not self._closed.is_set():
            batch = self._next_batch()
            if not batch and self._end_thread(number):
                return
            self._yield_to_application()
            count = len(batch)
            try:
                self._work(batch)
            finally:
                del batch  # nothing is kept of what is done
                for _ in range(count):
                    self._tasks.task_done()

    def _next_batch(self) -> list[T]:
        """What is there, at most ``_TASKS_PER_BATCH``; empty when nothing came for a while."""
        batch: list[T] = []
        try:
            batch.append(self._tasks.get(timeout=_QUEUE_IDLE_SECONDS))
            self._let_pass(_GATHER_SECONDS, lambda: True)  # one batch costs the application less than many
            while len(batch) < _TASKS_PER_BATCH:
                batch.append(self._tasks.get_nowait())
        except queue.Empty:
            pass
        return batch

    def _yield_to_application(self) -> None:
        """Scoring may be pure computing, which in one process slows the chain down, however many threads there are."""
        self._let_pass(_LONGEST_YIELD, self._busy)

    def _let_pass(self, seconds: float, wanted: Callable[[], bool]) -> None:
        until = time.monotonic() + seconds
        while wanted() and not self._waiters and 2 * self._tasks.qsize() < self._size and time.monotonic() < until:
            time.sleep(_YIELD_STEP)

    def _end_thread(self, number: int) -> bool:
        """Whether this thread may end: decided under the lock that starting one takes after a task was put in."""
        with self._starting:
            if not self._tasks.empty():
                return False
            self._threads.pop(number, None)
            return True
