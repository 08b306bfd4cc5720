"""Repeated scores crossed with rows: what varies, and the interval of a mean over rows × repeats.

Scores of one row are not so many independent ones: asking again makes the row's own score surer, not the sample larger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from mlflow_ragmetrics.statistics.groups import Labels
from mlflow_ragmetrics.statistics.intervals import bootstrap_interval
from mlflow_ragmetrics.statistics.resampling import Matrix

__all__ = ["VarianceParts", "crossed_interval", "variance_parts"]


@dataclass(frozen=True)
class VarianceParts:
    """The variance of one score, in parts that add up: between ``rows``, between ``judges`` (one is stricter than
    another), of judges by rows (they differ about a row), and of one judge who is asked the same again."""

    rows: float
    judges: float
    judges_by_rows: float
    repeats: float

    def error(self, rows: float, repeats: float = 1, judges: float = 1) -> float:
        """The standard error of the mean over so many rows, each scored by all ``judges``, ``repeats`` times each."""
        return math.sqrt(self.deviation(repeats, judges) ** 2 / rows + self.judges / judges)

    def deviation(self, repeats: float = 1, judges: float = 1) -> float:
        """The standard deviation between rows of which each has the mean of so many scores: what more rows help."""
        return math.sqrt(self.rows + (self.judges_by_rows + self.repeats / repeats) / judges)


def variance_parts(scores: NDArray[Any]) -> Union[VarianceParts, None]:
    """The parts from a rows × repeats or rows × judges × repeats array of one metric's scores, NaN where unscored.

    By the analysis of variance of the rows that are complete (random effects, repeats within rows and judges; parts
    below 0 are 0). With one repeat each, what repeats add is part of judges by rows. ``None`` for fewer than two
    complete rows, or one score a row.
    """
    values = np.asarray(scores, dtype=float)
    cells = values[:, None, :] if values.ndim == 2 else values
    cells = cells[~np.isnan(cells).any(axis=(1, 2))]
    rows, judges, repeats = cells.shape
    if rows < 2 or judges * repeats < 2:
        return None
    means, of_rows, of_judges = cells.mean(axis=2), cells.mean(axis=(1, 2)), cells.mean(axis=(0, 2))
    overall = cells.mean()
    within = float(cells.var(axis=2, ddof=1).mean()) if repeats > 1 else 0.0
    mean_rows = repeats * judges * float(of_rows.var(ddof=1))
    if judges == 1:
        return VarianceParts(max(0.0, mean_rows - within) / repeats, 0.0, 0.0, within)
    crossed = means - of_rows[:, None] - of_judges + overall
    mean_crossed = repeats * float((crossed**2).sum()) / (rows - 1) / (judges - 1)
    mean_judges = repeats * rows * float(of_judges.var(ddof=1))
    return VarianceParts(
        rows=max(0.0, mean_rows - mean_crossed) / (repeats * judges),
        judges=max(0.0, mean_judges - mean_crossed) / (repeats * rows),
        judges_by_rows=max(0.0, mean_crossed - within) / repeats,
        repeats=within,
    )


def crossed_interval(
    scores: Matrix, *, groups: Union[Labels, None] = None, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Union[tuple[float, float], None]:
    """The interval of the mean of a rows × repeats matrix (NaN: unscored), each row counted once by its own mean.

    Where whole repeats differ by more than chance (a judge of another day, another draw of the index), their variance
    is added, with degrees of freedom by Satterthwaite (1946). ``None`` for fewer than two rows (or ``groups``).
    """
    values = np.asarray(scores, dtype=float)
    scored = ~np.isnan(values).all(axis=1)
    names = None if groups is None else np.asarray(groups)[scored]
    values = values[scored]
    means = np.nanmean(values, axis=1) if values.size else np.empty(0)
    interval = bootstrap_interval(means.tolist(), groups=names, level=level, resamples=resamples, seed=seed)
    added = _of_repeats(values)
    if interval is None or added == 0:
        return interval
    middle = float(np.sort(means).mean())
    deviate = float(stdtrit(means.size - 1, (1 + level) / 2))
    own = max(((interval[1] - interval[0]) / 2 / deviate) ** 2, 1e-300)
    repeats = values.shape[1]
    degrees = (own + added) ** 2 / (own**2 / (means.size - 1) + added**2 / (repeats - 1))
    widened = math.sqrt(1 + added / own) * float(stdtrit(degrees, (1 + level) / 2)) / deviate
    return middle - (middle - interval[0]) * widened, middle + (interval[1] - middle) * widened


def _of_repeats(values: Matrix) -> float:
    """The variance that differences between whole repeats add to the mean, 0 where there is none."""
    complete = values[~np.isnan(values).any(axis=1)]
    rows, repeats = len(complete), values.shape[1]
    if rows < 2 or repeats < 2:
        return 0.0
    of_rows, of_repeats = complete.mean(axis=1), complete.mean(axis=0)
    rest = complete - of_rows[:, None] - of_repeats + complete.mean()
    chance = float((rest**2).sum()) / (rows - 1) / (repeats - 1) / rows
    between = float(of_repeats.var(ddof=1))
    added: float = max(0.0, between - chance) / repeats
    return added
