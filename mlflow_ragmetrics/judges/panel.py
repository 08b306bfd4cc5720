"""Several judges under one name, with the way in which their scores become one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlflow_ragmetrics.core.aggregate import Aggregate
from mlflow_ragmetrics.core.aggregate import aggregate as aggregated
from mlflow_ragmetrics.core.judge import Judge
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.judges.resolve import JudgeLike, judges_of

__all__ = ["Panel"]


class Panel:
    """Judges that each score every judged metric (seed 002, several models).

    ``judges``: URIs, chat models or judges, with different names. ``aggregate``: mean, median, min, max, majority or
    consensus; with consensus the judges' scores may lie at most ``tolerance`` apart. A judge that fails has no vote.
    ``InvalidOptionError`` names what cannot be used.

    >>> Panel(["lexical"], aggregate="median")
    Panel(lexical, aggregate='median')
    """

    def __init__(
        self,
        judges: Sequence[JudgeLike],
        *,
        name: str = "panel",
        aggregate: Aggregate = "mean",
        tolerance: float = 0.1,
        language: str = "en",
    ) -> None:
        if isinstance(judges, str):
            raise InvalidOptionError(f"judges={judges!r} must be a list", param="judges")
        aggregated([0.5], aggregate, tolerance)
        self.judges: tuple[Judge, ...] = tuple(judges_of(list(judges), language=language))
        self.name = name
        self.aggregate: Aggregate = aggregate
        self.tolerance = tolerance

    def __iter__(self) -> Iterator[Judge]:
        return iter(self.judges)

    def __len__(self) -> int:
        return len(self.judges)

    def __repr__(self) -> str:
        names = ", ".join(judge.name for judge in self.judges)
        return f"{type(self).__name__}({names}, aggregate={self.aggregate!r})"
