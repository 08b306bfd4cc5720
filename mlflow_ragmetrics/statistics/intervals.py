"""Confidence intervals of means and of paired differences.

The rule is the BCa bootstrap (Efron 1987) at levels widened for small samples (Hesterberg 2015: the normal quantile
becomes √(n/(n−1)) times that of Student's t), which covers better than the plain percentile interval for skewed scores
of few rows. Where resampling is blind, a closed form takes its place: Wilson (1927) for the mean of scores that are
all 0 or 1, Agresti and Min (2005) for differences of such scores and for differences that fewer than fifteen rows have.
Beyond 20,000 rows the bootstrap distribution of a mean is read from its Edgeworth expansion (Hall 1992), closer to it
than that many resamples come.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri, stdtrit

from mlflow_ragmetrics.statistics.bca import bca_limits, edgeworth_limits
from mlflow_ragmetrics.statistics.resampling import Matrix, Vector, bootstrap_weights

__all__ = [
    "MANY_ROWS",
    "bootstrap_interval",
    "bootstrap_intervals",
    "normal_deviate",
    "paired_intervals",
    "wilson_interval",
]

MANY_ROWS = 20_000
_FEW_CHANGES = 15


def bootstrap_interval(
    values: Sequence[float], *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> tuple[float, float] | None:
    """The interval of the mean of scores, or ``None`` for fewer than two values.

    Scores that are all 0 or 1 have Wilson's interval, which is not empty when all agree; others the bootstrap's.
    Reproducible: the same values give the same interval. Memory is bounded whatever the number of values.
    """
    return bootstrap_intervals([values], level=level, resamples=resamples, seed=seed)[0]


def bootstrap_intervals(
    columns: Sequence[Sequence[float]], *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> list[tuple[float, float] | None]:
    """``bootstrap_interval`` of each column; columns of one length share the resamples, which take most of the time."""
    samples = [np.asarray(values, dtype=float) for values in columns]
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
    differences: Matrix, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> list[tuple[float, float] | None]:
    """The interval of the mean of each column of a rows × metrics matrix of paired differences.

    NaN marks a pair that was not scored on both sides; a column with fewer than two pairs has ``None``, and one without
    any difference (0, 0). All columns share the resamples: cost grows with the rows, hardly with the metrics.
    """
    columns = [column[~np.isnan(column)] for column in differences.T]
    intervals: list[tuple[float, float] | None] = [_closed_form(column, level) for column in columns]
    left = [i for i, column in enumerate(columns) if intervals[i] is None and column.size > 1]
    if left:
        lows, highs = _resampled(differences[:, left], level, resamples, seed)
        for i, low, high in zip(left, lows, highs, strict=True):
            intervals[i] = float(low), float(high)
    return intervals


def _closed_form(differences: Vector, level: float) -> tuple[float, float] | None:
    if differences.size < 2:
        return None
    sizes = np.abs(differences)
    largest = float(sizes.max())
    if largest == 0:
        return 0.0, 0.0
    is_binary = bool(np.isin(sizes, (0.0, 1.0)).all())
    if is_binary or int(np.count_nonzero(sizes)) < min(_FEW_CHANGES, differences.size):
        return _agresti_min(differences, largest, level)
    return None


def _share_interval(scores: Vector, level: float) -> tuple[float, float] | None:
    if scores.size < 2 or not np.isin(scores, (0.0, 1.0)).all():
        return None
    return wilson_interval(float(scores.mean()), scores.size, level)


def wilson_interval(share: float, rows: int, level: float) -> tuple[float, float]:
    """The interval of the mean of so many scores that are 0 or 1."""
    z = float(ndtri((1 + level) / 2))
    middle = (share + z * z / (2 * rows)) / (1 + z * z / rows)
    half = z / (1 + z * z / rows) * math.sqrt(share * (1 - share) / rows + z * z / (4 * rows * rows))
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def _agresti_min(differences: Vector, largest: float, level: float) -> tuple[float, float]:
    """The normal interval after adding two rows: half of one for better, half for worse, one for no difference."""
    rows = differences.size + 2
    mean = float(differences.sum()) / rows
    variance = (float((differences**2).sum()) + largest**2) / rows - mean**2
    half = float(ndtri((1 + level) / 2)) * math.sqrt(max(0.0, variance) / rows)
    return max(-largest, mean - half), min(largest, mean + half)


def _resampled(values: Matrix, level: float, resamples: int, seed: int) -> tuple[Vector, Vector]:
    present = ~np.isnan(values)
    counts = present.sum(axis=0)
    means = np.nanmean(values, axis=0)
    centred = np.where(present, values - means, 0.0)
    tail = normal_deviate(counts, level)
    if values.shape[0] > MANY_ROWS:
        low, high = edgeworth_limits(centred, counts, tail)
    else:
        low, high = bca_limits(_replicates(centred, present, resamples, seed), centred, counts, tail)
    least, most = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    return np.clip(means + low, least, means), np.clip(means + high, means, most)


def normal_deviate(rows: Vector, level: float) -> Vector:
    """The normal deviate of the level, widened for so few rows as there are."""
    tail: Vector = stdtrit(rows - 1, (1 + level) / 2) * np.sqrt(rows / (rows - 1))
    return tail


def _replicates(centred: Matrix, present: Matrix, resamples: int, seed: int) -> Matrix:
    """The centred mean of every column (over the rows that it has) in every resample."""
    rows = centred.shape[0]
    single = centred.astype(np.float32)
    masks = None if present.all() else present.astype(np.float32)
    blocks = []
    for weights in bootstrap_weights(rows, resamples, seed):
        drawn = rows if masks is None else np.maximum(weights @ masks, 1.0)
        blocks.append((weights @ single) / drawn)
    return np.concatenate(blocks)
