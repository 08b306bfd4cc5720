"""A bounded crew of daemon threads: the only place where threads are started for judges' calls."""

from __future__ import annotations

import heapq
import queue
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Generic, TypeVar

__all__ = ["Workers", "pause"]

T = TypeVar("T")
_local = threading.local()


def pause(seconds: float) -> bool:
    """Sleep; True where the crew that this thread works for was closed, which ends the sleep at once."""
    closing: threading.Event | None = getattr(_local, "closing", None)
    if closing is None:
        time.sleep(max(0.0, seconds))
        return False
    return closing.wait(max(0.0, seconds))


class Workers(Generic[T]):
    """Runs jobs on at most ``limit`` threads and hands their results back through ``finished``.

    The threads are daemons: a call that hangs cannot keep the interpreter from ending.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_flight = 0
        self._threads = 0
        self._closing = threading.Event()
        self._backlog: list[tuple[float, int, Callable[[], T]]] = []
        self._sequence = count()
        self._handed = 0
        self._jobs: queue.SimpleQueue[Callable[[], T] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[T] = queue.SimpleQueue()

    def submit(self, job: Callable[[], T], priority: float = 0) -> None:
        """Queue ``job``, which must not raise; of those waiting the lowest ``priority`` goes first."""
        self.in_flight += 1
        heapq.heappush(self._backlog, (priority, next(self._sequence), job))
        self._hand_out()
        if self._threads < min(self.limit, self.in_flight):
            self._threads += 1
            threading.Thread(target=self._work, daemon=True, name=f"ragmetrics-{self._threads}").start()

    def finished(self) -> list[T]:
        """Wait for a result, then take all that are there."""
        results = [self._wait()]
        while not self._results.empty():
            results.append(self._results.get())
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
            self._jobs.put(heapq.heappop(self._backlog)[-1])
            self._handed += 1

    def _wait(self) -> T:
        while True:  # in slices: a blocking get cannot be interrupted by Ctrl-C on every platform
            try:
                return self._results.get(timeout=1.0)
            except queue.Empty:
                continue

    def _work(self) -> None:
        _local.closing = self._closing
        while (job := self._jobs.get()) is not None:
            self._results.put(job())
