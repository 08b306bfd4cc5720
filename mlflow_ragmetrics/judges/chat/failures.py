"""What a client's exception says: its HTTP status, how long to wait, whether anybody was reached at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from json import JSONDecodeError
from typing import Any

from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.errors import JudgeError

REFUSED_KEYS = {401, 403}
_LONGEST_MESSAGE = 300
_SPENT = (
    "insufficient_quota",
    "billing_hard_limit_reached",
    "credit balance is too low",
    "exceeded your current quota",
)


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


def is_connection_failure(error: BaseException) -> bool:
    """Whether no HTTP reply came: nobody was reached, or not in time."""
    if any(isinstance(cause, (TimeoutError, ConnectionError)) for cause in _causes(error)):
        return True
    names = {kind.__name__ for cause in _causes(error) for kind in type(cause).__mro__}
    # clients wrap the sockets' errors in classes of their own, which cannot be imported here
    return any(name.endswith(("ConnectionError", "TransportError", "ConnectError", "TimeoutError")) for name in names)


def quota_is_spent(error: BaseException) -> bool:
    """Whether the account has nothing left, which no waiting changes: said in the code, the body or the message."""
    for cause in _causes(error):
        said = f"{getattr(cause, 'code', '')} {getattr(cause, 'body', '')} {cause}".lower()
        if status_of(cause) == 402 or any(sign in said for sign in _SPENT):
            return True
    return False


def is_spoiled(error: BaseException) -> bool:
    """Whether a reply came that is not a chat completion: cut short, or a gateway's page."""
    status = status_of(error)
    # an IndexError is how LangChain meets a reply without choices
    return status < 300 if status is not None else isinstance(error, (IndexError, JSONDecodeError))


def may_be_charged(error: BaseException) -> bool:
    """Whether a model may have worked on a request of which only this came."""
    if isinstance(error, JudgeError):
        return error.code == "timeout"
    if any("refused" in str(cause).lower() for cause in _causes(error)):
        return False
    return is_spoiled(error) or (status_of(error) is None and is_connection_failure(error))


def failure_of(name: str, error: Exception, attempts: int) -> JudgeError:
    """The ``JudgeError`` for a client's exception: fatal where the key was refused, never holding a secret."""
    if isinstance(error, JudgeError):
        return error
    status = status_of(error)
    said = redact(" ".join(str(error).split()))[:_LONGEST_MESSAGE]
    if status in REFUSED_KEYS:
        message = f"{name}: the provider refused the key or the access to the model (HTTP {status}); check both. {said}"
        return JudgeError(message, fatal=True, code=f"http_{status}")
    if quota_is_spent(error):
        return JudgeError(f"{name}: the account's quota is exhausted (HTTP {status}): {said}", code="quota")
    what = f"HTTP {status}" if status is not None else type(error).__name__
    if is_spoiled(error):
        what = f"the reply is not a chat completion ({what})"
    tries = f" after {attempts} attempts" if attempts > 1 else ""
    return JudgeError(f"{name}: {what}{tries}: {said}", code=f"http_{status}" if status is not None else "failed")
