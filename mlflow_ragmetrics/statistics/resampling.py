"""SciPy's bootstrap and permutation test, made independent of the row order and the number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.floating[Any]]
Matrix = NDArray[np.floating[Any]]

_CELLS = 2_000_000
_DIGITS = 2.0**30


def bootstrap_limits(
    residuals: Matrix, counts: Matrix, *, studentized: bool, level: float, resamples: int, seed: int
) -> tuple[Vector, Vector]:
    """The limits of each mean, relative to the mean, by the BCa (Efron 1987) or the studentized bootstrap.

    ``residuals`` and ``counts`` (columns × groups): the sum of each group's deviations from the mean, and its number of
    rows. Use ``studentized`` for means of groups of different sizes (Davison and Hinkley 1997, 5.2.1).
    """
    from scipy.stats import bootstrap  # a slow import

    # Turn each column so that its tail is on the right: the intervals of B minus A and A minus B are then symmetric.
    signs = np.where(np.sort(residuals**3).sum(axis=1, keepdims=True) < 0, -1.0, 1.0)
    turned, units = _whole_numbers(residuals * signs)
    order = np.lexsort((counts, turned), axis=-1)
    turned, counts = np.take_along_axis(turned, order, axis=-1), np.take_along_axis(counts, order, axis=-1)
    are_rows = not studentized and bool((counts == 1).all())
    found = bootstrap(
        (turned,) if are_rows else (turned, counts),
        _student_t if studentized else np.mean if are_rows else _ratio,
        paired=not are_rows,
        vectorized=True,
        axis=-1,
        confidence_level=level,
        n_resamples=resamples,
        batch=max(1, _CELLS // turned.size),
        method="percentile" if studentized else "BCa",
        random_state=np.random.default_rng(seed),
    )
    limits = found.confidence_interval.low, found.confidence_interval.high
    low, high = (np.atleast_1d(end) * units[:, 0] for end in limits)
    if studentized:
        error = np.sqrt((turned**2).sum(axis=1)) * units[:, 0] / counts.sum(axis=1)
        low, high = (-np.atleast_1d(end) * error for end in reversed(limits))
    is_turned = signs[:, 0] < 0
    return np.where(is_turned, -high, low), np.where(is_turned, -low, high)


def sign_flip_p_values(values: Matrix, *, resamples: int, seed: int) -> list[float]:
    """The two-sided p-value of each column of a rows × metrics matrix, flipping each row's sign (Fisher 1935)."""
    from scipy.stats import permutation_test

    whole, _ = _whole_numbers(values.T)
    order = np.lexsort((whole, np.abs(whole)), axis=-1)
    found = permutation_test(
        (np.take_along_axis(whole, order, axis=-1),),
        np.sum,
        permutation_type="samples",
        vectorized=True,
        axis=-1,
        n_resamples=resamples,
        batch=max(1, _CELLS // whole.size),
        random_state=np.random.default_rng(seed),
    )
    return [float(p) for p in np.atleast_1d(found.pvalue)]


def _ratio(sums: Matrix, counts: Matrix, axis: int) -> Matrix:
    ratio: Matrix = sums.sum(axis=axis) / counts.sum(axis=axis)
    return ratio


def _student_t(sums: Matrix, counts: Matrix, axis: int) -> Matrix:
    rows = counts.sum(axis=axis, keepdims=True)
    mean = sums.sum(axis=axis, keepdims=True) / rows
    error = np.sqrt(((sums - mean * counts) ** 2).sum(axis=axis, keepdims=True)) / rows
    # A resample of equal groups has no error and counts as the farthest.
    ratio: Matrix = (mean / np.maximum(error, 1e-6)).squeeze(axis=axis)
    return ratio


def _whole_numbers(values: Matrix) -> tuple[Matrix, Matrix]:
    """Values (columns × rows) as multiples of a unit, and the unit: sums of whole numbers are exact in any order."""
    units: Matrix = np.maximum(np.abs(values).max(axis=-1, keepdims=True), 1e-290) / _DIGITS
    return np.rint(values / units), units
