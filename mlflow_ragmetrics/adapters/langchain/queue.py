"""A bounded queue and the threads that empty it, away from the chain."""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, Literal, TypeVar

__all__ = ["Crew", "WhenFull"]

T = TypeVar("T")
WhenFull = Literal["drop", "block"]

_BATCH = 16
_IDLE_SECONDS = 2.0
_PATIENCE = 0.1
_LOOK_AGAIN = 0.005


class Crew(Generic[T]):
    """Hands what is put in to ``work``, which never raises, in batches of what is there, on daemon threads.

    Threads begin when there is something to do, also after a fork, and end when there has been nothing for a while.
    They run in an empty context: nothing of the application's (callbacks, open spans) reaches what they call. While
    the application is ``busy`` they let it go first, for a tenth of a second and as long as there is room.
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
        self._awaited = 0
        self._tasks: queue.Queue[T] = queue.Queue(size)
        self._when_full = when_full
        self._workers = workers
        self._threads: list[threading.Thread] = []
        self._hiring = threading.Lock()
        self._closed = threading.Event()

    def put(self, task: T) -> bool:
        """Queue a task; False where there is no room for it, or the crew is closed."""
        while not self._closed.is_set():
            try:
                self._tasks.put(task, block=self._when_full == "block", timeout=1.0)
            except queue.Full:
                if self._when_full == "drop":
                    return False
            else:
                self._hire()
                return True
        return False

    def wait(self, timeout: float) -> bool:
        """Wait until everything that was put in is done; False when ``timeout`` seconds were not enough."""
        deadline = time.monotonic() + timeout
        with self._tasks.all_tasks_done:
            self._awaited += 1
            while self._tasks.unfinished_tasks and (left := deadline - time.monotonic()) > 0:
                self._tasks.all_tasks_done.wait(left)
            self._awaited -= 1
            return not self._tasks.unfinished_tasks

    def close(self) -> None:
        """Let the threads end; what is still queued is left."""
        self._closed.set()

    def _hire(self) -> None:
        with self._hiring:
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            if len(self._threads) < self._workers:
                context = contextvars.Context()
                thread = threading.Thread(target=context.run, args=(self._run,), name="ragmetrics-live", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _run(self) -> None:
        while not self._closed.is_set():
            batch = self._next_batch()
            if not batch and self._leave():
                return
            self._let_others_go_first()
            try:
                self._work(batch)
            finally:
                for _ in batch:
                    self._tasks.task_done()

    def _next_batch(self) -> list[T]:
        """What is there, at most ``_BATCH``; empty when nothing came for a while."""
        batch: list[T] = []
        try:
            batch.append(self._tasks.get(timeout=_IDLE_SECONDS))
            while len(batch) < _BATCH:
                batch.append(self._tasks.get_nowait())
        except queue.Empty:
            pass
        return batch

    def _let_others_go_first(self) -> None:
        """Scoring may be pure computing, which in one process slows the chain down, however many threads there are."""
        until = time.monotonic() + _PATIENCE
        while self._busy() and not self._awaited and 2 * self._tasks.qsize() < self._size and time.monotonic() < until:
            time.sleep(_LOOK_AGAIN)

    def _leave(self) -> bool:
        """Whether this thread may end: decided under the lock that hiring takes after a task was put in."""
        with self._hiring:
            if not self._tasks.empty():
                return False
            self._threads = [thread for thread in self._threads if thread is not threading.current_thread()]
            return True
