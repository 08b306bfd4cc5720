"""How far verdicts agree with labels. The class to be found, called positive, is the bad one: "unsupported"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtri, stdtrit

from mlflow_ragmetrics.statistics.groups import Labels, group_codes
from mlflow_ragmetrics.statistics.resampling import bootstrap_weights

__all__ = ["Agreement", "Estimate", "agreement", "auroc", "correlation", "krippendorff_alpha"]

Booleans = np.ndarray[Any, np.dtype[np.bool_]]
Values = np.ndarray[Any, Any]
_RESAMPLES = 4000
_MANY_GROUPS = 40
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


def agreement(
    flagged: Sequence[bool] | Booleans,
    bad: Sequence[bool] | Booleans,
    *,
    groups: Labels | None = None,
    seed: int = 0,
) -> Agreement:
    """Counts of verdicts against labels, and Cohen's κ (1960) with its percentile bootstrap interval.

    ``groups`` names that of each row: whole groups are then resampled, from 40 of them on, or left out one by one
    (jackknife and Student's t) below; fewer than two give no interval.
    """
    said, truth = np.asarray(flagged, dtype=bool), np.asarray(bad, dtype=bool)
    cells = np.array([(said & truth).sum(), (said & ~truth).sum(), (~said & truth).sum(), (~said & ~truth).sum()])
    found, false_alarms, missed, cleared = (int(cell) for cell in cells)
    own = None
    if groups is not None and said.size:
        codes = group_codes(groups)
        kinds = np.select([said & truth, said & ~truth, ~said & truth], [0, 1, 2], 3)
        own = np.bincount(4 * codes + kinds, minlength=4 * (int(codes.max()) + 1)).reshape(-1, 4)
    return Agreement(found, false_alarms, missed, cleared, _kappa(cells, own, seed))


def _kappa(cells: Values, groups: Values | None, seed: int) -> Estimate | None:
    """``None`` for labels of one kind, where κ says nothing of the verdicts; ``groups`` × cells where there are any."""
    rows, bad = int(cells.sum()), int(cells[0] + cells[2])
    if bad in (0, rows):
        return None
    value = float(_kappas(cells[None, :])[0])
    if groups is None:
        drawn = _kappas(np.random.default_rng(seed).multinomial(rows, cells / rows, size=_RESAMPLES))
    elif len(groups) < 2:
        return Estimate(value)
    elif len(groups) < _MANY_GROUPS:
        ordered = groups[np.lexsort(groups.T)]  # the order of the rows changes nothing
        return Estimate(value, *_jackknife_limits(value, _kappas(cells - ordered), least=-1.0))
    else:
        ordered = groups[np.lexsort(groups.T)].astype(float)
        weights = bootstrap_weights(len(ordered), _RESAMPLES, seed)
        drawn = _kappas(np.concatenate([block @ ordered for block in weights]))
    low, high = np.quantile(drawn[~np.isnan(drawn)], [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Estimate(value, float(low), float(high))


def _jackknife_limits(
    value: float, without: Values, *, least: float, most: float = 1.0
) -> tuple[float, float] | tuple[None, None]:
    """The limits of an estimate from what it is without each group (Efron 1982), with Student's t."""
    known = without[~np.isnan(without)]
    if known.size < 2:
        return None, None
    groups = known.size
    error = float(np.sqrt((groups - 1) / groups * ((known - known.mean()) ** 2).sum()))
    half = float(stdtrit(groups - 1, (1 + _LEVEL) / 2)) * error
    return max(least, value - half), min(most, value + half)


def _kappas(cells: Values) -> Values:
    found, alarms, missed, cleared = (cells / cells.sum(axis=1, keepdims=True)).T
    observed = found + cleared
    chance = (found + alarms) * (found + missed) + (missed + cleared) * (alarms + cleared)
    undefined = np.full_like(observed, np.nan)
    kappas: Values = np.divide(observed - chance, 1 - chance, out=undefined, where=chance < 1 - 1e-12)
    return kappas


def auroc(values: Values, bad: Booleans, *, groups: Labels | None = None) -> Estimate | None:
    """The probability that a bad row scores lower than a good one, ties half; ``None`` when one class is missing.

    The interval is DeLong's (1988) on the logit scale; with ``groups``, which name that of each row, Obuchowski's
    (1997) with Student's t.
    """
    worse, better = values[bad], values[~bad]
    if not worse.size or not better.size:
        return None
    from scipy.stats import rankdata  # takes longer to import than most evaluations: only who has labels waits for it

    ranks = rankdata(-np.concatenate([worse, better]))
    above_worse = (ranks[: worse.size] - rankdata(-worse)) / better.size
    above_better = 1 - (ranks[worse.size :] - rankdata(-better)) / worse.size
    area = float(above_worse.mean())
    if min(worse.size, better.size) < 2 or not 0 < area < 1:
        return Estimate(area)
    if groups is None:
        error = np.sqrt(above_worse.var(ddof=1) / worse.size + above_better.var(ddof=1) / better.size)
        deviate = ndtri((1 + _LEVEL) / 2)
    else:
        codes = group_codes(groups)
        number = int(codes.max()) + 1
        if min(number, np.unique(codes[bad]).size, np.unique(codes[~bad]).size) < 2:
            return Estimate(area)
        of_worse = np.bincount(codes[bad], weights=above_worse - area, minlength=number) / worse.size
        of_better = np.bincount(codes[~bad], weights=above_better - area, minlength=number) / better.size
        error = np.sqrt(number / (number - 1) * (np.sort(of_worse + of_better) ** 2).sum())
        deviate = stdtrit(number - 1, (1 + _LEVEL) / 2)
    half = deviate * error / (area * (1 - area))
    return Estimate(area, float(expit(logit(area) - half)), float(expit(logit(area) + half)))


def correlation(values: Values, grades: Values, kind: str, *, groups: Labels | None = None) -> Estimate | None:
    """``"pearson"`` or ``"spearman"``, with Fisher's interval; ``None`` where one side does not vary.

    With ``groups``, which name that of each row, the interval is that of the jackknife over them, on Fisher's scale.
    """
    if values.size < 3 or np.ptp(values) == 0 or np.ptp(grades) == 0:
        return None
    found = _coefficient(values, grades, kind)
    if values.size < 5 or abs(found) >= 1 - 1e-12:
        return Estimate(found)
    if groups is not None:
        codes = group_codes(groups)
        without = [_fishers_z(values[codes != each], grades[codes != each], kind) for each in range(codes.max() + 1)]
        low, high = _jackknife_limits(float(np.arctanh(found)), np.sort(without), least=-np.inf, most=np.inf)
        return Estimate(found, *(None if end is None else float(np.tanh(end)) for end in (low, high)))
    # Bonett and Wright (2000): the variance of Fisher's z of a rank correlation is larger by half its square.
    spread = 1.0 if kind == "pearson" else 1.0 + found**2 / 2
    half = float(ndtri((1 + _LEVEL) / 2)) * np.sqrt(spread / (values.size - 3))
    return Estimate(found, float(np.tanh(np.arctanh(found) - half)), float(np.tanh(np.arctanh(found) + half)))


def _coefficient(values: Values, grades: Values, kind: str) -> float:
    from scipy.stats import pearsonr, spearmanr

    return float((pearsonr if kind == "pearson" else spearmanr)(values, grades)[0])


def _fishers_z(values: Values, grades: Values, kind: str) -> float:
    if values.size < 3 or np.ptp(values) == 0 or np.ptp(grades) == 0:
        return np.nan
    found = _coefficient(values, grades, kind)
    return float(np.arctanh(np.clip(found, -1 + 1e-12, 1 - 1e-12)))


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
