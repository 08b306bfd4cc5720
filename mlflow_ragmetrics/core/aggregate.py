"""Several judges' scores into one (seed 002), and several metrics' scores into one (seeds 001 and 004)."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import get_args

from mlflow_ragmetrics.core.options import Aggregate, kind_of
from mlflow_ragmetrics.core.score import score_of
from mlflow_ragmetrics.errors import (
    AllJudgesFailedError,
    InvalidOptionError,
    NoConsensusError,
)

__all__ = ["aggregate", "agreement", "check_aggregate"]


def aggregate(values: Sequence[float], how: Aggregate = "mean", tolerance: float = 0.1) -> float:
    """One number out of several judges' scores (seed 002).

    ``majority`` is 1.0 when more than half of the values are at least 0.5, else 0.0; ``consensus`` is the mean when
    max − min is within ``tolerance``, else a ``NoConsensusError``. No values: ``AllJudgesFailedError``. Another
    ``how``, or a tolerance below zero: ``InvalidOptionError``.

    >>> aggregate([0.2, 0.4, 0.9], "median")
    0.4
    """
    check_aggregate(how, tolerance)
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


def check_aggregate(how: str, tolerance: float) -> None:
    """``InvalidOptionError`` for an unknown way to aggregate or a tolerance below zero."""
    if not isinstance(how, str) or how not in get_args(Aggregate):
        given = repr(how) if isinstance(how, str) else kind_of(how)
        raise InvalidOptionError(f"aggregate={given} is not one of {', '.join(get_args(Aggregate))}", param="aggregate")
    if not isinstance(tolerance, (int, float)) or not 0 <= tolerance <= sys.float_info.max:
        given = repr(tolerance) if isinstance(tolerance, float) else kind_of(tolerance)
        raise InvalidOptionError(f"tolerance={given} must be a number, 0 or more", param="tolerance")


def agreement(values: Sequence[float]) -> float:
    """1 − the mean absolute difference over all pairs of judges, 0 to 1; 1.0 for a single judge."""
    pairs = list(combinations(values, 2))
    return 1.0 - statistics.fmean(abs(a - b) for a, b in pairs) if pairs else 1.0
