"""Agreement of verdicts with labels, and the threshold that separates bad rows best.

The positive class is the bad one, such as "unsupported".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtri, stdtrit

from mlflow_ragmetrics.statistics.intervals import LEVEL, Groups, group_codes, paired_intervals, unseen_share

Booleans = np.ndarray[Any, np.dtype[np.bool_]]
Values = np.ndarray[Any, Any]
_MOST_BLOCKS = 200
_FOLDS = 10
_REPEATS = 5
_SLACK = 1e-9


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval; the ends are ``None`` if it cannot be computed."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Agreement:
    """Verdicts compared with labels: row counts and derived figures, which are ``None`` if undefined.

    ``found``: bad rows flagged; ``false_alarms``: good rows flagged; ``missed``: bad rows passed; ``cleared``: good
    rows passed.
    """

    found: int
    false_alarms: int
    missed: int
    cleared: int
    kappa: Estimate | None = None

    @property
    def rows(self) -> int:
        """Number of rows with verdict and label."""
        return self.found + self.false_alarms + self.missed + self.cleared

    @property
    def accuracy(self) -> float | None:
        """Share of rows whose verdict and label agree."""
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
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall; 0 if none of the bad rows is found."""
        return _share(2 * self.found, 2 * self.found + self.false_alarms + self.missed)

    @property
    def balanced_accuracy(self) -> float | None:
        """The mean of recall and specificity; 0.5 for uninformative verdicts, whatever the share of bad rows."""
        passed = _share(self.cleared, self.cleared + self.false_alarms)
        return None if self.recall is None or passed is None else (self.recall + passed) / 2


def agreement(
    flagged: Sequence[bool] | Booleans, bad: Sequence[bool] | Booleans, *, groups: Groups = None
) -> Agreement:
    """Counts of verdicts by label, and Cohen's κ (1960) with a jackknife interval over rows or ``groups``.

    If no row changes κ, as with perfect verdicts, the interval uses the share of disagreeing rows (or groups) that the
    sample can miss (``unseen_share``).
    """
    flags, truth = np.asarray(flagged, dtype=bool), np.asarray(bad, dtype=bool)
    kinds = np.select([flags & truth, flags & ~truth, ~flags & truth], [0, 1, 2], 3)
    codes = np.arange(flags.size) if groups is None else group_codes(groups)
    table = np.bincount(4 * codes + kinds, minlength=4 * (int(codes.max(initial=-1)) + 1)).reshape(-1, 4)
    cells = table.sum(axis=0)
    caught, false_alarms, missed, cleared = (int(cell) for cell in cells)
    kappa = None
    if 0 < caught + missed < flags.size:  # with labels of one class κ is not informative
        chance = float(flags.mean() * truth.mean() + (~flags).mean() * (~truth).mean())
        value = float(_kappas(cells[None, :])[0])
        table = table[table.sum(axis=1) < flags.size]
        kappa = _jackknifed(value, _kappas(cells - table), least=-chance / (1 - chance))
    return Agreement(caught, false_alarms, missed, cleared, kappa)


def _jackknifed(value: float, without: Values, least: float = -1.0) -> Estimate:
    """An estimate in [-1, 1] with its interval, from its values ``without`` each row or group.

    The jackknife (Efron 1982) with Student's t, on Fisher's scale. ``least``: the value if all rows disagree.
    """
    known = np.sort(without[~np.isnan(without)])  # independent of the row order
    number = known.size
    if number < 2:
        return Estimate(value)
    error = float(np.sqrt((number - 1) / number * ((known - known.mean()) ** 2).sum()))
    if error < 1e-12 or abs(value) > 1 - 1e-12:
        share = unseen_share(number)
        return Estimate(value, max(-1.0, value - share * (value - least)), value + share * (1 - value))
    half = float(stdtrit(number - 1, (1 + LEVEL) / 2)) * error / (1 - value**2)
    return Estimate(value, float(np.tanh(np.arctanh(value) - half)), float(np.tanh(np.arctanh(value) + half)))


