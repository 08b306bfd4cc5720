"""Sample size: the difference that the data can show, and the effect of more rows or more repeats."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Union

import numpy as np
from scipy.special import ndtri, stdtrit

from mlflow_ragmetrics.statistics.intervals import Labels, Matrix, bootstrap_intervals, clusters_of, unseen_share

_MOST_ROWS = 10**18  # a difference that needs more cannot be detected


@dataclass(frozen=True)
class Power:
    """The power of the paired differences of one metric: probability ``power`` at level ``alpha``.

    ``smallest``: the smallest detectable difference, in the metric's units; ``None`` for fewer than six rows (or
    groups). ``span``: the largest possible difference of a row. ``rows`` and ``groups``: numbers in the data (without
    groups, each row is one). ``deviation``: the standard deviation of a row's difference. ``design_effect``: the factor
    by which groups increase the variance of the mean.
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
        """Number of similar groups (or rows, without groups) that would show ``difference`` (above 0)."""
        deviation = self.deviation * math.sqrt(self.design_effect * self.groups / self.rows)
        return rows_needed(deviation, difference, alpha=self.alpha, power=self.power, span=self.span)

    def rows_needed(self, difference: float) -> int:
        """Number of rows, in similar groups, that would show ``difference`` (above 0)."""
        return math.ceil(self.groups_needed(difference) * self.rows / self.groups)


def power_of(
    differences: Matrix,
    *,
    groups: Union[Labels, None] = None,
    spans: Union[Sequence[float], None] = None,
    tests: int = 1,
    power: float = 0.8,
) -> list[Union[Power, None]]:
    """The power of each column of a rows × metrics matrix of paired differences (NaN: not scored on both sides).

    ``tests``: the number of tests in Holm's correction; the others are assumed to have no difference. ``groups``: the
    group of each row. ``None`` for fewer than two rows or groups. ``spans`` as in ``paired_intervals``.
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
    """Paired rows (at least 6) that show ``difference`` at level ``alpha`` with probability ``power``.

    ``deviation``: the standard deviation of the paired differences. ``span``: the largest possible difference of a row.
    """

    def is_enough(rows: int) -> bool:
        smallest = smallest_difference(deviation, rows, alpha=alpha, power=power, span=span)
        return smallest is not None and smallest <= difference

    return 6 + bisect_left(range(6, _MOST_ROWS), True, key=is_enough)


def smallest_difference(
    deviation: float, rows: int, *, alpha: float = 0.05, power: float = 0.8, span: float = 1.0
) -> Union[float, None]:
    """The difference that ``rows`` show at level ``alpha`` with probability ``power``; ``None`` for too few rows.

    The normal formula with Guenther's (1981) correction for Student's t. The difference must also exceed what rows
    missed by chance (``unseen_share``) could cancel.
    """
    z = float(ndtri(1 - alpha / 2))
    if rows < 6 or rows <= z * z / 2:
        return None
    own = float(ndtri(power)) * deviation
    seen = (z * deviation + own) / math.sqrt(rows - z * z / 2)
    return max(seen, unseen_share(rows) * span + own / math.sqrt(rows))


def about(number: int) -> int:
    """``number`` rounded up to two digits, for texts ("about 370 rows").

    >>> about(366)
    370
    """
    size: int = max(1, 10 ** (len(str(number)) - 2))
    return -(-number // size) * size


def crossed_interval(scores: Matrix, *, groups: Union[Labels, None] = None) -> Union[tuple[float, float], None]:
    """The 95 % interval of the mean of a rows × repeats matrix; each row counts once, by its own mean.

    Repeats make the score of a row more precise but do not enlarge the sample. If whole repeats differ by more than
    chance, for example because the judge changed, their variance is added, with Satterthwaite's degrees of freedom
    (1946). ``None`` for fewer than two rows (or ``groups``).
    """
    means = scores.mean(axis=1)
    interval = bootstrap_intervals([means.tolist()], groups=groups)[0]
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
