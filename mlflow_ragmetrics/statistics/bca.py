"""The bias-corrected and accelerated bootstrap interval of a mean (Efron 1987), for many columns at once."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from mlflow_ragmetrics.statistics.resampling import Matrix, Vector

__all__ = ["bca_limits", "edgeworth_limits", "limits_of_moments", "orientation"]


def bca_limits(replicates: Matrix, centred: Matrix, tail: Vector) -> tuple[Vector, Vector]:
    """The limits of each column, relative to its mean, where ``tail`` is the normal deviate of its level.

    ``replicates``: resamples × columns of centred means; ``centred``: the rows they come from, 0 where missing.
    """
    resamples = replicates.shape[0]
    near = 1e-5 * replicates.std(axis=0)
    below = (replicates < -near).mean(axis=0) + 0.5 * (np.abs(replicates) <= near).mean(axis=0)
    bias = ndtri(np.clip(below, 1 / resamples, 1 - 1 / resamples))
    acceleration = _acceleration(centred)
    ordered = np.sort(replicates, axis=0)
    low = _quantiles(ordered, ndtr(_corrected(bias, acceleration, -tail)))
    high = _quantiles(ordered, ndtr(_corrected(bias, acceleration, tail)))
    return low, high


def edgeworth_limits(centred: Matrix, counts: Vector, tail: Vector) -> tuple[Vector, Vector]:
    """The same limits for so many rows that the resamples' distribution is known: normal, with its skewness."""
    return limits_of_moments(np.sqrt((centred**2).sum(axis=0)) / counts, _acceleration(centred), tail)


def limits_of_moments(error: Vector, acceleration: Vector, tail: Vector) -> tuple[Vector, Vector]:
    """``edgeworth_limits`` from the mean's standard error and a sixth of the skewness of the mean."""

    def limit(deviate: Vector) -> Vector:
        corrected = _corrected(acceleration, acceleration, deviate)
        end: Vector = error * (corrected + acceleration * (corrected**2 - 1))
        return end

    return limit(-tail), limit(tail)


def orientation(centred: Matrix) -> Vector:
    """-1 for columns that are skewed to the left, else 1: resampled turned round, so that the interval of A minus B is
    that of B minus A with its sign changed, although both meet the same resamples."""
    signs: Vector = np.where((centred**3).sum(axis=0) < 0, -1.0, 1.0)
    return signs


def _acceleration(centred: Matrix) -> Vector:
    """A sixth of the skewness of the mean, which is both its acceleration and its median's shift."""
    squares = (centred**2).sum(axis=0)
    cubes = (centred**3).sum(axis=0)
    scale = 6 * squares**1.5  # zero too where the differences are too small for their squares
    sixth: Vector = np.divide(cubes, scale, out=np.zeros_like(squares), where=scale > 0)
    return sixth


def _corrected(bias: Vector, acceleration: Vector, deviate: Vector) -> Vector:
    shifted = bias + deviate
    corrected: Vector = bias + shifted / np.maximum(1 - acceleration * shifted, 1e-3)
    return corrected


def _quantiles(ordered: Matrix, levels: Vector) -> Vector:
    resamples, columns = ordered.shape
    place = np.clip(levels * (resamples + 1) - 1, 0, resamples - 1)
    lower = np.floor(place).astype(int)
    upper = np.minimum(lower + 1, resamples - 1)
    share = place - lower
    each = np.arange(columns)
    quantiles: Vector = ordered[lower, each] * (1 - share) + ordered[upper, each] * share
    return quantiles