def _kappas(cells: Values) -> Values:
    caught, alarms, missed, cleared = (cells / cells.sum(axis=1, keepdims=True)).T
    observed = caught + cleared
    chance = (caught + alarms) * (caught + missed) + (missed + cleared) * (alarms + cleared)
    undefined = np.full_like(observed, np.nan)
    kappas: Values = np.divide(observed - chance, 1 - chance, out=undefined, where=chance < 1 - 1e-12)
    return kappas


def auroc(values: Values, bad: Booleans, *, groups: Groups = None) -> Estimate | None:
    """The probability that a bad row scores lower than a good one (ties count half); ``None`` if a class is missing.

    The interval is DeLong's (1988) on the logit scale; with ``groups``, one name per row, Obuchowski's (1997) with
    Student's t.
    """
    worse, better = values[bad], values[~bad]
    if not worse.size or not better.size:
        return None
    from scipy.stats import rankdata  # a slow import, needed only with labels

    ranks = rankdata(-np.concatenate([worse, better]))
    above_worse = (ranks[: worse.size] - rankdata(-worse)) / better.size
    above_better = 1 - (ranks[worse.size :] - rankdata(-better)) / worse.size
    area = float(above_worse.mean())
    if min(worse.size, better.size) < 2 or not 0 < area < 1:
        return Estimate(area)
    if groups is None:
        error = np.sqrt(above_worse.var(ddof=1) / worse.size + above_better.var(ddof=1) / better.size)
        deviate = ndtri((1 + LEVEL) / 2)
    else:
        codes = group_codes(groups)
        number = int(codes.max()) + 1
        if min(number, np.unique(codes[bad]).size, np.unique(codes[~bad]).size) < 2:
            return Estimate(area)
        of_worse = np.bincount(codes[bad], weights=above_worse - area, minlength=number) / worse.size
        of_better = np.bincount(codes[~bad], weights=above_better - area, minlength=number) / better.size
        error = np.sqrt(number / (number - 1) * (np.sort(of_worse + of_better) ** 2).sum())
        deviate = stdtrit(number - 1, (1 + LEVEL) / 2)
    if error < 1e-12:  # for example with equal scores
        return Estimate(area)
    half = deviate * error / (area * (1 - area))
    return Estimate(area, float(expit(logit(area) - half)), float(expit(logit(area) + half)))


def correlation(values: Values, grades: Values, kind: str, *, groups: Groups = None) -> Estimate | None:
    """``"pearson"`` or ``"spearman"`` with Fisher's interval; ``None`` if either side is constant.

    With ``groups``, one name per row, the interval is a jackknife over groups on Fisher's scale. More than 200 groups
    are combined into 200 random blocks, with a fixed seed.
    """
    found = _coefficient(values, grades, kind)
    if np.isnan(found):
        return None
    if values.size < 5 or abs(found) >= 1 - 1e-12:
        return Estimate(found)
    if groups is not None:
        codes = group_codes(groups)
        blocks = np.random.default_rng(0).permutation(np.arange(codes.max() + 1) % _MOST_BLOCKS)[codes]
        parts = (blocks != block for block in range(blocks.max() + 1))
        return _jackknifed(found, np.array([_coefficient(values[part], grades[part], kind) for part in parts]))
    # Bonett and Wright (2000): for a rank correlation r, the variance of Fisher's z is larger by a factor 1 + r²/2.
    spread = 1.0 if kind == "pearson" else 1.0 + found**2 / 2
    half = float(ndtri((1 + LEVEL) / 2)) * np.sqrt(spread / (values.size - 3))
    return Estimate(found, float(np.tanh(np.arctanh(found) - half)), float(np.tanh(np.arctanh(found) + half)))


def _coefficient(values: Values, grades: Values, kind: str) -> float:
    from scipy.stats import pearsonr, spearmanr

    if values.size < 3 or np.ptp(values) == 0 or np.ptp(grades) == 0:
        return np.nan
    return float((pearsonr if kind == "pearson" else spearmanr)(values, grades)[0])


