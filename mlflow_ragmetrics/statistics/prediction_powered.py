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

from mlflow_ragmetrics.statistics.intervals import Labels, Matrix, Vector, group_codes, unseen_share, wilson_limits

Numbers = Union[Sequence[float], NDArray[Any]]
_FEWEST_FOR_A_SLOPE = 5


@dataclass(frozen=True)
class TrueScore:
    """An estimated mean label and its interval, which is ``None`` if fewer than two rows (or groups) have a label.

    ``labels`` of ``rows`` are labelled. ``error``: the standard error.
    """

    value: float
    low: Union[float, None]
    high: Union[float, None]
    error: Union[float, None]
    labels: int
    rows: int


def true_mean(labels: Numbers, scores: Numbers, *, groups: Union[Labels, None] = None) -> TrueScore:
    """Estimate the mean label of all rows from the label (NaN: none) and the judge's score (NaN: none) of each row.

    The labelled rows must be chosen at random. ``groups``: the group of each row. Labels and scores may have different
    scales. At least one row has a label.
    """
    y, f = np.asarray(labels, dtype=float), np.asarray(scores, dtype=float)
    value, error, degrees = _estimate(y, f, groups)
    known = y[~np.isnan(y)]
    if degrees < 1:
        return TrueScore(value, None, None, None, known.size, y.size)
    deviate = float(stdtrit(degrees, 0.975))
    limits = value - deviate * error, value + deviate * error
    if np.isin(known, (0.0, 1.0)).all():
        spread = float((known**2).mean()) - float(known.mean()) ** 2
        rows = spread / error**2 if spread > 1e-12 and error > 0 else degrees + 1  # labels alone with this variance
        limits = wilson_limits(min(max(value, 0.0), 1.0), rows, deviate)
    elif error < 1e-12:  # all labels are equal
        share = unseen_share(known.size)
        low, high = min(0.0, value), max(1.0, value)
        limits = value - share * (value - low), value + share * (high - value)
    return TrueScore(value, *limits, error, known.size, y.size)


def _estimate(labels: Vector, scores: Vector, groups: Union[Labels, None]) -> tuple[float, float, float]:
    """The value, its standard error, and the degrees of freedom.

    The degrees of freedom are 0 if the variance is unknown.
    """
    codes = np.arange(labels.size) if groups is None else group_codes(groups)
    is_labelled, is_scored = ~np.isnan(labels), ~np.isnan(scores)
    order = np.lexsort((labels, scores, codes) if groups is not None else (labels, scores))  # in any row order
    centre = np.sort(scores[is_scored]).mean() if is_scored.any() else 0.0
    y = np.where(is_labelled, labels, 0.0)[order]
    f = np.where(is_scored, scores - centre, 0.0)[order]
    n = is_labelled[order].astype(float)
    ordered_codes = codes[order] if groups is not None else codes
    sums = np.column_stack(
        [np.bincount(ordered_codes, weights=weights) for weights in (n, y, n * f, f * y, n * f**2, np.ones(n.size), f)]
    )
    total = np.array([np.sort(column).sum() for column in sums.T])
    count = int(total[0])
    use_slope = count >= _FEWEST_FOR_A_SLOPE
    (value,), (slope,) = _regressed(total[None, :], use_slope)
    has_label = sums[:, 0] > 0
    number, groups_there = int(has_label.sum()), has_label.size
    if number < 2:
        return float(value), 0.0, 0.0
    share = np.where(has_label, 1 - 1 / number, 1 - 1 / groups_there)
    changes = np.sqrt(share) * (value - _regressed(total - sums, use_slope)[0])
    effective = float(count**2 / (sums[:, 0] ** 2).sum())
    degrees = max(1.0, effective - (2 if slope else 1))
    return float(value), math.sqrt(float(np.sort(changes**2).sum())), degrees


def _regressed(sums: Matrix, use_slope: bool) -> tuple[Vector, Vector]:
    """Value and slope from each line of sums; the slope is 0 if the scores of the labelled rows are equal."""
    n, y, f, fy, ff, rows, all_f = sums.T
    square = ff - f**2 / n
    varies = use_slope & (square > 1e-12 * np.maximum(ff, 1e-300))
    slopes = np.divide(fy - y / n * f, square, out=np.zeros_like(square), where=varies)
    values: Vector = y / n + slopes * (all_f / rows - f / n)
    return values, slopes
