"""Significance tests, and the rows they need: paired permutation, Student's t for skewed rows, Welch, Holm."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr

from mlflow_ragmetrics.statistics.intervals import (
    MANY_ROWS,
    Clusters,
    Groups,
    Matrix,
    Vector,
    clusters_of,
    sign_flip_p_values,
    unseen_share,
)

_POWER = 0.8
_MOST_ROWS = 10**18  # a difference that needs more cannot be detected


def paired_tests(differences: Matrix, *, groups: Groups = None, resamples: int = 10_000, seed: int = 0) -> list[float]:
    """The two-sided p-value of each column of a rows × metrics matrix of paired differences; NaN is ignored.

    The larger p-value of two tests. The sign-flip test (Fisher 1935) is exact for symmetric differences; it flips the
    sign of each row or, with ``groups`` (the group of each row), of each group's sum, and tries all patterns if there
    are at most ``resamples``. ``skewed_t_test`` is valid for skewed differences, such as many small gains and few large
    losses; above ``MANY_ROWS`` rows or groups it is used alone. 1 for fewer than two rows or groups.
    """
    samples = [clusters_of(column, groups) for column in differences.T]
    p_values = [1.0 if sample is None or sample.groups < 2 else skewed_t_test(sample) for sample in samples]
    units = max([2, *(sample.groups for sample in samples if sample is not None)])
    if units > MANY_ROWS or not samples:
        return p_values
    sums = np.zeros((units, len(samples)))
    for place, sample in enumerate(samples):
        if sample is not None:
            sums[: sample.groups, place] = sample.residuals + sample.counts * sample.mean
    return list(map(max, p_values, sign_flip_p_values(sums, resamples=resamples, seed=seed)))


def skewed_t_test(sample: Clusters) -> float:
    """The two-sided p-value of a zero mean, by Student's t after Hall's transformation (1992), which removes the skew.

    With groups, the variance is cluster-robust (CR2) and the skew is that of the group sums.
    """
    if sample.variance == 0:
        return float(sample.mean == 0)
    root = math.sqrt(sample.groups)
    ratio = sample.mean / math.sqrt(sample.variance) / root
    changes = np.sort(sample.residuals) / np.abs(sample.residuals).max()
    skew = float((changes**3).mean() / (changes**2).mean() ** 1.5)
    moved = ratio + skew * ratio**2 / 3 + skew**2 * ratio**3 / 27 + skew / 6 / sample.groups
    return 2 * float(stdtr(sample.degrees, -abs(moved) * root)) if moved * ratio > 0 else 1.0


def welch_tests(values: Matrix, inside: NDArray[np.bool_], groups: Groups = None) -> list[float | None]:
    """For each column, Welch's (1947) two-sided p-value that the rows ``inside`` and the others have equal means.

    With ``groups`` the variances are cluster-robust (CR2); a group with rows on both sides is split. ``None`` if a side
    has fewer than two rows or groups, or all scores are equal.
    """
    names = np.arange(len(values)) if groups is None else np.asarray(groups)
    p_values: list[float | None] = []
    for column in values.T:
        a, b = (clusters_of(column[side], names[side]) for side in (inside, ~inside))
        p_value = None
        if a is not None and b is not None and min(a.groups, b.groups) > 1:
            variance, difference = a.variance + b.variance, abs(a.mean - b.mean)
            if variance > 0:
                degrees = variance**2 / (a.variance**2 / a.degrees + b.variance**2 / b.degrees)
                p_value = 2 * float(stdtr(degrees, -difference / math.sqrt(variance)))
            elif difference > 0:
                p_value = 0.0
        p_values.append(p_value)
    return p_values


def equal_columns(*sides: Sequence[Vector] | Matrix) -> list[int]:
    """For each column, the index of the first column that equals it in every row on each side (its own if none)."""
    representatives: list[int] = []
    for place in range(len(sides[0])):
        same = (
            first
            for first in representatives
            if all(np.allclose(side[first], side[place], 0, 1e-9, equal_nan=True) for side in sides)
        )
        representatives.append(next(same, place))
    return representatives


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p-values adjusted by Holm (1979), in the given order; the family-wise error rate is at most α.

    ``None`` stays, and does not count as a test.
    """
    adjusted = list(p_values)
    tested = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    largest = 0.0
    for rank, (p, place) in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - rank) * p))
        adjusted[place] = largest
    return adjusted


