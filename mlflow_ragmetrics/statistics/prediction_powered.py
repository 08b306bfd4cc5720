"""Estimates the mean human label of all rows from a few labels and a judge's scores of all rows, with an interval.

Prediction-powered inference (Angelopoulos, Duchi and Zrnic 2023, PPI++): the mean of the labels, moved along the
regression line to the mean score of all rows. The variance is a jackknife over rows or groups, each left out with its
label and score. The interval is Student's t, or Wilson's for labels of 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from mlflow_ragmetrics.statistics.intervals import (
    Labels,
    agresti_min_interval,
    group_codes,
    unseen_share,
    wilson_limits,
)
from mlflow_ragmetrics.statistics.resampling import Matrix, Vector

Numbers = Union[Sequence[float], NDArray[Any]]
_FEWEST_FOR_A_SLOPE = 5


@dataclass(frozen=True)
class TrueScore:
    """An estimated mean label and its interval, which is ``None`` if fewer than two rows (or groups) have a label.

    ``labels`` of ``rows`` are labelled. ``tuning``: the factor of the judge's scores (PPI++'s λ), 0 if they do not
    predict the labels. ``error``: the standard error. ``variance_left``: the variance as a share of that of the labels
    alone; without the judge, the same interval would need 1 / ``variance_left`` times the labels.
    """

    value: float
    low: Union[float, None]
    high: Union[float, None]
    error: Union[float, None]
    tuning: float
    labels: int
    rows: int
    variance_left: Union[float, None] = None


@dataclass(frozen=True)
class _Estimate:
    """``changes`` by group, whose sum of squares is the variance; ``alone``: the variance of the labels' own mean.

    ``degrees`` of freedom are 0 if the variance is unknown. ``mean_square``: of the labels.
    """

    value: float
    changes: Vector
    slope: float
    degrees: float
    alone: float
    labels: int
    mean_square: float

    @property
    def error(self) -> float:
        """The standard error."""
        return math.sqrt(float(np.sort(self.changes**2).sum()))

    def rows_alone(self, mean: float) -> float:
        """The number of labels that alone would have this variance; ``degrees`` + 1 if all labels are equal."""
        spread = self.mean_square - mean**2
        return spread / self.error**2 if spread > 1e-12 and self.error > 0 else self.degrees + 1


def true_mean(labels: Numbers, scores: Numbers, *, groups: Union[Labels, None] = None) -> TrueScore:
    """Estimate the mean label of all rows from the label (NaN: none) and the judge's score (NaN: none) of each row.

    The labelled rows must be chosen at random. ``groups``: the group of each row. Labels and scores may have different
    scales. Raises ``ValueError`` without a label, or for lists of different lengths.
    """
    y, f = np.asarray(labels, dtype=float), np.asarray(scores, dtype=float)
    found = _estimate(y, f, groups)
    known = y[~np.isnan(y)]
    limits = _limits(found)
    if limits is not None and np.isin(known, (0.0, 1.0)).all():
        share = min(max(found.value, 0.0), 1.0)
        limits = wilson_limits(share, found.rows_alone(float(known.mean())), _deviate(found))
    elif limits is not None and found.error < 1e-12:  # all labels are equal
        share = unseen_share(known.size)
        low, high = min(0.0, found.value), max(1.0, found.value)
        limits = found.value - share * (found.value - low), found.value + share * (high - found.value)
    return _described(found, limits, y.size)


def true_difference(
    labels_a: Numbers,
    scores_a: Numbers,
    labels_b: Numbers,
    scores_b: Numbers,
    *,
    groups: Union[Labels, None] = None,
) -> TrueScore:
    """Estimate the mean difference of the labels of two systems over the same rows, B minus A; see ``true_mean``.

    If the same rows are labelled for both, their differences are used. Otherwise both means are estimated separately,
    and the jackknife over rows (or groups) accounts for shared rows; ``labels`` then counts the rows with either label,
    and ``tuning`` is B's.
    """
    y_a, f_a, y_b, f_b = (np.asarray(each, dtype=float) for each in (labels_a, scores_a, labels_b, scores_b))
    if not y_a.size == f_a.size == y_b.size == f_b.size:
        raise ValueError(f"{y_a.size}, {f_a.size}, {y_b.size} and {f_b.size} labels and scores are given")
    if np.array_equal(np.isnan(y_a), np.isnan(y_b)):
        found = _estimate(y_b - y_a, f_b - f_a, groups)
        sizes = np.abs(y_b - y_a)[~np.isnan(y_a)]
        largest, limits = float(sizes.max()), _limits(found)
        if limits is not None and np.isin(sizes, (0.0, largest)).all():
            value = min(max(found.value, -largest), largest)
            rows = found.rows_alone(float((y_b - y_a)[~np.isnan(y_a)].mean()))
            square = max(found.mean_square, value**2)
            limits = agresti_min_interval(value, square, rows, (-largest, largest), _deviate(found))
        return _described(found, limits, y_a.size)
    names = np.arange(y_a.size) if groups is None else groups
    a, b = _estimate(y_a, f_a, names), _estimate(y_b, f_b, names)
    labelled = int((~(np.isnan(y_a) & np.isnan(y_b))).sum())
    degrees, alone = min(a.degrees, b.degrees), a.alone + b.alone
    found = _Estimate(b.value - a.value, b.changes - a.changes, b.slope, degrees, alone, labelled, 0.0)
    return _described(found, _limits(found), y_a.size)


def _estimate(labels: Vector, scores: Vector, groups: Union[Labels, None]) -> _Estimate:
    codes = np.arange(labels.size) if groups is None else group_codes(groups)
    if not labels.size == scores.size == codes.size:
        sizes = f"{labels.size} labels, {scores.size} scores and {codes.size} groups"
        raise ValueError(f"{sizes} are given: give one of each per row")
    is_labelled, is_scored = ~np.isnan(labels), ~np.isnan(scores)
    if not is_labelled.any():
        raise ValueError("no row has a label")
    order = np.lexsort((labels, scores, codes) if groups is not None else (labels, scores))  # in any row order
    centre = np.sort(scores[is_scored]).mean() if is_scored.any() else 0.0
    y = np.where(is_labelled, labels, 0.0)[order]
    f = np.where(is_scored, scores - centre, 0.0)[order]
    n = is_labelled[order].astype(float)
    own = codes[order] if groups is not None else codes
    sums = np.column_stack(
        [np.bincount(own, weights=each) for each in (n, y, n * f, f * y, n * f**2, np.ones(n.size), f)]
    )
    total = np.array([np.sort(column).sum() for column in sums.T])
    count = int(total[0])
    use_slope = count >= _FEWEST_FOR_A_SLOPE
    (value,), (slope,) = _regressed(total[None, :], use_slope)
    has_label = sums[:, 0] > 0
    number, groups_there = int(has_label.sum()), has_label.size
    mean_square = float((labels[is_labelled] ** 2).mean())
    if number < 2:
        return _Estimate(float(value), np.zeros(groups_there), float(slope), 0.0, 0.0, count, mean_square)
    share = np.where(has_label, 1 - 1 / number, 1 - 1 / groups_there)
    changes = np.sqrt(share) * (value - _regressed(total - sums, use_slope)[0])
    effective = float(count**2 / (sums[:, 0] ** 2).sum())
    residuals = sums[:, 1] - total[1] / count * sums[:, 0]
    alone = float(np.sort(residuals**2).sum()) / count**2 * number / (number - 1)
    degrees = max(1.0, effective - (2 if slope else 1))
    return _Estimate(float(value), changes, float(slope), degrees, alone, count, mean_square)


def _regressed(sums: Matrix, use_slope: bool) -> tuple[Vector, Vector]:
    """Value and slope from each line of sums; the slope is 0 if the scores of the labelled rows are equal."""
    n, y, f, fy, ff, rows, all_f = sums.T
    square = ff - f**2 / n
    varies = use_slope & (square > 1e-12 * np.maximum(ff, 1e-300))
    slopes = np.divide(fy - y / n * f, square, out=np.zeros_like(square), where=varies)
    values: Vector = y / n + slopes * (all_f / rows - f / n)
    return values, slopes


def _deviate(found: _Estimate) -> float:
    return float(stdtrit(found.degrees, 0.975))


def _limits(found: _Estimate) -> Union[tuple[float, float], None]:
    if found.degrees < 1:
        return None
    half = _deviate(found) * found.error
    return found.value - half, found.value + half


def _described(found: _Estimate, limits: Union[tuple[float, float], None], rows: int) -> TrueScore:
    left = found.error**2 / found.alone if found.alone > 0 else None
    low, high = limits or (None, None)
    error = found.error if found.degrees >= 1 else None
    return TrueScore(found.value, low, high, error, found.slope, found.labels, rows, left)
