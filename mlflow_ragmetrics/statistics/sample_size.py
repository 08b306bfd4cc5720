"""How much data is enough: what difference it can show, and whether more rows or more repeats buy more."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Union

import numpy as np
from scipy.special import ndtri, stdtrit

from mlflow_ragmetrics.statistics.intervals import Labels, bootstrap_interval, clusters_of, unseen_share
from mlflow_ragmetrics.statistics.resampling import Matrix

_MOST_ROWS = 10**18  # whatever needs more cannot be seen


@dataclass(frozen=True)
class Power:
    """What the paired differences of one metric can show, with probability ``power`` at level ``alpha``.

    ``smallest`` is that difference, in the metric's units, ``None`` for fewer than six rows (or groups). ``span`` is
    the largest difference that a row can have. ``rows`` and
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
    span: float

    def groups_needed(self, difference: float) -> int:
        """Groups like these with which ``difference`` (above 0) would be seen; rows where there are no groups."""
        deviation = self.deviation * math.sqrt(self.design_effect * self.groups / self.rows)
        return rows_needed(deviation, difference, alpha=self.alpha, power=self.power, span=self.span)

    def rows_needed(self, difference: float) -> int:
        """Rows, in groups like these, with which ``difference`` (above 0) would be seen."""
        return math.ceil(self.groups_needed(difference) * self.rows / self.groups)


def power_of(
    differences: Matrix,
    *,
    groups: Union[Labels, None] = None,
    spans: Union[Sequence[float], None] = None,
    tests: int = 1,
    power: float = 0.8,
) -> list[Union[Power, None]]:
    """What each column of a rows × metrics matrix of paired differences (NaN: not scored on both sides) can show.

    ``tests`` are those that Holm's correction is made for: the others are taken to have no difference. ``None`` for
    fewer than two rows, or groups, where ``groups`` names that of each row. ``spans`` as in ``paired_intervals``.
    """
    found: list[Union[Power, None]] = []
    alpha = 0.05 / tests
    for column, span in zip(np.asarray(differences, dtype=float).T, spans or repeat(1.0), strict=False):
        sample = clusters_of(column, groups)
        if sample is None or sample.groups < 2:
            found.append(None)
            continue
        smallest = smallest_difference(
            math.sqrt(sample.variance * sample.groups), sample.groups, alpha=alpha, power=power, span=span
        )
        deviation = math.sqrt(sample.squares / (sample.rows - 1))
        effect = 1.0 if sample.design_effect is None else sample.design_effect
        found.append(Power(int(sample.rows), sample.groups, deviation, effect, smallest, alpha, power, span))
    return found


def rows_needed(
    deviation: float, difference: float, *, alpha: float = 0.05, power: float = 0.8, span: float = 1.0
) -> int:
    """Paired rows with which ``difference`` is seen at level ``alpha`` with probability ``power``: at least 6.

    ``deviation`` is the standard deviation of the paired differences, ``span`` the largest difference of a row.
    """

    def is_enough(rows: int) -> bool:
        smallest = smallest_difference(deviation, rows, alpha=alpha, power=power, span=span)
        return smallest is not None and smallest <= difference

    return 6 + bisect_left(range(6, _MOST_ROWS), True, key=is_enough)


def smallest_difference(
    deviation: float, rows: int, *, alpha: float = 0.05, power: float = 0.8, span: float = 1.0
) -> Union[float, None]:
    """The difference that ``rows`` show at level ``alpha`` with probability ``power``; ``None`` for too few rows.

    The normal formula with Guenther's (1981) correction for Student's t. A difference is not shown if rows that the
    sample misses by chance (``unseen_share``) could make up for it.
    """
    z = float(ndtri(1 - alpha / 2))
    if rows < 6 or rows <= z * z / 2:
        return None
    own = float(ndtri(power)) * deviation
    seen = (z * deviation + own) / math.sqrt(rows - z * z / 2)
    return max(seen, unseen_share(rows) * span + own / math.sqrt(rows))


def about(number: int) -> int:
    """Rounded up to two digits, for plain words ("about 370 rows"): never fewer than are needed.

    >>> about(366)
    370
    """
    size: int = max(1, 10 ** (len(str(number)) - 2))
    return -(-number // size) * size


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
