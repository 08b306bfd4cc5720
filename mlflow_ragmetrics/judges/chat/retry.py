"""Which failed requests are sent again and when, and when a model that does not answer is asked no more."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import tenacity

from mlflow_ragmetrics.engine.threads import pause
from mlflow_ragmetrics.errors import JudgeError
from mlflow_ragmetrics.judges.chat.failures import (
    REFUSED_KEYS,
    is_connection_failure,
    is_spoiled,
    quota_is_spent,
    retry_after,
    status_of,
)
from mlflow_ragmetrics.judges.chat.options import RetryOptions

T = TypeVar("T")


@dataclass(frozen=True)
class Retry:
    """Does an action again where another attempt may succeed. ``sleep`` returns True where the run was ended meanwhile.

    Tried again are HTTP 429, 5xx and the other ``options.codes``, timeouts, connection errors and broken replies.
    """

    options: RetryOptions = field(default_factory=RetryOptions)
    sleep: Callable[[float], bool] = pause

    def asks_to_wait(self, error: BaseException) -> bool:
        """Whether the provider said that it is asked too often, or how long to wait."""
        return status_of(error) == 429 or retry_after(error) is not None

    def worth_it(self, error: BaseException) -> bool:
        """Whether another attempt may succeed."""
        if isinstance(error, JudgeError):
            return error.code == "timeout"
        status = status_of(error)
        if quota_is_spent(error):
            return False
        if status is None:
            return is_spoiled(error) or (isinstance(error, Exception) and is_connection_failure(error))
        if status in REFUSED_KEYS:
            return False
        asked = retry_after(error)
        if asked is not None and asked > self.options.longest_ask:
            return False
        return (
            is_spoiled(error)
            or status >= 500
            or status in self.options.codes
            or (self.options.on_client_errors and 400 <= status < 500)
        )

    def wait_after(self, error: BaseException, attempt: int) -> float:
        """Seconds to wait after the failed attempt of this number, from 1: what was asked for, else exponential."""
        asked = retry_after(error)
        if asked is not None:
            return asked
        grown = min(self.options.longest, self.options.initial * self.options.multiplier ** (attempt - 1))
        return grown * random.uniform(0.5, 1.0)

    def run(self, action: Callable[[], T], *, before_retry: Callable[[BaseException, float], None]) -> T:
        """Do ``action`` until it succeeds or no attempt is left; raises its last error."""
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.options.attempts),
            retry=tenacity.retry_if_exception(self.worth_it),
            wait=lambda state: self.wait_after(_error_in(state), state.attempt_number),
            before_sleep=lambda state: before_retry(_error_in(state), state.upcoming_sleep),
            sleep=self._sleep,
            reraise=True,
        )
        return retrying(action)

    def _sleep(self, seconds: float) -> None:
        if self.sleep(seconds):
            raise JudgeError("the run was ended before the judge answered", code="interrupted")


def _error_in(state: tenacity.RetryCallState) -> BaseException:
    error = state.outcome.exception() if state.outcome is not None else None
    return error or JudgeError("no attempt was made")


_FIRST_PROBE = 2.0
_LONGEST_PROBE = 60.0


@dataclass(frozen=True)
class _Kind:
    """A kind of failure that repeats: ``failures`` in a row over at least ``seconds``, or ``at_once``, are enough."""

    code: str
    message: str
    failures: int
    seconds: float = 0.0
    at_once: int = 1_000


_QUOTA = _Kind("quota", "the account's quota is exhausted", 4)
_SPOILED = _Kind("not_a_completion", "what the address replies with is not a chat completion", 4)
_UNREACHABLE = _Kind("unreachable", "the server cannot be reached", 4, seconds=5.0, at_once=24)
_TIMEOUT = _Kind("timeout", "the server does not reply in time", 8, seconds=5.0, at_once=64)
_BROKEN = _Kind("http_5xx", "the server only replies with errors", 12, seconds=60.0)
_ABSENT = {404, 405, 410}


def _kind_of(error: BaseException) -> _Kind | None:
    """The kind of a failure; ``None`` for one that says nothing about the next request (a text that is too long)."""
    if isinstance(error, JudgeError):
        return _TIMEOUT if error.code == "timeout" else None
    if quota_is_spent(error):
        return _QUOTA
    if is_spoiled(error):
        return _SPOILED
    status = status_of(error)
    if status in _ABSENT:
        return _Kind(f"http_{status}", f"there is no such model or address (HTTP {status})", 4)
    if status is not None and status >= 500:
        return _BROKEN
    return _UNREACHABLE if status is None and is_connection_failure(error) else None


class Breaker:
    """Opens after the same failure several times in a row; while it is open requests fail at once, fatally.

    Now and then one request is let through: a success closes the breaker, for a judge that lives on for days.
    """

    def __init__(self, name: str, now: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._now = now
        self._kind: _Kind | None = None
        self._failures = 0
        self._began = 0.0
        self._opened: JudgeError | None = None
        self._probe_at = 0.0
        self._wait = _FIRST_PROBE
        self._lock = threading.Lock()

    @property
    def opened(self) -> JudgeError | None:
        """The fatal failure of every request while the breaker is open."""
        return self._opened

    def check(self) -> None:
        """Raise that failure, but for one request now and then."""
        with self._lock:
            if self._opened is None:
                return
            if self._now() < self._probe_at:
                raise self._opened
            self._probe_at = self._now() + self._wait

    def succeeded(self) -> None:
        """A reply came."""
        with self._lock:
            self._kind = self._opened = None
            self._failures, self._wait = 0, _FIRST_PROBE

    def failed(self, error: BaseException) -> None:
        """A request failed; raises where that ends the run."""
        kind = _kind_of(error)
        with self._lock:
            if kind is None:
                return
            if kind != self._kind:
                self._kind, self._failures, self._began = kind, 0, self._now()
            self._failures += 1
            if self._opened is None and not self._is_enough(kind):
                return
            if self._opened is not None:
                self._wait = min(_LONGEST_PROBE, 2 * self._wait)
            requests = f"{self._failures} requests in a row failed so"
            message = f"{self._name}: {kind.message}; {requests}, the run ends and what was answered is kept"
            self._opened = JudgeError(message, fatal=True, code=kind.code)
            self._probe_at = self._now() + self._wait
            raise self._opened from None

    def _is_enough(self, kind: _Kind) -> bool:
        if self._failures >= kind.at_once:
            return True
        return self._failures >= kind.failures and self._now() - self._began >= kind.seconds