def krippendorff_alpha(scores: Values) -> float | None:
    """Krippendorff's α (2004) for interval data, from a rows × judges array (NaN: no score).

    1: full agreement; 0: agreement by chance. ``None`` if no two judges scored the same row, or all scores are equal.
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


@dataclass(frozen=True)
class ThresholdGain:
    """The gain in held-out balanced accuracy over the ``default`` threshold, with its 95 % interval.

    ``chosen``: the best threshold on all rows.
    """

    chosen: float
    held_out: float
    default: float
    gain: float
    low: float
    high: float

    @property
    def beats_default(self) -> bool:
        """Whether the whole interval of the gain is above 0."""
        return self.low > 0


def best_threshold(values: Values, bad: Booleans, default: float) -> float:
    """The threshold with the highest balanced accuracy, flagging rows below it; of equals, the nearest to ``default``.

    It is a number between two observed values, with as few decimals as possible. Both classes must be present.
    """
    order = np.argsort(values, kind="stable")
    ordered, is_bad = values[order], bad[order]
    caught = np.concatenate([[0], np.cumsum(is_bad)]) / is_bad.sum()
    lost = np.concatenate([[0], np.cumsum(~is_bad)]) / (~is_bad).sum()
    edges = np.concatenate([[True], ordered[1:] > ordered[:-1] + _SLACK, [True]])
    places = np.flatnonzero(edges)
    quality = (caught - lost)[places]
    best = places[quality >= quality.max() - _SLACK]
    usual = np.searchsorted(ordered, default - _SLACK)
    if usual in best:
        return default
    nearest = *best[best < usual][-1:], *best[best > usual][:1]
    return min((_between(ordered, int(place)) for place in nearest), key=lambda cut: abs(cut - default))


def threshold_gain(
    values: Values, bad: Booleans, default: float, *, groups: Sequence[str] | Values | None = None, seed: int = 0
) -> ThresholdGain | None:
    """The gain of the best threshold over ``default``, by five repeats of ten-fold cross-validation.

    Rows of one group stay in one fold. ``None`` if a class has fewer than ten rows or groups. The interval is that of
    paired differences over groups.
    """
    names = np.arange(values.size) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    if min(np.unique(names[bad]).size, np.unique(names[~bad]).size) < _FOLDS:
        return None
    held_out = np.zeros(values.size)
    for repeat in range(_REPEATS):
        fold = _folds(names, bad, np.random.default_rng([seed, repeat]))
        for number in range(_FOLDS):
            here = fold == number
            cut = best_threshold(values[~here], bad[~here], default)
            held_out[here] += _right(values[here], bad[here], cut) / _REPEATS
    usual = _right(values, bad, default)
    share = np.where(bad, 0.5 / bad.sum(), 0.5 / (~bad).sum())
    gains = np.bincount(names, weights=share * (held_out - usual)).astype(float) * (names.max() + 1)
    low, high = paired_intervals(gains[:, None], seed=seed)[0] or (0.0, 0.0)
    figures = float((share * held_out).sum()), float((share * usual).sum())
    return ThresholdGain(best_threshold(values, bad, default), *figures, figures[0] - figures[1], low, high)


def _right(values: Values, bad: Booleans, cut: float) -> Values:
    right: Values = ((values < cut - _SLACK) == bad).astype(float)
    return right


def _folds(names: Values, bad: Booleans, generator: np.random.Generator) -> Values:
    """The fold of each row. Groups are dealt at random by kind, so that no fold holds all rows of a class."""
    groups = np.unique(names)
    has_bad, has_good = np.isin(groups, names[bad]), np.isin(groups, names[~bad])
    kinds = has_bad & has_good, has_bad & ~has_good, ~has_bad
    dealt = np.concatenate([generator.permutation(groups[kind]) for kind in kinds])
    fold_of = np.empty(int(groups.max()) + 1, dtype=int)
    fold_of[dealt] = np.arange(dealt.size) % _FOLDS
    return fold_of[names]


def _between(ordered: Values, place: int) -> float:
    low = float(ordered[place - 1]) if place > 0 else float(ordered[0]) - 0.01
    high = float(ordered[place]) if place < ordered.size else float(ordered[-1]) + 0.01
    for digits in range(1, 12):
        cut = round((low + high) / 2, digits)
        if low + 2 * _SLACK < cut <= high:
            return cut
    return high
