"""Rows that belong together: what their groups hold, how much they agree, and for how many rows they count.

Turns of one conversation or answers to one question resemble each other, so that n of them say less than n rows of
their own. The design effect (Kish 1965) is how many times larger the variance of a mean is for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from mlflow_ragmetrics.statistics.resampling import Matrix, Vector

FEW_GROUPS = 10
Labels = Union[Sequence[object], NDArray[Any]]


@dataclass(frozen=True)
class Grouping:
    """How the scored rows of one metric are grouped.

    ``effective_groups``: groups of equal size that would know as much as these (Kish 1965). ``design_effect``: variance
    of the mean with groups over that without; ``None`` if too little is known.
    """

    rows: int
    groups: int
    effective_groups: float
    design_effect: Union[float, None] = None

    @property
    def few_groups(self) -> bool:
        """Fewer than ten effective groups: intervals may cover less than they say."""
        return self.effective_groups < FEW_GROUPS


@dataclass(frozen=True)
class Clusters:
    """The scores of one metric by group (rows without groups are groups of one).

    ``counts`` and ``residuals`` have, for each group, the number of rows and the sum of their deviations from ``mean``.
    ``squares`` is the sum of the squared deviations of all rows. ``is_binary``: all scores are 0 or 1.
    """

    counts: Vector
    residuals: Vector
    mean: float
    squares: float
    least: float
    most: float
    is_binary: bool

    @property
    def groups(self) -> int:
        """The number of groups."""
        return int(self.counts.size)

    @cached_property
    def rows(self) -> float:
        """The number of rows."""
        return float(self.counts.sum())

    @cached_property
    def variance(self) -> float:
        """Of the mean: CR2 (Bell and McCaffrey 2002), unbiased if rows are independent. For two groups or more."""
        return float(np.sort(self.residuals**2 / (1 - self.counts / self.rows)).sum()) / self.rows**2

    @cached_property
    def degrees(self) -> float:
        """Degrees of freedom of the variance (Satterthwaite 1946; Imbens and Kolesár 2016), at least 1.

        The model is that rows of one group are equal. With groups of one size it is their number less one.
        """
        counts = np.sort(self.counts)
        if counts[0] == counts[-1]:
            return counts.size - 1.0
        shares = counts / self.rows
        weights, own = 1 / (1 - shares), counts**2
        total, of_shares, of_both = own.sum(), (weights * shares**2).sum(), (weights * shares * own).sum()
        expected = (weights * own * (1 - 2 * shares)).sum() + of_shares * total
        spread = (weights**2 * own * (own + 2 * (total * shares**2 - 2 * shares * own))).sum()
        spread += 2 * of_shares * (weights * own**2).sum()
        spread += 2 * of_both**2 + (total * of_shares) ** 2 - 4 * total * of_shares * of_both
        return max(float(expected**2 / spread), 1.0)

    @property
    def effective_groups(self) -> float:
        """Kish's number of groups from their sizes: (Σm)² / Σm²."""
        return float(self.rows**2 / (self.counts**2).sum())

    @property
    def effective_rows(self) -> float:
        """Independent rows that would know the mean as well; at most the rows, and the effective groups when all are
        equal, since nothing is then known of their correlation."""
        if self.squares == 0:
            return self.effective_groups
        return min(self.squares / (self.rows - 1) / self.variance, self.rows) if self.variance > 0 else self.rows

    @property
    def grouping(self) -> Grouping:
        """How the rows are grouped."""
        is_known = self.groups > 1 and self.squares > 0
        effect = self.variance / (self.squares / (self.rows - 1) / self.rows) if is_known else None
        return Grouping(int(self.rows), self.groups, self.effective_groups, effect)


def clusters_of(values: Vector, groups: Union[Labels, None] = None) -> Union[Clusters, None]:
    """The scores of one metric, NaN where a row is not scored, with the group of each row; ``None`` without a score.

    ``ValueError`` if there is not one group for each row.
    """
    scored = ~np.isnan(values)
    if groups is not None and len(groups) != len(values):
        raise ValueError(f"{len(groups)} groups are given for {len(values)} rows")
    if not scored.any():
        return None
    ordered = np.sort(values[scored])
    least, most = float(ordered[0]), float(ordered[-1])
    # A mean of equal values is that value, not its neighbour.
    mean = least if least == most else float(ordered.mean())
    deviations = ordered - mean
    squares, is_binary = float((deviations**2).sum()), bool(np.isin(ordered, (0.0, 1.0)).all())
    if groups is None:
        return Clusters(np.ones(ordered.size), deviations, mean, squares, least, most, is_binary)
    codes = group_codes(np.asarray(groups)[scored])
    order = np.lexsort((values[scored], codes))  # so that the order of rows changes no sum
    sums = np.asarray(np.bincount(codes[order], weights=values[scored][order] - mean), dtype=float)
    counts = np.asarray(np.bincount(codes), dtype=float)
    return Clusters(counts, sums, mean, squares, least, most, is_binary)


def group_codes(groups: Labels) -> NDArray[np.integer[Any]]:
    """Whole numbers from 0 for the groups' names, which are all text or all numbers."""
    codes: NDArray[np.integer[Any]] = np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    return codes


def describe_groups(values: Matrix, groups: Labels) -> list[Grouping]:
    """How each column of a rows × metrics matrix (NaN: not scored) is grouped."""
    found = (clusters_of(column, groups) for column in values.T)
    return [Grouping(0, 0, 0.0) if each is None else each.grouping for each in found]
