"""Several judges' scores of one metric into one."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

from mlflow_ragmetrics.core.options import Aggregate, Settings, check_options
from mlflow_ragmetrics.core.score import score_of
from mlflow_ragmetrics.errors import (
    AllJudgesFailedError,
    InvalidOptionError,
    NoConsensusError,
)

__all__ = ["aggregate", "agreement", "check_aggregate"]


def aggregate(values: Sequence[float], how: Aggregate = "mean", tolerance: float = 0.1) -> float:
    """One number out of several judges' scores.

    ``majority`` is 1.0 when more than half of the values are at least 0.5, else 0.0; ``consensus`` is the mean when
    max − min is within ``tolerance``, else a ``NoConsensusError``. No values: ``AllJudgesFailedError``. Another
    ``how``, or a tolerance below zero: ``InvalidOptionError``.

    >>> aggregate([0.2, 0.4, 0.9], "median")
    0.4
    """
    how, tolerance = check_aggregate(how, tolerance)
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes, Mapping)):
        raise InvalidOptionError("aggregate needs a list of scores", param="values")
    numbers = [score.value for score in map(score_of, values) if score.value is not None]
    if not numbers:
        raise AllJudgesFailedError("no judge gave a score to aggregate")
    if how == "majority":
        return 1.0 if 2 * sum(number >= 0.5 for number in numbers) > len(numbers) else 0.0
    if how == "consensus" and max(numbers) - min(numbers) > tolerance + 1e-9:
        spread = f"{min(numbers):.3f} to {max(numbers):.3f}"
        raise NoConsensusError(f"the judges' scores go from {spread}, further apart than tolerance={tolerance}")
    reductions: dict[str, Callable[[list[float]], float]] = {"median": statistics.median, "min": min, "max": max}
    return float(reductions.get(how, statistics.fmean)(numbers))


def check_aggregate(how: Aggregate, tolerance: float) -> tuple[Aggregate, float]:
    """Both, checked; ``InvalidOptionError`` for an unknown way to aggregate or a tolerance below zero."""
    checked = check_options("aggregate", Settings, {"aggregate": how, "tolerance": tolerance})
    return checked.aggregate, checked.tolerance


def agreement(values: Sequence[float]) -> float:
    """1 − the mean absolute difference over all pairs of judges, 0 to 1; 1.0 for a single judge."""
    pairs = list(combinations(values, 2))
    return 1.0 - statistics.fmean(abs(a - b) for a, b in pairs) if pairs else 1.0
