"""Confidence intervals of means and of paired differences.

The rule is the BCa bootstrap (Efron 1987) over rows, at a level widened for small samples (Hesterberg 2015: the normal
quantile becomes √(n/(n−1)) times that of Student's t). Rows in groups have the cluster-robust t interval (CR2 and its
degrees of freedom, Bell and McCaffrey 2002) with fewer than 40 groups. With 40 or more whole groups are resampled (for
means the bootstrap of Student's t, Davison and Hinkley 1997). Where resampling is blind there is a closed form: Wilson
(1927) for the mean of scores that are all 0 or 1, of grouped ones for their effective rows (Korn and Graubard 1998),
and Agresti and Min (2005) for differences of such scores and for differences that fewer than fifteen rows, or groups,
have. Above ``MANY_ROWS`` rows or groups the interval is Student's t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Union

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from mlflow_ragmetrics.statistics.groups import Clusters, Labels, clusters_of
from mlflow_ragmetrics.statistics.resampling import Matrix, bootstrap_limits

BOOTSTRAP_GROUPS = 40
MANY_ROWS = 1_000
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

    Reproducible: the same values in any order give the same interval. ``groups`` names the group of each value.
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
    """``bootstrap_interval`` of each column; with ``groups`` each has a value for every row (NaN: not scored)."""
    samples = [clusters_of(np.asarray(values, dtype=float), groups) for values in columns]
    known = [_of_mean(each, groups is not None, level) for each in samples]
    return _resampled(samples, known, level, resamples, seed, studentized=groups is not None)


def paired_intervals(
    differences: Matrix,
    *,
    groups: Union[Labels, None] = None,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> list[Interval]:
    """The interval of the mean of each column of a rows × metrics matrix of paired differences.

    NaN marks a pair that was not scored on both sides. A column with fewer than two pairs (or groups, if ``groups``
    names that of each row) has ``None``, and one without any difference (0, 0).
    """
    samples = [clusters_of(column, groups) for column in differences.T]
    known = [_of_difference(each, groups is not None, level) for each in samples]
    return _resampled(samples, known, level, resamples, seed)


def wilson_limits(share: float, rows: float, deviate: float) -> tuple[float, float]:
    """Wilson's interval for a number of rows that need not be whole (Korn and Graubard 1998: the effective rows of
    grouped ones), where ``deviate`` is the quantile of the normal or Student's distribution."""
    square = deviate * deviate
    middle = (share + square / (2 * rows)) / (1 + square / rows)
    half = deviate / (1 + square / rows) * math.sqrt(share * (1 - share) / rows + square / (4 * rows * rows))
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def agresti_min_interval(
    mean: float, mean_square: float, rows: float, largest: float, deviate: float
) -> tuple[float, float]:
    """The interval of the mean of paired differences of at most ``largest`` (Agresti and Min 2005).

    The normal interval after adding two rows: half of one for better, half for worse, one for no difference.
    ``mean_square`` is that of the differences themselves; ``rows`` may be effective ones.
    """
    middle = rows * mean / (rows + 2)
    variance = (rows * mean_square + largest**2) / (rows + 2) - middle**2
    half = deviate * math.sqrt(max(0.0, variance) / (rows + 2))
    return max(-largest, min(mean, middle - half)), min(largest, max(mean, middle + half))


def _of_mean(sample: Union[Clusters, None], is_grouped: bool, level: float) -> Interval:
    """The interval of a mean where it has a closed form."""
    if sample is None or sample.groups < 2:
        return None
    if sample.is_binary:
        rows = sample.effective_rows if is_grouped else sample.rows
        return wilson_limits(sample.mean, rows, _deviate(sample, is_grouped, level))
    return _of_t(sample, is_grouped, 0.0 if sample.least >= 0 else -1.0, level)


def _of_difference(sample: Union[Clusters, None], is_grouped: bool, level: float) -> Interval:
    """The interval of a mean difference where it has a closed form."""
    if sample is None or sample.groups < 2:
        return None
    largest = max(abs(sample.least), abs(sample.most))
    if largest == 0:
        return 0.0, 0.0
    mean_square = sample.squares / sample.rows + sample.mean**2
    changed = np.abs(sample.residuals + sample.counts * sample.mean) > 1e-9 * sample.counts
    few = int(changed.sum()) < min(_FEW_CHANGES, sample.groups)
    # Rows whose mean square is that of as many changes by 1 are changed by 0 or 1.
    values = sample.residuals + sample.mean
    is_binary = not is_grouped and largest == 1 and bool((np.abs(values - np.rint(values)) < 1e-9).all())
    if few or is_binary:
        rows = sample.effective_rows if is_grouped else sample.rows
        return agresti_min_interval(sample.mean, mean_square, rows, largest, _deviate(sample, is_grouped, level))
    return _of_t(sample, is_grouped, -1.0, level)


def _deviate(sample: Clusters, is_grouped: bool, level: float) -> float:
    return float(stdtrit(sample.degrees, (1 + level) / 2) if is_grouped else ndtri((1 + level) / 2))


def _of_t(sample: Clusters, is_grouped: bool, floor: float, level: float) -> Interval:
    """Student's t interval of few groups, and of many rows or groups; ``None`` between."""
    if sample.least == sample.most:
        return sample.mean, sample.mean
    if not (is_grouped and sample.groups < BOOTSTRAP_GROUPS) and sample.groups <= MANY_ROWS:
        return None
    half = float(stdtrit(sample.degrees, (1 + level) / 2)) * math.sqrt(sample.variance)
    # Scores of a scale from 0 to 1, or -1 to 1, have limits on it.
    is_on_scale = floor <= sample.least and sample.most <= 1
    least, most = (floor, 1.0) if is_on_scale else (-math.inf, math.inf)
    return max(least, sample.mean - half), min(most, sample.mean + half)


def _resampled(
    samples: Sequence[Union[Clusters, None]],
    known: list[Interval],
    level: float,
    resamples: int,
    seed: int,
    *,
    studentized: bool = False,
) -> list[Interval]:
    """The ``known`` intervals, and the bootstrap's of the other samples with two groups or more.

    Samples of the same groups' sizes share the resamples, which take most of the time.
    """
    alike: dict[tuple[int, float], list[int]] = {}
    for place, sample in enumerate(samples):
        if known[place] is None and sample is not None and sample.groups > 1:
            alike.setdefault((sample.groups, sample.degrees), []).append(place)
    for (groups, degrees), places in alike.items():
        chosen = [sample for place in places if (sample := samples[place]) is not None]
        tail = float(stdtrit(degrees, (1 + level) / 2)) * math.sqrt(groups / (groups - 1))
        widened = min(2 * float(ndtr(tail)) - 1, 1 - 1 / resamples)
        lows, highs = bootstrap_limits(
            np.array([each.residuals for each in chosen]),
            np.array([each.counts for each in chosen]),
            studentized=studentized,
            level=level if studentized else widened,
            resamples=resamples,
            seed=seed,
        )
        for place, sample, low, high in zip(places, chosen, lows, highs, strict=True):
            known[place] = max(sample.least, sample.mean + low), min(sample.most, sample.mean + high)
    return known
