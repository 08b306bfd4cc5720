"""Every error the package raises on purpose.

::

    RagMetricsError
    ├── MissingFieldError     (also ValueError)   a metric needs a field that the sample does not have
    ├── InvalidFieldError     (also ValueError)   a field is there, but cannot be read
    ├── InvalidOptionError    (also ValueError)   an option, a name or a spelling is not accepted
    │   └── MissingKeyError                       a model's key is not in the environment
    ├── InvalidDataError      (also ValueError)   a file or a data set as a whole cannot be read
    ├── JudgeError                                a judge or an embedding model did not answer
    │   ├── JudgeReplyError                       it answered, but the reply cannot be used
    │   ├── AllJudgesFailedError                  none of the judges answered
    │   ├── NoConsensusError                      the judges differ by more than the tolerance
    │   └── BudgetExceededError                   the limit on calls or cost is reached
    ├── GateError             (also AssertionError)   a report is below a limit that was set for it
    └── MissingExtraError                         an optional dependency is not installed

Each message is one sentence that names the metric, the field or option, and the way out.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    "MissingKeyError",
    "NoConsensusError",
    "RagMetricsError",
]


class RagMetricsError(Exception):
    """The root of the tree: ``except RagMetricsError`` catches all that the package raises on purpose.

    ``report``: the ``Report`` of what was done, where the error ends an evaluation.
    """

    def __init__(self, message: str, *, metric: str | None = None) -> None:
        super().__init__(message)
        self.metric = metric
        self.report: Any = None


class MissingFieldError(RagMetricsError, ValueError):
    """A metric needs ``field`` and the sample has no value for it.

    ``report``: the ``Report`` of what was done, where the error ends an evaluation of which the chain has been run.
    """

    def __init__(self, message: str, *, field: str, metric: str | None = None) -> None:
        super().__init__(message, metric=metric)
        self.field = field


class InvalidFieldError(RagMetricsError, ValueError):
    """The value of ``field`` has a type or a form that cannot be read."""

    def __init__(self, message: str, *, field: str, metric: str | None = None) -> None:
        super().__init__(message, metric=metric)
        self.field = field


class InvalidOptionError(RagMetricsError, ValueError):
    """The option ``param`` has a value that is not accepted, or a name is unknown."""

    def __init__(self, message: str, *, param: str, metric: str | None = None) -> None:
        super().__init__(message, metric=metric)
        self.param = param


class MissingKeyError(InvalidOptionError):
    """A model cannot be made for want of its key; ``variable`` is the environment variable that would hold it."""

    def __init__(self, message: str, *, param: str, variable: str) -> None:
        super().__init__(message, param=param)
        self.variable = variable


class InvalidDataError(RagMetricsError, ValueError):
    """A file or a data set cannot be read as rows."""


class JudgeError(RagMetricsError):
    """A judge or an embedding model did not answer a question.

    ``fatal``: it will not answer any other either (a refused key, a spent budget), so it is not asked again.
    ``code`` names the kind of failure where there is one: ``"refused"``, ``"cut_short"``, ``"timeout"``, ….
    """

    def __init__(
        self, message: str, *, metric: str | None = None, fatal: bool = False, code: str | None = None
    ) -> None:
        super().__init__(message, metric=metric)
        self.fatal = fatal
        self.code = code


class JudgeReplyError(JudgeError):
    """A judge answered, but its reply cannot be used; it is never guessed at."""


class AllJudgesFailedError(JudgeError):
    """Every judge (or every embedding model) failed on a question."""


class NoConsensusError(JudgeError):
    """``aggregate="consensus"``: the judges' scores lie further apart than ``tolerance``."""


class BudgetExceededError(JudgeError):
    """``max_calls`` or ``max_cost`` is reached; what was answered before is kept."""


class GateError(RagMetricsError, AssertionError):
    """A check failed; pytest shows the reasons as those of a failed assertion. ``checks`` are those that failed."""

    def __init__(self, message: str, checks: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.checks = tuple(checks)


class MissingExtraError(RagMetricsError, ImportError):
    """An optional dependency is missing; the message holds the pip command that installs it."""