@dataclass(frozen=True)
class Power:
    """What paired differences of one metric can show at 5 %, after Holm, with a probability of 80 %.

    ``smallest``: the smallest detectable difference, in the metric's units; ``None`` for fewer than six rows (or
    groups). ``rows_needed``: rows, in similar groups, that would show a given difference. ``groups``: their number, if
    any. ``deviation``: the standard deviation of a row's difference. ``design_effect``: the factor by which groups
    increase the variance of the mean. ``unseen``: the largest shift of the mean by rows that the sample may miss.
    """

    rows: int
    groups: int | None
    deviation: float
    design_effect: float
    smallest: float | None
    rows_needed: int | None
    unseen: float


def power_of(
    differences: Matrix, detect: float, *, groups: Groups = None, spans: Sequence[float] | None = None, tests: int = 1
) -> list[Power | None]:
    """The power of each column of a rows × metrics matrix of paired differences (NaN: not scored on both sides).

    ``detect``: the difference that ``rows_needed`` would show (0: none). ``tests``: the number of tests in Holm's
    correction; the others are assumed to have no difference. ``groups``: the group of each row. ``None`` for fewer than
    two rows or groups. ``spans`` as in ``paired_intervals``.
    """
    powers: list[Power | None] = []
    alpha = 0.05 / tests
    for column, span in zip(np.asarray(differences, dtype=float).T, spans or repeat(1.0), strict=False):
        sample = clusters_of(column, groups)
        if sample is None or sample.groups < 2:
            powers.append(None)
            continue
        number = sample.groups
        deviation = math.sqrt(sample.variance * number)  # of a group
        needed = rows_needed(deviation, detect, alpha=alpha, span=span) if detect else None
        powers.append(
            Power(
                rows=int(sample.rows),
                groups=None if groups is None else number,
                deviation=math.sqrt(sample.squares / (sample.rows - 1)),
                design_effect=1.0 if sample.design_effect is None else sample.design_effect,
                smallest=smallest_difference(deviation, number, alpha=alpha, span=span),
                rows_needed=None if needed is None else math.ceil(needed * sample.rows / number),
                unseen=unseen_share(number) * span,
            )
        )
    return powers


def rows_needed(deviation: float, difference: float, *, alpha: float = 0.05, span: float = 1.0) -> int:
    """Paired rows (at least 6) that show ``difference`` at level ``alpha`` with a probability of 80 %.

    ``deviation``: the standard deviation of the paired differences. ``span``: the largest possible difference of a row.
    """

    def is_enough(rows: int) -> bool:
        smallest = smallest_difference(deviation, rows, alpha=alpha, span=span)
        return smallest is not None and smallest <= difference

    return 6 + bisect_left(range(6, _MOST_ROWS), True, key=is_enough)


def smallest_difference(deviation: float, rows: int, *, alpha: float = 0.05, span: float = 1.0) -> float | None:
    """The difference that ``rows`` show at level ``alpha`` with a probability of 80 %; ``None`` for too few rows.

    The normal formula with Guenther's (1981) correction for Student's t. The difference must also exceed what rows
    missed by chance (``unseen_share``) could cancel.
    """
    z = float(ndtri(1 - alpha / 2))
    if rows < 6 or rows <= z * z / 2:
        return None
    chance_part = float(ndtri(_POWER)) * deviation
    seen = (z * deviation + chance_part) / math.sqrt(rows - z * z / 2)
    return max(seen, unseen_share(rows) * span + chance_part / math.sqrt(rows))


def about(number: int) -> int:
    """``number`` rounded up to two digits, for texts ("about 370 rows").

    >>> about(366)
    370
    """
    size: int = max(1, 10 ** (len(str(number)) - 2))
    return -(-number // size) * size
