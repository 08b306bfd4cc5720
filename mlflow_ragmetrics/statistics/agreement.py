"""How far verdicts agree with labels. The class to be found, called positive, is the bad one: "unsupported"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtri
from scipy.stats import pearsonr, rankdata, spearmanr

__all__ = ["Agreement", "Estimate", "agreement", "auroc", "correlation", "krippendorff_alpha"]

Booleans = np.ndarray[Any, np.dtype[np.bool_]]
Values = np.ndarray[Any, Any]
_RESAMPLES = 4000
_LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval, which is ``None`` where too little is known."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Agreement:
    """Verdicts against labels: counts of rows, and what follows from them; ``None`` where it is not defined.

    ``found``: bad rows flagged; ``false_alarms``: good ones flagged; ``missed``: bad ones passed; ``cleared``: good
    ones passed.
    """

    found: int
    false_alarms: int
    missed: int
    cleared: int
    kappa: Estimate | None = None

    @property
    def rows(self) -> int:
        """How many rows have both."""
        return self.found + self.false_alarms + self.missed + self.cleared

    @property
    def accuracy(self) -> float | None:
        """Share of the rows where verdict and label agree."""
        return _share(self.found + self.cleared, self.rows)

    @property
    def precision(self) -> float | None:
        """Share of the flagged rows that are bad."""
        return _share(self.found, self.found + self.false_alarms)

    @property
    def recall(self) -> float | None:
        """Share of the bad rows that are flagged."""
        return _share(self.found, self.found + self.missed)

    @property
    def specificity(self) -> float | None:
        """Share of the good rows that pass."""
        return _share(self.cleared, self.cleared + self.false_alarms)

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall; 0 where bad rows are there and none is found."""
        return _share(2 * self.found, 2 * self.found + self.false_alarms + self.missed)

    @property
    def balanced_accuracy(self) -> float | None:
        """The mean of recall and specificity: 0.5 for verdicts that know nothing, whatever the mix."""
        return None if self.recall is None or self.specificity is None else (self.recall + self.specificity) / 2


def agreement(flagged: Sequence[bool] | Booleans, bad: Sequence[bool] | Booleans, *, seed: int = 0) -> Agreement:
    """Counts of verdicts against labels, and Cohen's κ (1960) with its percentile bootstrap interval."""
    said, truth = np.asarray(flagged, dtype=bool), np.asarray(bad, dtype=bool)
    cells = np.array([(said & truth).sum(), (said & ~truth).sum(), (~said & truth).sum(), (~said & ~truth).sum()])
    found, false_alarms, missed, cleared = (int(cell) for cell in cells)
    return Agreement(found, false_alarms, missed, cleared, _kappa(cells, seed))


def _kappa(cells: Values, seed: int) -> Estimate | None:
    """``None`` for labels of one kind, where κ says nothing of the verdicts."""
    rows, bad = int(cells.sum()), int(cells[0] + cells[2])
    if bad in (0, rows):
        return None
    value = _kappas(cells[None, :])
    drawn = _kappas(np.random.default_rng(seed).multinomial(rows, cells / rows, size=_RESAMPLES))
    low, high = np.quantile(drawn[~np.isnan(drawn)], [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Estimate(float(value[0]), float(low), float(high))


def _kappas(cells: Values) -> Values:
    found, alarms, missed, cleared = (cells / cells.sum(axis=1, keepdims=True)).T
    observed = found + cleared
    chance = (found + alarms) * (found + missed) + (missed + cleared) * (alarms + cleared)
    undefined = np.full_like(observed, np.nan)
    kappas: Values = np.divide(observed - chance, 1 - chance, out=undefined, where=chance < 1 - 1e-12)
    return kappas


def auroc(values: Values, bad: Booleans) -> Estimate | None:
    """The probability that a bad row scores lower than a good one, ties half; ``None`` when one class is missing.

    The interval is DeLong's (1988) on the logit scale.
    """
    worse, better = values[bad], values[~bad]
    if not worse.size or not better.size:
        return None
    ranks = rankdata(-np.concatenate([worse, better]))
    above_worse = (ranks[: worse.size] - rankdata(-worse)) / better.size
    above_better = 1 - (ranks[worse.size :] - rankdata(-better)) / worse.size
    area = float(above_worse.mean())
    if min(worse.size, better.size) < 2 or not 0 < area < 1:
        return Estimate(area)
    error = np.sqrt(above_worse.var(ddof=1) / worse.size + above_better.var(ddof=1) / better.size)
    half = ndtri((1 + _LEVEL) / 2) * error / (area * (1 - area))
    return Estimate(area, float(expit(logit(area) - half)), float(expit(logit(area) + half)))


def correlation(values: Values, grades: Values, kind: str) -> Estimate | None:
    """``"pearson"`` or ``"spearman"``, with Fisher's interval; ``None`` where one side does not vary."""
    if values.size < 3 or np.ptp(values) == 0 or np.ptp(grades) == 0:
        return None
    found = float((pearsonr if kind == "pearson" else spearmanr)(values, grades)[0])
    if values.size < 5 or abs(found) >= 1 - 1e-12:
        return Estimate(found)
    # Bonett and Wright (2000): the variance of Fisher's z of a rank correlation is larger by half its square.
    spread = 1.0 if kind == "pearson" else 1.0 + found**2 / 2
    half = float(ndtri((1 + _LEVEL) / 2)) * np.sqrt(spread / (values.size - 3))
    return Estimate(found, float(np.tanh(np.arctanh(found) - half)), float(np.tanh(np.arctanh(found) + half)))


def krippendorff_alpha(scores: Values) -> float | None:
    """Krippendorff's α (2004) for interval data of a rows × judges array, NaN where a judge has no score.

    1: the judges agree on every row; 0: as much as by chance. ``None`` where no two judges scored the same row, or
    where all scores are equal, so that agreement says nothing.
    """
    values = np.asarray(scores, dtype=float)
    values = values[(~np.isnan(values)).sum(axis=1) > 1] if values.size else values
    if not values.size:
        return None
    judges = (~np.isnan(values)).sum(axis=1)
    within = 2 * (judges * np.nansum(values**2, axis=1) - np.nansum(values, axis=1) ** 2)
    pairable = values[~np.isnan(values)]
    count = pairable.size
    expected = 2 * (count * (pairable**2).sum() - pairable.sum() ** 2) / (count * (count - 1))
    if np.ptp(pairable) == 0:
        return None
    return float(1 - (within / (judges - 1)).sum() / count / expected)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
