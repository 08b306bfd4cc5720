"""The regression estimator of double sampling, with the delete-one jackknife over rows or groups.

Few rows have a label, all have a judge's score: the weighted mean of the labels, moved along the regression line to the
mean score of all rows (Cochran 1977, 12.6; with λ as its slope it is the estimator of PPI++). The jackknife takes out
each row with all that it brings, so that the slope's own error, unequal weights and groups count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from mlflow_ragmetrics.statistics.groups import Codes, Labels, group_codes
from mlflow_ragmetrics.statistics.resampling import Matrix, Vector

__all__ = ["Estimate", "Numbers", "Sample", "estimate", "sample_of"]

Numbers = Union[Sequence[float], NDArray[Any]]
_FEWEST_FOR_A_SLOPE = 5


@dataclass(frozen=True)
class Sample:
    """Labels (0 where there is none), the judge's scores less their mean (0 where there is none), weights (0 without a
    label) and the groups' codes of the rows, in an order that depends on nothing but these."""

    labels: Vector
    scores: Vector
    weights: Vector
    codes: Codes

    @property
    def labelled(self) -> Vector:
        """The labels that are there."""
        return self.labels[self.weights > 0]


@dataclass(frozen=True)
class Estimate:
    """``value``; ``changes`` by each group, of which the sum of squares is the variance; the ``slope``.

    ``degrees`` of freedom, 0 when the variance is not known; ``alone``: the variance of the labels' own mean.
    """

    value: float
    changes: Vector
    slope: float
    degrees: float
    alone: float

    @property
    def error(self) -> float:
        """The standard error; the same whatever the groups' names."""
        return float(np.sqrt(np.sort(self.changes**2).sum()))


def sample_of(
    labels: Numbers, scores: Numbers, probabilities: Union[Numbers, None], groups: Union[Labels, None]
) -> Sample:
    """The rows, with weights that are the inverse of the ``probabilities`` of being labelled (by default equal).

    ``ValueError`` for lists of different lengths, without a label, and for probabilities outside 0 to 1.
    """
    y, f = np.asarray(labels, dtype=float), np.asarray(scores, dtype=float)
    chosen = np.ones(y.size) if probabilities is None else np.asarray(probabilities, dtype=float)
    codes = np.arange(y.size) if groups is None else group_codes(groups)
    if len({y.size, f.size, chosen.size, codes.size}) > 1:
        sizes = f"{y.size} labels, {f.size} scores, {chosen.size} probabilities and {codes.size} groups"
        raise ValueError(f"{sizes} are given: there must be one a row")
    labelled = ~np.isnan(y)
    if not labelled.any():
        raise ValueError("no row has a label")
    if not ((chosen[labelled] > 0) & (chosen[labelled] <= 1)).all():
        raise ValueError("the probability with which a row was chosen must lie above 0 and not above 1")
    keys = (chosen, y, f) if groups is None else (chosen, y, f, codes)
    order = np.lexsort(keys)
    y, f, chosen, labelled = y[order], f[order], chosen[order], labelled[order]
    scored = ~np.isnan(f)
    centre = np.sort(f[scored]).mean() if scored.any() else 0.0
    weights = np.divide(1.0, chosen, out=np.zeros(y.size), where=labelled)
    own = np.arange(y.size) if groups is None else codes[order]
    return Sample(np.where(labelled, y, 0.0), np.where(scored, f - centre, 0.0), weights, own)


def estimate(sample: Sample) -> Estimate:
    """The estimate; the slope is 0 for fewer than five labels and where the scores of labelled rows do not vary."""
    sums = _sums(sample)
    use_slope = sample.labelled.size >= _FEWEST_FOR_A_SLOPE
    total = np.array([np.sort(column).sum() for column in sums.T])
    values, slopes = _regressed(total[None, :], use_slope)
    value, slope = float(values[0]), float(slopes[0])
    labelled = sums[:, 0] > 0
    number = int(labelled.sum())
    if number < 2:
        return Estimate(value, np.zeros(labelled.size), slope, 0.0, 0.0)
    left = _regressed(total - sums, use_slope)[0]
    share = np.where(labelled, 1 - _leverages(sums, total, slope), (labelled.size - 1) / labelled.size)
    changes = np.sqrt(np.maximum(share, 0.0)) * (value - left)
    effective = float(total[0] ** 2 / np.sort(sums[:, 0] ** 2).sum())
    mean = total[1] / total[0]
    residuals = sums[labelled, 1] - mean * sums[labelled, 0]
    alone = float(np.sort(residuals**2).sum() / total[0] ** 2) * number / (number - 1)
    return Estimate(value, changes, slope, max(1.0, effective - (2 if slope else 1)), alone)


def _leverages(sums: Matrix, total: Vector, slope: float) -> Vector:
    """How much of each group's own deviation the line follows: taking it out changes its residual by 1 / (1 − h), of
    which the unbiased variance (HC2) holds the root."""
    centre = total[2] / total[0]
    around = sums[:, 7] - 2 * centre * sums[:, 5] + centre**2 * sums[:, 3]
    of_slope = around / max(float(np.sort(around).sum()), 1e-300) if slope else 0.0
    leverages: Vector = sums[:, 0] / total[0] + of_slope
    return leverages


def _sums(sample: Sample) -> Matrix:
    """Groups × sums over their rows."""
    y, f, w = sample.labels, sample.scores, sample.weights
    parts = (w, w * y, w * f, w**2, w**2 * y, w**2 * f, w**2 * f * y, w**2 * f**2, np.ones(y.size), f)
    return np.column_stack([np.bincount(sample.codes, weights=part) for part in parts])


def _regressed(sums: Matrix, use_slope: bool) -> tuple[Vector, Vector]:
    """Value and slope from each line of sums: the slope of least variance, that of residuals times weights."""
    w, wy, wf, ww, wwy, wwf, wwfy, wwff, rows, f = sums.T
    y_mean, f_mean = wy / w, wf / w
    product = wwfy - y_mean * wwf - f_mean * wwy + y_mean * f_mean * ww
    square = wwff - 2 * f_mean * wwf + f_mean**2 * ww
    varies = use_slope & (square > 1e-12 * np.maximum(wwff, 1e-300))
    slopes = np.divide(product, square, out=np.zeros_like(square), where=varies)
    values: Vector = y_mean + slopes * (f / rows - f_mean)
    return values, slopes
