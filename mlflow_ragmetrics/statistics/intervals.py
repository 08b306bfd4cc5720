"""Confidence intervals of means and of paired differences.

The rule is the BCa bootstrap (Efron 1987) at levels widened for small samples (Hesterberg 2015: the normal quantile
becomes √(n/(n−1)) times that of Student's t), which covers better than the plain percentile interval for skewed scores
of few rows. Where resampling is blind, a closed form takes its place: Wilson (1927) for the mean of scores that are
all 0 or 1, Agresti and Min (2005) for differences of such scores and for differences that fewer than fifteen rows have.
Beyond 20,000 rows the bootstrap distribution of a mean is read from its Edgeworth expansion (Hall 1992), closer to it
than that many resamples come. Grouped rows have the intervals of ``clusters``. Values are sorted first and sums are
exact: the order of rows, the names of groups and the number of threads change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

import numpy as np
from scipy.special import ndtri, stdtrit

from mlflow_ragmetrics.statistics.bca import bca_limits, edgeworth_limits, orientation
from mlflow_ragmetrics.statistics.closed_forms import agresti_min_interval, wilson_interval
from mlflow_ragmetrics.statistics.clusters import cluster_difference_intervals, cluster_mean_intervals
from mlflow_ragmetrics.statistics.groups import Labels, group_totals
from mlflow_ragmetrics.statistics.resampling import Matrix, Vector, bootstrap_weights, exact_columns

__all__ = [
    "MANY_ROWS",
    "bootstrap_interval",
    "bootstrap_intervals",
    "normal_deviate",
    "paired_intervals",
]

MANY_ROWS = 20_000
_FEW_CHANGES = 15
Interval = Union[tuple[float, float], None]


def bootstrap_interval(
    values: Sequence[float],
    *,
    groups: Union[Labels, None] = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """The interval of the mean of scores, or ``None`` for fewer than two values, or groups; NaN does not count.

    Scores that are all 0 or 1 have Wilson's interval, which is not empty when all agree; others the bootstrap's.
    Reproducible: the same values in any order give the same interval. Memory is bounded whatever the number of values.
    ``groups`` names the group of each value (see ``clusters``).
    """
    return bootstrap_intervals([values], groups=groups, level=level, resamples=resamples, seed=seed)[0]


def bootstrap_intervals(
    columns: Sequence[Sequence[float]],
    *,
    groups: Union[Labels, None] = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> list[Interval]:
    """``bootstrap_interval`` of each column; columns of one length share the resamples, which take most of the time.

    With ``groups`` each column has a value for every row, NaN where it is not scored; ``ValueError`` otherwise.
    """
    samples = [np.asarray(values, dtype=float) for values in columns]
    if groups is not None:
        return _of_groups(
            np.column_stack(samples) if samples else np.empty((0, 0)), groups, False, level, resamples, seed
        )
    samples = [np.sort(sample[~np.isnan(sample)]) for sample in samples]
    intervals = [_share_interval(sample, level) for sample in samples]
    left: dict[int, list[int]] = {}
    for i, sample in enumerate(samples):
        if intervals[i] is None and sample.size > 1:
            left.setdefault(sample.size, []).append(i)
    for places in left.values():
        lows, highs = _resampled(np.column_stack([samples[i] for i in places]), level, resamples, seed)
        for i, low, high in zip(places, lows, highs, strict=True):
            intervals[i] = float(low), float(high)
    return intervals


def paired_intervals(
    differences: Matrix,
    *,
    groups: Union[Labels, None] = None,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> list[Interval]:
    """The interval of the mean of each column of a rows × metrics matrix of paired differences.

    NaN marks a pair that was not scored on both sides; a column with fewer than two pairs (or groups, where ``groups``
    names that of each row) has ``None``, and one without any difference (0, 0). All columns share the resamples: cost
    grows with the rows, hardly with the metrics.
    """
    if groups is not None:
        return _of_groups(differences, groups, True, level, resamples, seed)
    ordered = np.sort(differences, axis=0)
    columns = [column[~np.isnan(column)] for column in ordered.T]
    intervals = [_closed_form(column, level) for column in columns]
    left = [i for i, column in enumerate(columns) if intervals[i] is None and column.size > 1]
    if left:
        lows, highs = _resampled(ordered[:, left], level, resamples, seed)
        for i, low, high in zip(left, lows, highs, strict=True):
            intervals[i] = float(low), float(high)
    return intervals


def _of_groups(values: Matrix, groups: Labels, paired: bool, level: float, resamples: int, seed: int) -> list[Interval]:
    scored = np.flatnonzero(~np.isnan(values).all(axis=0)) if values.size else np.empty(0, dtype=int)
    intervals: list[Interval] = [None] * values.shape[1]
    if scored.size:
        rule = cluster_difference_intervals if paired else cluster_mean_intervals
        found = rule(group_totals(values[:, scored], groups), level=level, resamples=resamples, seed=seed)
        for place, interval in zip(scored, found, strict=True):
            intervals[place] = interval
    return intervals


def _closed_form(differences: Vector, level: float) -> Interval:
    if differences.size < 2:
        return None
    sizes = np.abs(differences)
    largest = float(sizes.max())
    if largest == 0:
        return 0.0, 0.0
    is_binary = bool(np.isin(sizes, (0.0, 1.0)).all())
    if is_binary or int(np.count_nonzero(sizes)) < min(_FEW_CHANGES, differences.size):
        deviate = float(ndtri((1 + level) / 2))
        mean, mean_square = float(differences.mean()), float((differences**2).mean())
        return agresti_min_interval(mean, mean_square, differences.size, largest, deviate)
    return None


def _share_interval(scores: Vector, level: float) -> Interval:
    if scores.size < 2 or not np.isin(scores, (0.0, 1.0)).all():
        return None
    return wilson_interval(float(scores.mean()), scores.size, level)


def _resampled(values: Matrix, level: float, resamples: int, seed: int) -> tuple[Vector, Vector]:
    present = ~np.isnan(values)
    counts = present.sum(axis=0)
    means = np.nanmean(values, axis=0)
    signs = orientation(np.where(present, values - means, 0.0))
    centred = np.where(present, np.sort((values - means) * signs, axis=0), 0.0)
    tail = normal_deviate(counts, level)
    if values.shape[0] > MANY_ROWS:
        low, high = edgeworth_limits(centred, counts, tail)
    else:
        low, high = bca_limits(_replicates(centred, present, resamples, seed), centred, tail)
    low, high = np.where(signs < 0, -high, low), np.where(signs < 0, -low, high)
    least, most = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    return np.clip(means + low, least, means), np.clip(means + high, means, most)


def normal_deviate(rows: Vector, level: float) -> Vector:
    """The normal deviate of the level, widened for so few rows as there are."""
    tail: Vector = stdtrit(rows - 1, (1 + level) / 2) * np.sqrt(rows / (rows - 1))
    return tail


def _replicates(centred: Matrix, present: Matrix, resamples: int, seed: int) -> Matrix:
    """The centred mean of every column (over the rows that it has) in every resample."""
    rows = centred.shape[0]
    masks = None if present.all() else present.astype(float)
    exact = exact_columns(centred)
    blocks = []
    for weights in bootstrap_weights(rows, resamples, seed):
        drawn = rows if masks is None else np.maximum(weights @ masks, 1.0)
        blocks.append((weights @ exact) / drawn)
    return np.concatenate(blocks)
