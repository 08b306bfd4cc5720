"""How much data is enough: what difference it can show, and whether more rows or more repeats buy more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

import numpy as np
from scipy.special import ndtri

from mlflow_ragmetrics.statistics.groups import Labels, group_totals
from mlflow_ragmetrics.statistics.repeats import VarianceParts
from mlflow_ragmetrics.statistics.resampling import Matrix
from mlflow_ragmetrics.statistics.significance import rows_needed

__all__ = ["Plan", "Power", "about", "paired_deviation", "plans", "power_of", "smallest_difference"]


@dataclass(frozen=True)
class Power:
    """What the paired differences of one metric can show, with probability ``power`` at level ``alpha``.

    ``smallest`` is that difference, in the metric's units, ``None`` for fewer than six rows (or groups). ``rows`` and
    ``groups`` are those that are there (each row a group of its own where none are given), ``deviation`` is the
    standard deviation of a row's difference, and ``design_effect`` what groups multiply the mean's variance by.
    """

    rows: int
    groups: int
    deviation: float
    design_effect: float
    smallest: Union[float, None]
    alpha: float
    power: float

    def groups_needed(self, difference: float) -> int:
        """Groups like these with which ``difference`` (above 0) would be seen; rows where there are no groups."""
        deviation = self.deviation * math.sqrt(self.design_effect * self.groups / self.rows)
        return rows_needed(deviation, difference, alpha=self.alpha, power=self.power)

    def rows_needed(self, difference: float) -> int:
        """Rows, in groups like these, with which ``difference`` (above 0) would be seen."""
        return math.ceil(self.groups_needed(difference) * self.rows / self.groups)


@dataclass(frozen=True)
class Plan:
    """``rows``, each scored ``repeats`` times, with which the difference is seen, and what they ``cost``."""

    rows: int
    repeats: int
    cost: float


def power_of(
    differences: Matrix, *, groups: Union[Labels, None] = None, alpha: float = 0.05, power: float = 0.8
) -> list[Union[Power, None]]:
    """What each column of a rows × metrics matrix of paired differences (NaN: not scored on both sides) can show.

    ``None`` for fewer than two rows, or groups, where ``groups`` names that of each row.
    """
    return [_power(column, groups, alpha, power) for column in np.asarray(differences, dtype=float).T]


def _power(column: np.ndarray, groups: Union[Labels, None], alpha: float, power: float) -> Union[Power, None]:
    scored = ~np.isnan(column)
    names = np.arange(column.size) if groups is None else np.asarray(groups)
    if np.unique(names[scored]).size < 2:
        return None
    totals = group_totals(column[scored][:, None], names[scored])
    rows, number, variance = float(totals.rows[0]), int(totals.groups[0]), float(totals.variances[0])
    spread = float(totals.squares[0]) / (rows - 1)
    effect = variance / (spread / rows) if spread > 0 else 1.0
    smallest = smallest_difference(math.sqrt(variance * number), number, alpha=alpha, power=power)
    return Power(int(rows), number, math.sqrt(spread), effect, smallest, alpha, power)


def smallest_difference(deviation: float, rows: int, *, alpha: float = 0.05, power: float = 0.8) -> Union[float, None]:
    """The difference that is seen at level ``alpha`` with probability ``power``, the inverse of ``rows_needed``.

    ``deviation`` is the standard deviation of the paired differences of the ``rows`` (of the means of groups: their
    number). ``None`` for fewer than six.

    >>> round(smallest_difference(0.3, 100), 3)
    0.085
    """
    z = float(ndtri(1 - alpha / 2))
    if rows < 6 or rows <= z * z / 2:
        return None
    return deviation * (z + float(ndtri(power))) / math.sqrt(rows - z * z / 2)


def paired_deviation(deviation: float, correlation: float) -> float:
    """The standard deviation of the difference of two scores of one row, each of this deviation, correlated so."""
    return deviation * math.sqrt(2 * (1 - correlation))


def plans(
    parts: VarianceParts,
    difference: float,
    *,
    row_cost: float = 0.0,
    score_cost: float = 1.0,
    repeats: Sequence[int] = (1, 2, 3, 5, 10),
    judges: int = 1,
    alpha: float = 0.05,
    power: float = 0.8,
) -> list[Plan]:
    """What each number of repeats asks for, the cheapest first; of equal cost the fewest repeats.

    ``parts`` are those of the paired differences, ``difference`` is what must be seen. ``row_cost`` is what a new row
    costs, ``score_cost`` one score of it by each of ``judges``, in any unit.
    """
    found = []
    for number in repeats:
        rows = rows_needed(parts.deviation(number, judges), difference, alpha=alpha, power=power)
        found.append(Plan(rows, number, rows * (row_cost + number * judges * score_cost)))
    return sorted(found, key=lambda plan: (plan.cost, plan.repeats))


def about(number: int) -> int:
    """Rounded up to two digits, for plain words ("about 370 rows"): never fewer than are needed.

    >>> about(361), about(98), about(1201)
    (370, 98, 1300)
    """
    step = int(10 ** max(0, len(str(number)) - 2))
    return -(-number // step) * step
