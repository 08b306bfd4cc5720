"""Decides when to send a request again: reads failures, counts attempts, and limits tokens per minute."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from json import JSONDecodeError
from typing import Any, NamedTuple, TypeVar

import tenacity

from mlflow_ragmetrics.core.safe_text import said_in
from mlflow_ragmetrics.engine.threads import pause
from mlflow_ragmetrics.errors import JudgeError
from mlflow_ragmetrics.judges.chat.judge_options import RetryOptions

REFUSED_KEYS = {401, 403}
_SPENT = re.compile(
    "insufficient_quota|billing_hard_limit_reached|credit balance is too low|exceeded your current quota",
    re.IGNORECASE,
)
_QUOTA_ID = re.compile(r"quota_?id\W+(\w+)", re.IGNORECASE)
_SOON = re.compile(r"per(?:minute|second)", re.IGNORECASE)  # Google names all limits alike
_DELAY = re.compile(r"retry_?delay\W+(?:seconds\W+)?(\d+(?:\.\d+)?)", re.IGNORECASE)  # Google's, in seconds


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        following = following.__cause__ or following.__context__


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of a client's exception or of one of its causes."""
    for cause in _causes(error):
        for holder in (cause, getattr(cause, "response", None)):
            for name in ("status_code", "http_status", "status", "code"):
                status = getattr(holder, name, None)
                if isinstance(status, int) and 100 <= status <= 599:
                    return status
    return None


def retry_after(error: BaseException) -> float | None:
    """Return the seconds to wait by a ``Retry-After`` (or ``retry-after-ms``) header; ``None`` without one."""
    for cause in _causes(error):
        headers = getattr(getattr(cause, "response", None), "headers", None)
        for name, units in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
            with suppress(AttributeError, TypeError, ValueError):  # no headers, or a date
                return max(0.0, float(headers.get(name)) / units)  # type: ignore[union-attr]
    delays = [_DELAY.search(f"{getattr(cause, 'body', '')} {cause}") for cause in _causes(error)]
    return next((float(delay[1]) for delay in delays if delay is not None), None)


def _quota_is_spent(error: BaseException) -> bool:
    """Whether the code, body or message says that the account's quota is exhausted, so waiting cannot help."""
    if status_of(error) == 402:
        return True
    messages = [f"{getattr(cause, 'code', '')} {getattr(cause, 'body', '')} {cause}" for cause in _causes(error)]
    text = next(filter(_SPENT.search, messages), None)
    if text is None:
        return False
    limits = _QUOTA_ID.findall(text)  # Google uses the same words for limits per minute
    return any(not _SOON.search(limit) for limit in limits) if limits else _DELAY.search(text) is None


def may_be_charged(error: BaseException) -> bool:
    """Whether a model may have worked on the request despite this error."""
    is_refused = any("refused" in str(cause).lower() for cause in _causes(error))  # the connection
    return not is_refused and _kind_of(error) in (_TIMEOUT, _SPOILED, _UNREACHABLE)


def failure_of(name: str, error: Exception, attempts: int) -> JudgeError:
    """Convert a client's exception to a ``JudgeError`` without secrets; fatal if the key was refused."""
    tries = f" after {attempts} attempts" if attempts > 1 else ""
    if isinstance(error, JudgeError):
        is_of_call = error.code in ("timeout", "interrupted") and not error.fatal
        return JudgeError(f"{name}: {error}{tries}", code=error.code) if is_of_call else error
    status = status_of(error)
    said = said_in(error)
    if status in REFUSED_KEYS:
        message = f"{name}: the provider refused the key or the access to the model (HTTP {status}); check both. {said}"
        return JudgeError(message, fatal=True, code=f"http_{status}", origin=error)
    kind = _kind_of(error)
    if kind is _QUOTA:
        message = f"{name}: {_QUOTA.message} (HTTP {status}): {said}"
        return JudgeError(message, code=_QUOTA.code, origin=error)
    what = f"HTTP {status}" if status is not None else type(error).__name__
    if kind is _SPOILED:
        what = f"the reply is not a chat completion ({what})"
    code = f"http_{status}" if status is not None else "failed"
    return JudgeError(f"{name}: {what}{tries}: {said}", code=code, origin=error)


T = TypeVar("T")


@dataclass(frozen=True)
class Retry:
    """Repeats an action while another attempt may succeed: after HTTP 429, 5xx and the other ``options.codes``,
    timeouts, connection errors and broken replies.

    ``passes``: whether an otherwise final failure is temporary.
    """

    options: RetryOptions = field(default_factory=RetryOptions)
    sleep: Callable[[float], None] = pause
    passes: Callable[[BaseException], bool] = lambda error: False

    def worth_it(self, error: BaseException) -> bool:
        """Whether another attempt may succeed."""
        status, kind = status_of(error), _kind_of(error)
        if isinstance(error, JudgeError) or kind is _QUOTA or status in REFUSED_KEYS:
            return kind is _TIMEOUT
        if status is not None and (retry_after(error) or 0.0) > self.options.longest_ask:
            return False
        is_client_error = self.options.on_client_errors and status is not None and 400 <= status < 500
        is_transient = kind in (_SPOILED, _UNREACHABLE, _BROKEN) or status in self.options.codes
        return is_transient or is_client_error or self.passes(error)

    def wait_after(self, error: BaseException, attempt: int) -> float:
        """Return the seconds to wait after failed attempt ``attempt``, from 1: as requested, else exponential."""
        grown = min(self.options.longest, self.options.initial * self.options.multiplier ** (attempt - 1))
        requested = retry_after(error)
        return grown * random.uniform(0.5, 1.0) if requested is None else requested

    def run(self, action: Callable[[], T], *, before_retry: Callable[[BaseException, float], None]) -> T:
        """Run ``action`` until it succeeds or no attempt is left; raise its last error."""
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.options.attempts),
            retry=tenacity.retry_if_exception(self.worth_it),
            wait=lambda state: self.wait_after(_error_in(state), state.attempt_number),
            before_sleep=lambda state: before_retry(_error_in(state), state.upcoming_sleep),
            sleep=self.sleep,
            reraise=True,
        )
        return retrying(action)


