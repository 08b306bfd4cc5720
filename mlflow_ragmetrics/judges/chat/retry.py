"""Which failures are worth another attempt, and how long to wait for it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import tenacity

from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.engine.threads import pause
from mlflow_ragmetrics.errors import JudgeError
from mlflow_ragmetrics.judges.chat.options import RetryOptions

__all__ = ["Retry", "failure_of", "retry_after", "status_of"]

T = TypeVar("T")
_REFUSED_KEYS = {401, 403}
_LONGEST_MESSAGE = 300


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        following = following.__cause__ or following.__context__


def status_of(error: BaseException) -> int | None:
    """The HTTP status that a client's exception, or one of its causes, carries."""
    for cause in _causes(error):
        for holder in (cause, getattr(cause, "response", None)):
            for name in ("status_code", "http_status", "status", "code"):
                status = getattr(holder, name, None)
                if isinstance(status, int) and 100 <= status <= 599:
                    return status
    return None


def retry_after(error: BaseException, now: Callable[[], float] = time.time) -> float | None:
    """The seconds that a ``Retry-After`` header (or ``retry-after-ms``) asks to wait; ``None`` without one.

    A date is counted from the server's own ``Date``, where it says one: this machine's clock may be wrong.
    """
    for cause in _causes(error):
        headers = getattr(getattr(cause, "response", None), "headers", None)
        if headers is None or not hasattr(headers, "get"):
            continue
        milliseconds, given = headers.get("retry-after-ms"), headers.get("retry-after")
        try:
            if milliseconds:
                return max(0.0, float(milliseconds) / 1000.0)
            if given:
                return max(0.0, float(given))
        except ValueError:
            until, sent = _moment(given), _moment(headers.get("date"))
            if until is not None:
                return max(0.0, until - (now() if sent is None else sent))
    return None


def _moment(date: Any) -> float | None:
    try:
        return parsedate_to_datetime(str(date)).timestamp()
    except (ValueError, OverflowError):
        return None


def _is_connection_failure(error: BaseException) -> bool:
    if any(isinstance(cause, (TimeoutError, ConnectionError)) for cause in _causes(error)):
        return True
    names = {kind.__name__ for cause in _causes(error) for kind in type(cause).__mro__}
    # clients wrap the sockets' errors in classes of their own, which cannot be imported here
    return any(name.endswith(("ConnectionError", "TransportError", "ConnectError", "TimeoutError")) for name in names)


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
        if status is None:  # an IndexError is how LangChain meets a reply without choices
            return isinstance(error, IndexError) or (isinstance(error, Exception) and _is_connection_failure(error))
        if status in _REFUSED_KEYS or "insufficient_quota" in str(error):
            return False
        asked = retry_after(error)
        if asked is not None and asked > self.options.longest_ask:
            return False
        spoiled = status < 300  # the body is not a chat completion: cut short, or a gateway's page
        return (
            spoiled
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


def failure_of(name: str, error: Exception, attempts: int) -> JudgeError:
    """The ``JudgeError`` for a client's exception: fatal where the key was refused, never holding a secret."""
    if isinstance(error, JudgeError):
        return error
    status = status_of(error)
    said = redact(" ".join(str(error).split()))[:_LONGEST_MESSAGE]
    if status in _REFUSED_KEYS:
        message = f"{name}: the provider refused the key or the access to the model (HTTP {status}); check both. {said}"
        return JudgeError(message, fatal=True, code=f"http_{status}")
    what = f"HTTP {status}" if status is not None else type(error).__name__
    if isinstance(error, IndexError) or (status is not None and status < 300):
        what = f"the reply is not a chat completion ({what})"
    tries = f" after {attempts} attempts" if attempts > 1 else ""
    return JudgeError(f"{name}: {what}{tries}: {said}", code=f"http_{status}" if status is not None else "failed")
