"""Requests and tokens a minute, and the pauses that a provider asks for: one gate for all threads of a judge."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

__all__ = ["Gate"]

_MINUTE = 60.0


class Gate:
    """Tells each request how long it has to wait.

    Over any 60 seconds at most ``requests_per_minute`` requests and ``tokens_per_minute`` tokens pass; a request that
    is larger than the limit on tokens passes alone. ``hold`` stops all until a moment, as ``Retry-After`` asks.
    """

    def __init__(
        self,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.requests = requests_per_minute
        self.tokens = tokens_per_minute
        self._now = now
        self._passed: deque[tuple[float, int]] = deque()
        self._spent = 0
        self._held_until = 0.0
        self._lock = threading.Lock()

    def enter(self, tokens: int) -> float:
        """0.0 where a request of so many tokens may be sent now (it is then counted), else the seconds to wait."""
        with self._lock:
            now = self._now()
            self._forget(now)
            wait = max(self._held_until - now, self._wait_for_room(tokens, now))
            if wait <= 0 and (self.requests is not None or self.tokens is not None):
                self._passed.append((now, tokens))
                self._spent += tokens
            return max(0.0, wait)

    def hold(self, seconds: float) -> None:
        """Let nothing pass for so many seconds from now."""
        with self._lock:
            self._held_until = max(self._held_until, self._now() + seconds)

    def _wait_for_room(self, tokens: int, now: float) -> float:
        if not self._passed:
            return 0.0
        oldest = self._passed[0][0] + _MINUTE - now
        if self.requests is not None and len(self._passed) + 1 > max(1.0, self.requests):
            return oldest
        if self.tokens is not None and self._spent + tokens > self.tokens:
            return oldest
        return 0.0

    def _forget(self, now: float) -> None:
        while self._passed and self._passed[0][0] <= now - _MINUTE:
            self._spent -= self._passed.popleft()[1]
