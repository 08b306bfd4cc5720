"""The errors that the package raises on purpose.

::

    RagMetricsError
    ├── MissingFieldError     (also ValueError)   a metric needs a field that the sample does not have
    ├── InvalidFieldError     (also ValueError)   a field cannot be read
    ├── InvalidOptionError    (also ValueError)   an option or a name is not accepted
    ├── InvalidDataError      (also ValueError)   a file or a data set as a whole cannot be read
    ├── JudgeError                                a judge or an embedding model did not answer
    │   ├── JudgeReplyError                       it answered, but the reply cannot be used
    │   ├── AllJudgesFailedError                  none of the judges answered
    │   ├── NoConsensusError                      the judges differ by more than the tolerance
    │   └── BudgetExceededError                   the limit on calls or cost is reached
    ├── GateError             (also AssertionError)   a score or report misses a limit
    └── MissingExtraError                         an optional dependency is not installed

Each message is one sentence that names the metric, the field or option, and the solution.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from traceback import extract_tb
from typing import Any

__all__ = [
    "AllJudgesFailedError",
    "BudgetExceededError",
    "GateError",
    "InvalidDataError",
    "InvalidFieldError",
    "InvalidOptionError",
    "JudgeError",
    "JudgeReplyError",
    "MissingExtraError",
    "MissingFieldError",
    "NoConsensusError",
    "RagMetricsError",
]


def origin_of(error: BaseException) -> dict[str, str]:
    """The class of an exception, and the file (without its folder), line and function that raised it."""
    frames = extract_tb(error.__traceback__)[-1:]
    place = "".join(f"{os.path.basename(frame.filename)}:{frame.lineno} in {frame.name}" for frame in frames)
    return {"exception": type(error).__name__, "place": place}


class RagMetricsError(Exception):
    """The base class: ``except RagMetricsError`` catches every error that the package raises on purpose.

    ``report``: the ``Report`` of the rows scored so far, if the error ends an evaluation.
    """

    def __init__(self, message: str, *, metric: str | None = None) -> None:
        super().__init__(message)
        self.metric = metric
        self.report: Any = None


class _FieldError(RagMetricsError, ValueError):
    def __init__(self, message: str, *, field: str, metric: str | None = None) -> None:
        super().__init__(message, metric=metric)
        self.field = field


class MissingFieldError(_FieldError):
    """A metric needs ``field``, but the sample has no value for it.

    ``report``: the ``Report`` of the rows scored so far, if the error comes after a chain has run.
    """


class InvalidFieldError(_FieldError):
    """The value of ``field`` has a type or form that cannot be read."""


class InvalidOptionError(RagMetricsError, ValueError):
    """The value of the option ``param`` is not accepted, or a name is unknown."""

    def __init__(self, message: str, *, param: str, metric: str | None = None) -> None:
        super().__init__(message, metric=metric)
        self.param = param


class InvalidDataError(RagMetricsError, ValueError):
    """A file or a data set cannot be read as rows."""


class JudgeError(RagMetricsError):
    """A judge or an embedding model did not answer a question.

    ``fatal``: it cannot answer other questions either (a refused key, a spent budget), so no more are sent. ``code``:
    the kind of failure, if there is one: ``"refused"``, ``"cut_short"``, ``"timeout"``, …. ``details``: the
    class (``exception``) and the ``place`` of the client's exception behind it; empty without one.
    """

    def __init__(
        self,
        message: str,
        *,
        metric: str | None = None,
        fatal: bool = False,
        code: str | None = None,
        origin: BaseException | None = None,
    ) -> None:
        super().__init__(message, metric=metric)
        self.fatal = fatal
        self.code = code
        self.details = {} if origin is None else origin_of(origin)


class JudgeReplyError(JudgeError):
    """A judge answered, but its reply cannot be used. Unclear replies are never guessed at."""


class AllJudgesFailedError(JudgeError):
    """Every judge (or every embedding model) failed on a question."""


class NoConsensusError(JudgeError):
    """``aggregate="consensus"``: the judges' scores differ by more than ``tolerance``."""


class BudgetExceededError(JudgeError):
    """``max_calls`` or ``max_cost`` is reached; earlier answers are kept."""


class GateError(RagMetricsError, AssertionError):
    """A check failed; pytest shows the reasons like those of an assertion. ``checks``: the failed ones."""

    def __init__(self, message: str, checks: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.checks = tuple(checks)


class MissingExtraError(RagMetricsError, ImportError):
    """An optional dependency is missing; the message contains the pip command that installs it."""
