"""The interval of the mean of scores that are elsewhere, from what a database finds out in one pass over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlflow_ragmetrics.statistics.bca import limits_of_moments
from mlflow_ragmetrics.statistics.closed_forms import wilson_interval
from mlflow_ragmetrics.statistics.clusters import cluster_mean_intervals
from mlflow_ragmetrics.statistics.groups import GroupTotals
from mlflow_ragmetrics.statistics.intervals import normal_deviate

__all__ = ["Moments", "interval_of_moments", "interval_of_totals"]


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


def interval_of_totals(
    totals: GroupTotals, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> tuple[float, float] | None:
    """What ``bootstrap_interval`` gives for grouped scores, from the totals of one column; ``None`` for fewer than two
    groups.
    """
    return cluster_mean_intervals(totals, level=level, resamples=resamples, seed=seed)[0]
