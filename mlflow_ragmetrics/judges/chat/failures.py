"""Reads what a client's exception says: its kind, when to try again, and which feature the model rejects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from contextlib import suppress
from json import JSONDecodeError
from typing import NamedTuple

from mlflow_ragmetrics.core.safe_text import said_in
from mlflow_ragmetrics.errors import JudgeError

REFUSED_KEYS = {401, 403}
_SPENT = re.compile(
    "insufficient_quota|billing_hard_limit_reached|credit balance is too low|exceeded your current quota", re.IGNORECASE
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
    return not is_refused and kind_of(error) in (TIMEOUT, SPOILED, UNREACHABLE)


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
    kind = kind_of(error)
    if kind is QUOTA:
        message = f"{name}: {QUOTA.message} (HTTP {status}): {said}"
        return JudgeError(message, code=QUOTA.code, origin=error)
    what = f"HTTP {status}" if status is not None else type(error).__name__
    if kind is SPOILED:
        what = f"the reply is not a chat completion ({what})"
    code = "failed" if status is None else f"http_{status}"
    return JudgeError(f"{name}: {what}{tries}: {said}", code=code, origin=error)


class Kind(NamedTuple):
    """A kind of failure; the breaker opens after ``failures`` in a row over at least ``seconds``."""

    code: str
    message: str
    failures: int
    seconds: float = 0.0


QUOTA = Kind("quota", "the account's quota is exhausted", 4)
SPOILED = Kind("not_a_completion", "the address does not reply with chat completions", 4, seconds=5.0)
UNREACHABLE = Kind("unreachable", "the server cannot be reached", 4, seconds=5.0)
TIMEOUT = Kind("timeout", "the server does not reply in time", 8, seconds=5.0)
BROKEN = Kind("http_5xx", "the server only replies with errors", 12, seconds=60.0)
TRANSIENT = (SPOILED, UNREACHABLE, BROKEN)
ABSENT = {404, 405, 410}
_OF_CONNECTIONS = ("ConnectionError", "TransportError", "ConnectError", "TimeoutError")


def kind_of(error: BaseException) -> Kind | None:
    """Return the kind of a failure; ``None`` if other requests may still succeed (a text that is too long)."""
    if isinstance(error, JudgeError):
        return TIMEOUT if error.code == "timeout" else None
    if _quota_is_spent(error):
        return QUOTA
    status = status_of(error)
    if status is None:
        if isinstance(error, (IndexError, JSONDecodeError)):  # LangChain's IndexError for a reply without choices
            return SPOILED
        names = {kind.__name__ for cause in _causes(error) for kind in type(cause).__mro__}
        # clients wrap socket errors in their own classes, which cannot be imported here
        return UNREACHABLE if any(name.endswith(_OF_CONNECTIONS) for name in names) else None
    if status in ABSENT:
        return Kind(f"http_{status}", f"there is no such model or address (HTTP {status})", 4)
    return SPOILED if status < 300 else BROKEN if status >= 500 else None


_REJECTED = {400, 404, 415, 422, 501}
_FILTERED = re.compile(r"content[ _-]?(?:filter|management|policy)|flagged|moderation", re.IGNORECASE)
_NO = (
    r"(?:un|not |n't )(?:support|allow|permit|enabl|avail|implement|recogni|known|expect)\w*|invalid\b|deprecated"
    r"|extra inputs|must alternate|can only be|may only be|no endpoint"
)
_BETWEEN = r"(?:value|parameter|argument|field|option|type|for|the|in|of|keyword|supports|with|this|model)"


def _stated(name: str) -> re.Pattern[str]:
    """Return a pattern for errors that reject ``name`` itself, not for texts that only mention it."""
    named = rf"['\"`]?\b(?:{name})\b['\"`]?"
    pattern = rf"{named}[^'\"{{}}.]{{0,30}}?(?:{_NO})|(?:{_NO})(?:\W+{_BETWEEN})*\W*{named}"
    return re.compile(pattern, re.IGNORECASE)


_STATED = {
    "temperature": _stated("temperature"),
    "system": _stated("(?:system|developer)(?:[ _-]?(?:role|message|prompt|instruction)s?)?|role|roles"),
    "structured": _stated(
        r"response[ _]format|json[ _](?:schema|object|mode)|structured[ _]outputs?|tools?|tool_choice|function"
        r"|function[ _]calling|schema|grammar|guided_json"
    ),
}
FEATURES = {"temperature": "the temperature", "system": "the system turn", "structured": "the schema of the reply"}
"""What a request has if its model supports it."""


def rejected_feature(error: BaseException, features: Set[str]) -> tuple[str, bool] | None:
    """Return the feature to leave out next, and whether the error names it; ``None`` if that cannot help."""
    status = status_of(error)
    text = f"{error} {getattr(error, 'body', '')}"
    is_rejection = status in _REJECTED or (status is None and isinstance(error, ValueError))
    if not is_rejection or _FILTERED.search(text):
        return None
    stated = next((name for name, pattern in _STATED.items() if name in features and pattern.search(text)), None)
    if stated is not None:
        return stated, True
    return ("structured", False) if "structured" in features and status not in (None, 404) else None
