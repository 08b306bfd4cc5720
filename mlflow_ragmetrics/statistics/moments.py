"""The interval of the mean of scores that are elsewhere, from what a database finds out in one pass over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlflow_ragmetrics.statistics.bca import limits_of_moments
from mlflow_ragmetrics.statistics.intervals import normal_deviate, wilson_interval

__all__ = ["Moments", "interval_of_moments"]


@dataclass(frozen=True)
class Moments:
    """How many scores, their mean, population deviation and skewness, their range, and whether all are 0 or 1."""

    rows: int
    mean: float
    deviation: float
    skewness: float
    least: float
    most: float
    is_binary: bool


def interval_of_moments(moments: Moments, *, level: float = 0.95) -> tuple[float, float] | None:
    """What ``bootstrap_interval`` gives for more than ``MANY_ROWS`` such scores; ``None`` for fewer than two."""
    if moments.rows < 2:
        return None
    if moments.is_binary:
        return wilson_interval(moments.mean, moments.rows, level)
    rows = np.array([moments.rows], dtype=float)
    root = np.sqrt(rows)
    deviate = normal_deviate(rows, level)
    low, high = limits_of_moments(moments.deviation / root, moments.skewness / (6 * root), deviate)
    start, end = moments.mean + float(low[0]), moments.mean + float(high[0])
    return min(max(start, moments.least), moments.mean), max(min(end, moments.most), moments.mean)