def _error_in(state: Any) -> BaseException:
    return state.outcome.exception()  # type: ignore[no-any-return]


_STEADY = 5.0
_PROBE = 2.0  # seconds between requests that try whether the model answers again


class _Kind(NamedTuple):
    """A kind of failure; the breaker opens after ``failures`` in a row over at least ``seconds``."""

    code: str
    message: str
    failures: int
    seconds: float = 0.0


_QUOTA = _Kind("quota", "the account's quota is exhausted", 4)
_SPOILED = _Kind("not_a_completion", "the address does not reply with chat completions", 4, seconds=5.0)
_UNREACHABLE = _Kind("unreachable", "the server cannot be reached", 4, seconds=5.0)
_TIMEOUT = _Kind("timeout", "the server does not reply in time", 8, seconds=5.0)
_BROKEN = _Kind("http_5xx", "the server only replies with errors", 12, seconds=60.0)
_ABSENT = {404, 405, 410}
_OF_CONNECTIONS = ("ConnectionError", "TransportError", "ConnectError", "TimeoutError")


def _kind_of(error: BaseException) -> _Kind | None:
    """Return the kind of a failure; ``None`` if other requests may still succeed (a text that is too long)."""
    if isinstance(error, JudgeError):
        return _TIMEOUT if error.code == "timeout" else None
    if _quota_is_spent(error):
        return _QUOTA
    status = status_of(error)
    if status is None:
        if isinstance(error, (IndexError, JSONDecodeError)):  # LangChain's IndexError for a reply without choices
            return _SPOILED
        names = {kind.__name__ for cause in _causes(error) for kind in type(cause).__mro__}
        # clients wrap socket errors in their own classes, which cannot be imported here
        return _UNREACHABLE if any(name.endswith(_OF_CONNECTIONS) for name in names) else None
    if status in _ABSENT:
        return _Kind(f"http_{status}", f"there is no such model or address (HTTP {status})", 4)
    return _SPOILED if status < 300 else _BROKEN if status >= 500 else None


class Breaker:
    """Opens after the same failure several times in a row; while it is open, requests fail at once, fatally.

    An occasional request still passes, and its success closes the breaker. If the model has answered before, failures
    must last several seconds first, unless the quota is exhausted. ``opened``: the error of other requests.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._kind: _Kind | None = None
        self._failures = 0
        self._began = 0.0
        self._has_answered = False
        self.opened: JudgeError | None = None
        self._probe_at = 0.0
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise the error while the breaker is open, except for an occasional request."""
        with self._lock:
            if self.opened is None:
                return
            if time.monotonic() < self._probe_at:
                raise self.opened
            self._probe_at = time.monotonic() + _PROBE

    def succeeded(self) -> None:
        """Record a reply."""
        with self._lock:
            self._kind = self.opened = None
            self._has_answered = True

    def is_passing(self, error: BaseException) -> bool:
        """Whether a missing address has answered before."""
        return self._has_answered and status_of(error) in _ABSENT

    def failed(self, error: BaseException) -> None:
        """Record a failed request; raise if the breaker is open."""
        kind = _kind_of(error)
        with self._lock:
            if kind is None:
                return
            if kind != self._kind:
                self._kind, self._failures, self._began = kind, 0, time.monotonic()
            self._failures += 1
            seconds = max(kind.seconds, _STEADY) if self._has_answered and kind is not _QUOTA else kind.seconds
            is_enough = self._failures >= kind.failures and time.monotonic() - self._began >= seconds
            if self.opened is None and not is_enough:
                return
            requests = f"{self._failures} requests in a row failed"
            message = f"{self._name}: {kind.message}; {requests}, and no more are sent; earlier answers are kept"
            self.opened = JudgeError(message, fatal=True, code=kind.code)
            self._probe_at = time.monotonic() + _PROBE
            raise self.opened from None


_MINUTE = 60.0


class TokenLimiter:
    """Limits the tokens sent in any 60 seconds to ``tokens_per_minute``.

    A request larger than the limit passes alone. ``hold`` pauses all requests, as ``Retry-After`` asks.
    """

    def __init__(self, tokens_per_minute: float | None = None, *, now: Callable[[], float] = time.monotonic) -> None:
        self.tokens = tokens_per_minute
        self._now = now
        self._passed: list[tuple[float, int]] = []
        self._held_until = 0.0
        self._lock = threading.Lock()

    def enter(self, tokens: int) -> float:
        """Seconds to wait before a request of ``tokens`` tokens; 0.0 counts it, and you may send it now."""
        with self._lock:
            now = self._now()
            self._passed = [(passed_at, spent) for passed_at, spent in self._passed if passed_at > now - _MINUTE]
            wait = self._held_until - now
            if self.tokens is not None:
                if self._passed and sum(spent for _, spent in self._passed) + tokens > self.tokens:
                    wait = max(wait, self._passed[0][0] + _MINUTE - now)
                if wait <= 0:
                    self._passed.append((now, tokens))
            return max(0.0, wait)

    def hold(self, seconds: float) -> None:
        """Let nothing pass for ``seconds`` from now."""
        with self._lock:
            self._held_until = max(self._held_until, self._now() + seconds)
