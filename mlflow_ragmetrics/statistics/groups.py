"""Rows that belong together: what their groups hold, how much they agree, and for how many rows they count.

Turns of one conversation or answers to one question resemble each other, so that n of them say less than n rows of
their own. The design effect (Kish 1965) is how many times larger the variance of a mean is for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from mlflow_ragmetrics.statistics.resampling import Matrix, Vector

__all__ = [
    "FEW_GROUPS",
    "Codes",
    "GroupTotals",
    "Grouping",
    "Labels",
    "describe_groups",
    "describe_totals",
    "effective_groups",
    "group_codes",
    "group_totals",
    "in_order",
    "totals_of_sums",
]

FEW_GROUPS = 10
Labels = Union[Sequence[object], NDArray[Any]]
Codes = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Grouping:
    """How the scored rows of one column are grouped; ``None`` where too little is known.

    ``effective_groups``: groups of equal size that would know as much as these (Kish 1965). ``design_effect``: variance
    of the mean with groups over that without. ``correlation``: that of two rows of one group, from the analysis of
    variance, at most 1 and below 0 where they differ more than rows of different groups.
    """

    rows: int
    groups: int
    effective_groups: float
    design_effect: Union[float, None] = None
    correlation: Union[float, None] = None

    @property
    def few_groups(self) -> bool:
        """Fewer than ten effective groups: intervals may cover less than they say."""
        return self.effective_groups < FEW_GROUPS


@dataclass(frozen=True)
class GroupTotals:
    """Columns × groups: how many rows were scored, and the sum of their scores less the column's mean.

    For each column: ``means``, ``rows``, ``squares`` (sum of the squared deviations from the mean), ``least`` and
    ``most``, ``is_binary`` (all scores are 0 or 1). In each row the groups are in the order of their sums and counts,
    so that neither the order of rows nor the groups' names change anything.
    """

    counts: Matrix
    residuals: Matrix
    means: Vector
    rows: Vector
    squares: Vector
    least: Vector
    most: Vector
    is_binary: NDArray[np.bool_]

    @property
    def groups(self) -> Vector:
        """How many groups have a scored row, for each column."""
        present: Vector = (self.counts > 0).sum(axis=1).astype(float)
        return present

    @property
    def variances(self) -> Vector:
        """Of each mean: CR2 (Bell and McCaffrey 2002), unbiased where rows are independent; NaN for one group."""
        rows = self.rows[:, None]
        rest = np.where(self.counts < rows, 1 - self.counts / rows, np.nan)
        variances: Vector = (self.residuals**2 / rest).sum(axis=1) / self.rows**2
        return variances

    @property
    def degrees(self) -> Vector:
        """Degrees of freedom of the variances (Satterthwaite 1946; Imbens and Kolesár 2016), at least 1.

        The model is that rows of one group are equal: with groups of one size these are their number less one, with
        different sizes fewer.
        """
        shares = self.counts / self.rows[:, None]
        weights = 1 / np.where(shares < 1, 1 - shares, np.nan)
        own = self.counts**2
        total = own.sum(axis=1)
        of_shares = (weights * shares**2).sum(axis=1)
        of_both = (weights * shares * own).sum(axis=1)
        expected = (weights * own * (1 - 2 * shares)).sum(axis=1) + of_shares * total
        change = total[:, None] * shares**2 - 2 * shares * own
        spread = (weights**2 * own * (own + 2 * change)).sum(axis=1) + 2 * of_shares * (weights * own**2).sum(axis=1)
        spread += 2 * of_both**2 + (total * of_shares) ** 2 - 4 * total * of_shares * of_both
        degrees: Vector = np.maximum(expected**2 / spread, 1.0)
        return degrees

    @property
    def effective_rows(self) -> Vector:
        """Independent rows that would know the mean as well; at most the rows, and the effective groups when all are
        equal, since nothing is then known of their correlation."""
        with np.errstate(divide="ignore", invalid="ignore"):
            rows = self.squares / (self.rows - 1) / self.variances
        known: Vector = np.where(self.squares > 0, np.minimum(np.nan_to_num(rows, nan=np.inf), self.rows), self._kish)
        return known

    @property
    def _kish(self) -> Vector:
        return effective_groups(self.counts)


def group_codes(groups: Labels) -> Codes:
    """Whole numbers from 0 for the groups' names, which are all text or all numbers."""
    codes: Codes = np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    return codes


def effective_groups(counts: Matrix) -> Vector:
    """Kish's effective number of groups from their sizes (last axis): (Σm)² / Σm²; 0 where there are no rows.

    >>> float(effective_groups(np.array([4.0, 4.0, 4.0])))
    3.0
    """
    squares = (counts**2).sum(axis=-1)
    effective: Vector = np.divide(counts.sum(axis=-1) ** 2, squares, out=np.zeros_like(squares), where=squares > 0)
    return effective


