"""The mean that people would have given, from few labels and a judge's scores of all rows, with an honest interval.

Prediction-powered inference (Angelopoulos, Duchi and Zrnic 2023, PPI++): the mean of the labels, corrected by how much
the judge's mean over all rows differs from that over the labelled ones. ``ppi_mean`` is the published method, for
hundreds of labels; ``true_mean`` and ``true_difference`` are made for few: the jackknife's variance, Student's t, and
limits corrected for skewness (Hall 1992), or Wilson's for labels of 0 and 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Union

import numpy as np
from scipy.special import ndtri, stdtrit

from mlflow_ragmetrics.statistics.bca import limits_of_moments
from mlflow_ragmetrics.statistics.closed_forms import agresti_min_interval, wilson_limits
from mlflow_ragmetrics.statistics.double_sampling import Estimate, Numbers, Sample, estimate, sample_of
from mlflow_ragmetrics.statistics.groups import Labels
from mlflow_ragmetrics.statistics.resampling import Vector

__all__ = ["TrueScore", "ppi_mean", "true_difference", "true_mean"]


@dataclass(frozen=True)
class TrueScore:
    """A mean of the truth and its interval, ``None`` where fewer than two rows (or groups) have a label.

    ``labels`` of ``rows`` were labelled. ``tuning`` is what the judge's scores are multiplied by (PPI++'s λ): 0 where
    they say nothing of the labels. ``error`` is the standard error. ``variance_left`` is the share of the variance of
    the labels alone that is left: these would have to be 1 / ``variance_left`` times as many for the same interval.
    """

    value: float
    low: Union[float, None]
    high: Union[float, None]
    error: Union[float, None]
    tuning: float
    labels: int
    rows: int
    variance_left: Union[float, None] = None


def ppi_mean(
    labels: Numbers,
    scores: Numbers,
    unlabelled_scores: Numbers,
    *,
    level: float = 0.95,
    tuning: Union[float, None] = None,
) -> TrueScore:
    """PPI++ as published, and as ``ppi_py.ppi_mean_ci`` computes it.

    ``labels`` and the judge's ``scores`` of the same n rows, and its scores of the other rows. ``tuning`` is λ, by
    default that of smallest variance, in 0 to 1. ``ValueError`` without labels or other rows.
    """
    y, f, others = (np.asarray(each, dtype=float) for each in (labels, scores, unlabelled_scores))
    if y.size != f.size or not y.size or not others.size:
        raise ValueError(f"{y.size} labels, {f.size} scores of the same rows and {others.size} of others are given")
    own = _published_tuning(y, f, others) if tuning is None else tuning
    value = float(own * others.mean() + (y - own * f).mean())
    error = math.sqrt((own * others).var() / others.size + (y - own * f).var() / y.size)
    half = float(ndtri((1 + level) / 2)) * error
    left = error**2 / (float(y.var()) / y.size) if y.var() > 0 else None
    return TrueScore(value, value - half, value + half, error, own, y.size, y.size + others.size, left)


def true_mean(
    labels: Numbers,
    scores: Numbers,
    *,
    probabilities: Union[Numbers, None] = None,
    groups: Union[Labels, None] = None,
    level: float = 0.95,
) -> TrueScore:
    """The mean label of all rows, from a label (NaN: none) and the judge's score (NaN: none) of each row.

    ``probabilities`` with which each row was chosen to be labelled, by default equal; the labelled rows are weighed by
    their inverse, so that a choice of telling rows stays unbiased. ``groups`` names the group of each row. Labels and
    scores may be of different scales. ``ValueError`` without a label, for lists of different lengths, and for
    probabilities outside 0 to 1.
    """
    sample = sample_of(labels, scores, probabilities, groups)
    found = estimate(sample)
    if found.degrees < 1:
        return _bare(found, sample)
    deviate = float(stdtrit(found.degrees, (1 + level) / 2))
    if not np.isin(sample.labelled, (0.0, 1.0)).all():
        return _described(found, sample, _limits(found.value, found.changes, deviate))
    value = min(max(found.value, 0.0), 1.0)
    limits = wilson_limits(value, _rows_alone(found, sample), deviate)
    return _described(found, sample, limits)


def true_difference(
    labels_a: Numbers,
    scores_a: Numbers,
    labels_b: Numbers,
    scores_b: Numbers,
    *,
    probabilities: Union[Numbers, None] = None,
    groups: Union[Labels, None] = None,
    level: float = 0.95,
) -> TrueScore:
    """The mean difference of the labels of two systems over the same rows, B minus A; see ``true_mean``.

    Where the same rows are labelled for both, their differences are estimated; else both means are, from whatever rows
    each has, and the jackknife over rows (or groups) takes account of those they share; ``labels`` then counts the rows
    with a label of either, and ``tuning`` is B's.
    """
    y_a, f_a, y_b, f_b = (np.asarray(each, dtype=float) for each in (labels_a, scores_a, labels_b, scores_b))
    if not y_a.size == f_a.size == y_b.size == f_b.size:
        raise ValueError(f"{y_a.size}, {f_a.size}, {y_b.size} and {f_b.size} labels and scores are given")
    if np.array_equal(np.isnan(y_a), np.isnan(y_b)):
        return _paired_difference(sample_of(y_b - y_a, f_b - f_a, probabilities, groups), level)
    rows = np.arange(y_a.size) if groups is None else groups
    sample_a, sample_b = sample_of(y_a, f_a, probabilities, rows), sample_of(y_b, f_b, probabilities, rows)
    a, b = estimate(sample_a), estimate(sample_b)
    changes = b.changes - a.changes
    degrees = min(a.degrees, b.degrees)
    found = Estimate(b.value - a.value, changes, b.slope, degrees, a.alone + b.alone)
    labels = int((~(np.isnan(y_a) & np.isnan(y_b))).sum())
    if degrees < 1:
        return replace(_bare(found, sample_b), labels=labels)
    deviate = float(stdtrit(degrees, (1 + level) / 2))
    return replace(_described(found, sample_b, _limits(found.value, changes, deviate)), labels=labels)


def _paired_difference(sample: Sample, level: float) -> TrueScore:
    found = estimate(sample)
    if found.degrees < 1:
        return _bare(found, sample)
    deviate = float(stdtrit(found.degrees, (1 + level) / 2))
    sizes = np.abs(sample.labelled)
    largest = float(sizes.max())
    if not np.isin(sizes, (0.0, largest)).all():
        return _described(found, sample, _limits(found.value, found.changes, deviate))
    value = min(max(found.value, -largest), largest)
    square = float((sample.weights * sample.labels**2).sum() / sample.weights.sum())
    limits = agresti_min_interval(value, max(square, value**2), _rows_alone(found, sample), largest, deviate)
    return _described(found, sample, limits)


def _rows_alone(found: Estimate, sample: Sample) -> float:
    """How many labels would, alone, have the estimate's variance; as many as there are (of equal weight, or groups)
    when all are equal, since nothing is then known of the variance."""
    share = sample.weights / sample.weights.sum()
    spread = float((share * sample.labels**2).sum()) - float((share * sample.labels).sum()) ** 2
    known = spread > 1e-12 and found.error > 0
    return spread / found.error**2 if known else found.degrees + 1


def _limits(value: float, changes: Vector, deviate: float) -> tuple[float, float]:
    error = math.sqrt(float(np.sort(changes**2).sum()))
    cubes = float(np.sort(changes**3).sum())
    skewness = cubes / (6 * error**3) if error > 0 else 0.0
    low, high = limits_of_moments(np.array([error]), np.array([skewness]), np.array([deviate]))
    return value + float(low[0]), value + float(high[0])


def _published_tuning(y: Vector, f: Vector, others: Vector) -> float:
    """λ of PPI++ (their equation 6, one step), held to 0 to 1."""
    covariance = float(((y - y.mean()) * (f - f.mean())).mean())
    variance = float(np.concatenate([f, others]).var(ddof=1))
    if variance == 0:
        return 0.0
    return min(max(covariance / ((1 + y.size / others.size) * variance), 0.0), 1.0)


def _bare(found: Estimate, sample: Sample) -> TrueScore:
    return TrueScore(found.value, None, None, None, found.slope, sample.labelled.size, sample.labels.size)


def _described(found: Estimate, sample: Sample, limits: tuple[float, float]) -> TrueScore:
    left = found.error**2 / found.alone if found.alone > 0 else None
    numbers = sample.labelled.size, sample.labels.size
    return TrueScore(found.value, *limits, found.error, found.slope, *numbers, left)
