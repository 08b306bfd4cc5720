"""Is a difference more than noise: paired permutation, McNemar, Holm's correction, and how many rows it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Union

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr

from mlflow_ragmetrics.statistics.groups import Labels, group_totals
from mlflow_ragmetrics.statistics.resampling import Matrix, exact_columns, random_signs

__all__ = ["cluster_t_tests", "effect_size", "holm", "mcnemar", "rows_needed", "sign_flip_tests", "welch_tests"]

_WIDEST = 1e9  # a difference so small beside the deviation is not to be seen with any rows


def sign_flip_tests(
    differences: Matrix, *, groups: Union[Labels, None] = None, resamples: int = 10_000, seed: int = 0
) -> list[float]:
    """The two-sided p-value of each column of a rows × metrics matrix of paired differences; NaN rows do not count.

    Without a difference between the two sides each row's sign is a fair coin (Fisher 1935), and with ``groups``, which
    names that of each row, the sign of each group's sum. p is the share of the sign patterns with a sum at least as far
    from 0: of all patterns where there are no more than ``resamples``, else (b + 1) / (B + 1) where b of the B random
    ones do (Phipson and Smyth 2010): never 0, and at most α in a share α of comparisons without a difference, whatever
    the distribution. The order of rows changes nothing.
    """
    turned = _turned(differences, groups)
    values = exact_columns(np.sort(np.abs(turned), axis=0))
    # A pattern that ties with what was observed counts; the slack is the rounding in a sum of that many terms.
    reached = np.abs(turned.sum(axis=0)) - 1e-9 * values.sum(axis=0)
    beyond = np.zeros(values.shape[1], dtype=int)
    tried = 0
    for signs in random_signs(values.shape[0], resamples, seed):
        tried += signs.shape[0]
        beyond += (np.abs(signs @ values) >= reached).sum(axis=0)
    own = 0 if 2 ** min(values.shape[0], 63) <= resamples else 1  # that which was observed is among all patterns
    return [float(p) for p in (beyond + own) / (tried + own)]


def cluster_t_tests(differences: Matrix, groups: Labels) -> list[Union[float, None]]:
    """The two-sided p-value of the cluster-robust t (CR2) of each column, the test that belongs to ``paired_intervals``
    of few groups: unlike signs it can reach 5 % with five of them, but holds it for roughly normal sums only.

    ``None`` for fewer than two groups with a pair; 1 without any difference, 0 where all rows have the same.
    """
    found: list[Union[float, None]] = [None] * differences.shape[1]
    scored = np.flatnonzero(~np.isnan(differences).all(axis=0))
    if not scored.size:
        return found
    totals = group_totals(differences[:, scored], groups)
    for place, mean, variance, degrees in zip(scored, totals.means, totals.variances, totals.degrees, strict=True):
        if np.isnan(variance):
            continue
        error = math.sqrt(float(variance))
        found[place] = 2 * float(stdtr(degrees, -abs(mean) / error)) if error > 0 else float(mean == 0)
    return found


def welch_tests(
    values: Matrix, inside: NDArray[np.bool_], groups: Union[Labels, None] = None
) -> list[Union[float, None]]:
    """The two-sided p-value that the rows ``inside`` have the mean of the others, for each column (Welch 1947).

    With ``groups`` the variances are cluster-robust (CR2); of a group with rows on both sides each part counts as a
    group of its own. ``None`` where a side has fewer than two rows, or groups, and where no score differs from another.
    """
    names = np.arange(len(values)) if groups is None else np.asarray(groups)
    found: list[Union[float, None]] = []
    for column in values.T:
        sides = [here & ~np.isnan(column) for here in (inside, ~inside)]
        if min(np.unique(names[side]).size for side in sides) < 2:
            found.append(None)
            continue
        a, b = (group_totals(column[side][:, None], names[side]) for side in sides)
        own, other = float(a.variances[0]), float(b.variances[0])
        if own + other == 0:
            found.append(None if a.means[0] == b.means[0] else 0.0)
            continue
        degrees = (own + other) ** 2 / (own**2 / float(a.degrees[0]) + other**2 / float(b.degrees[0]))
        found.append(2 * float(stdtr(degrees, -abs(float(a.means[0] - b.means[0])) / math.sqrt(own + other))))
    return found


def _turned(differences: Matrix, groups: Union[Labels, None]) -> Matrix:
    """What a coin may turn: the rows, or the sums of the groups; 0 for what is not there."""
    if groups is None:
        values: Matrix = np.nan_to_num(np.sort(differences, axis=0), nan=0.0)
        return values
    scored = ~np.isnan(differences).all(axis=0)
    sums = np.zeros((np.unique(np.asarray(groups)).size, differences.shape[1]))
    if scored.any():
        totals = group_totals(differences[:, scored], groups)
        sums[:, scored] = (totals.residuals + totals.counts * totals.means[:, None]).T
    return sums


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for their number (Holm 1979), in the order given: all below α holds by chance in α at most."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def mcnemar(lost: int, won: int) -> float:
    """McNemar's exact two-sided p-value (1947), from the rows that passed before only and those that pass now only.

    >>> mcnemar(1, 9)
    0.021484375
    """
    from scipy.stats import binom  # takes longer to import than most evaluations: only a comparison waits for it

    return min(1.0, 2 * float(binom.cdf(min(lost, won), lost + won, 0.5))) if lost + won else 1.0


def effect_size(differences: Sequence[float]) -> float | None:
    """Cohen's d_z: mean over standard deviation of the paired differences, ``None`` where these do not vary."""
    if len(differences) < 2:
        return None
    deviation = float(np.std(differences, ddof=1))
    return float(np.mean(differences)) / deviation if deviation > 1e-12 else None


def rows_needed(deviation: float, difference: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    """Paired rows with which ``difference`` is seen at level ``alpha`` with probability ``power``.

    ``deviation`` is the standard deviation of the paired differences. The normal formula with Guenther's (1981)
    correction for Student's t; at least 6, below which no sign-flip test reaches 5 %.
    """
    z = float(ndtri(1 - alpha / 2))
    spread = min(deviation / difference, _WIDEST)
    return max(6, math.ceil(((z + float(ndtri(power))) * spread) ** 2 + z * z / 2))
