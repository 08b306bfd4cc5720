"""How much data is enough: what difference it can show, and whether more rows or more repeats buy more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Union

import numpy as np
from scipy.special import ndtri, stdtrit

from mlflow_ragmetrics.statistics.groups import Labels, clusters_of
from mlflow_ragmetrics.statistics.intervals import bootstrap_interval
from mlflow_ragmetrics.statistics.resampling import Matrix

_WIDEST = 1e9  # a difference so small beside the deviation is not to be seen with any rows


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


def power_of(
    differences: Matrix, *, groups: Union[Labels, None] = None, alpha: float = 0.05, power: float = 0.8
) -> list[Union[Power, None]]:
    """What each column of a rows × metrics matrix of paired differences (NaN: not scored on both sides) can show.

    ``None`` for fewer than two rows, or groups, where ``groups`` names that of each row.
    """
    found: list[Union[Power, None]] = []
    for column in np.asarray(differences, dtype=float).T:
        sample = clusters_of(column, groups)
        if sample is None or sample.groups < 2:
            found.append(None)
            continue
        effect = sample.grouping.design_effect
        smallest = smallest_difference(
            math.sqrt(sample.variance * sample.groups), sample.groups, alpha=alpha, power=power
        )
        deviation = math.sqrt(sample.squares / (sample.rows - 1))
        effect = 1.0 if effect is None else effect
        found.append(Power(int(sample.rows), sample.groups, deviation, effect, smallest, alpha, power))
    return found


def rows_needed(deviation: float, difference: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    """Paired rows with which ``difference`` is seen at level ``alpha`` with probability ``power``.

    ``deviation`` is the standard deviation of the paired differences. The normal formula with Guenther's (1981)
    correction for Student's t; at least 6, below which no sign-flip test reaches 5 %.
    """
    z = float(ndtri(1 - alpha / 2))
    spread = min(deviation / difference, _WIDEST)
    return max(6, math.ceil(((z + float(ndtri(power))) * spread) ** 2 + z * z / 2))


def smallest_difference(deviation: float, rows: int, *, alpha: float = 0.05, power: float = 0.8) -> Union[float, None]:
    """The inverse of ``rows_needed``; ``None`` for fewer than six rows."""
    z = float(ndtri(1 - alpha / 2))
    if rows < 6 or rows <= z * z / 2:
        return None
    return deviation * (z + float(ndtri(power))) / math.sqrt(rows - z * z / 2)


def about(number: int) -> int:
    """Rounded up to two digits, for plain words ("about 370 rows"): never fewer than are needed.

    >>> about(366)
    370
    """
    size: int = max(1, 10 ** (len(str(number)) - 2))
    return -(-number // size) * size


@dataclass(frozen=True)
class VarianceParts:
    """The variance of one score, in parts that add up: between ``rows``, and of a judge who is asked the same again."""

    rows: float
    repeats: float


def variance_parts(scores: Matrix) -> Union[VarianceParts, None]:
    """The parts from a rows × repeats matrix of one metric's scores, by the analysis of variance (parts below 0 are 0).

    ``None`` for fewer than two rows, or one score a row.
    """
    rows, repeats = scores.shape
    if rows < 2 or repeats < 2:
        return None
    within = float(scores.var(axis=1, ddof=1).mean())
    return VarianceParts(max(0.0, float(scores.mean(axis=1).var(ddof=1)) - within / repeats), within)


def crossed_interval(scores: Matrix, *, groups: Union[Labels, None] = None) -> Union[tuple[float, float], None]:
    """The 95 % interval of the mean of a rows × repeats matrix, in which each row counts once, by its own mean.

    Asking again makes a row's own score surer, not the sample larger. If whole repeats differ by more than chance (a
    judge of another day, another draw of the index), their variance is added, with degrees of freedom by Satterthwaite
    (1946). ``None`` for fewer than two rows (or ``groups``).
    """
    means = scores.mean(axis=1)
    interval = bootstrap_interval(means.tolist(), groups=groups)
    rows, repeats = scores.shape
    if interval is None or repeats < 2:
        return interval
    middle = float(np.sort(means).mean())
    rest = scores - means[:, None] - scores.mean(axis=0) + middle
    chance = float((rest**2).sum()) / (rows - 1) / (repeats - 1) / rows
    added = max(0.0, float(scores.mean(axis=0).var(ddof=1)) - chance) / repeats
    if added == 0:
        return interval
    deviate = float(stdtrit(rows - 1, 0.975))
    own = max(((interval[1] - interval[0]) / 2 / deviate) ** 2, 1e-300)
    degrees = (own + added) ** 2 / (own**2 / (rows - 1) + added**2 / (repeats - 1))
    widened = math.sqrt(1 + added / own) * float(stdtrit(degrees, 0.975)) / deviate
    return middle - (middle - interval[0]) * widened, middle + (interval[1] - middle) * widened