def group_totals(values: Matrix, groups: Labels) -> GroupTotals:
    """The totals of a rows × columns matrix, NaN where a row is not scored; each column must have a score.

    ``groups`` names the group of each row; ``ValueError`` when there are more or fewer.
    """
    codes = group_codes(groups)
    if codes.size != values.shape[0]:
        raise ValueError(f"{codes.size} groups are given for {values.shape[0]} rows")
    number = int(codes.max()) + 1
    counts, sums = np.zeros((2, values.shape[1], number))
    means, rows, squares, least, most = np.zeros((5, values.shape[1]))
    is_binary = np.zeros(values.shape[1], dtype=bool)
    for place, column in enumerate(values.T):
        order = np.lexsort((column, codes))
        order = order[~np.isnan(column[order])]
        ordered = np.sort(column[order])
        # A mean of equal values is that value, not its neighbour.
        mean = ordered[0] if ordered[0] == ordered[-1] else ordered.mean()
        counts[place] = np.bincount(codes[order], minlength=number)
        sums[place] = np.bincount(codes[order], weights=column[order] - mean, minlength=number)
        means[place], rows[place], least[place], most[place] = mean, ordered.size, ordered[0], ordered[-1]
        squares[place] = ((ordered - mean) ** 2).sum()
        is_binary[place] = bool(np.isin(ordered, (0.0, 1.0)).all())
    return GroupTotals(*in_order(counts, sums), means, rows, squares, least, most, is_binary)


def totals_of_sums(
    counts: Vector, sums: Vector, *, squares: float, least: float, most: float, is_binary: bool
) -> GroupTotals:
    """The totals of one column from what one pass over it finds: scored rows and their sum in each group, and over
    all rows the sum of the squared scores and their range; ``is_binary`` when all are 0 or 1."""
    rows = float(counts.sum())
    mean = min(max(float(np.sort(sums).sum()) / rows, least), most)
    around = max(0.0, squares - rows * mean**2) if least < most else 0.0
    by_group = in_order(counts[None, :].astype(float), (sums - counts * mean)[None, :])
    means, numbers, deviations, lows, highs = np.array([[mean], [rows], [around], [least], [most]])
    return GroupTotals(*by_group, means, numbers, deviations, lows, highs, np.array([is_binary]))


def describe_groups(values: Matrix, groups: Labels) -> list[Grouping]:
    """How each column of a rows × columns matrix (NaN: not scored) is grouped; for repeated questions too."""
    scored = ~np.isnan(values).all(axis=0)
    found = [Grouping(0, 0, 0.0)] * values.shape[1]
    if not scored.any():
        return found
    for place, grouping in zip(
        np.flatnonzero(scored), describe_totals(group_totals(values[:, scored], groups)), strict=True
    ):
        found[place] = grouping
    return found


def describe_totals(totals: GroupTotals) -> list[Grouping]:
    """How each column is grouped whose totals these are."""
    correlations = _correlations(totals)
    with np.errstate(divide="ignore", invalid="ignore"):
        effects = totals.variances / (totals.squares / (totals.rows - 1) / totals.rows)
    known = zip(totals.rows, totals.groups, totals._kish, effects, correlations, strict=True)
    return [
        Grouping(int(rows), int(number), float(effective), _finite(effect), _finite(correlation))
        for rows, number, effective, effect, correlation in known
    ]


def _correlations(totals: GroupTotals) -> Vector:
    """Donner (1986): from the mean squares between and within groups, weighed by the groups' average size."""
    counts, groups, rows = totals.counts, totals.groups, totals.rows
    between = np.divide(totals.residuals**2, counts, out=np.zeros_like(counts), where=counts > 0).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_between = between / (groups - 1)
        mean_within = np.maximum(totals.squares - between, 0.0) / (rows - groups)
        size = (rows - (counts**2).sum(axis=1) / rows) / (groups - 1)
        correlations: Vector = (mean_between - mean_within) / (mean_between + (size - 1) * mean_within)
    return correlations


def in_order(counts: Matrix, sums: Matrix) -> tuple[Matrix, Matrix]:
    """Both matrices with each row's groups in the order of their sums, and of their counts where these are equal."""
    # Sums that are equal but for the rounding of their last bits count as equal.
    largest = np.abs(sums).max(axis=-1, keepdims=True, initial=0.0)
    rounded = np.rint(sums * np.divide(2.0**40, largest, out=np.zeros_like(largest), where=largest > 0))
    order = np.lexsort((sums, counts, rounded), axis=-1)
    return np.take_along_axis(counts, order, axis=-1), np.take_along_axis(sums, order, axis=-1)


def _finite(value: float) -> Union[float, None]:
    return float(value) if np.isfinite(value) else None
