"""The threshold that best separates bad rows from good ones, and whether its gain is more than noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlflow_ragmetrics.statistics.intervals import paired_intervals

Values = np.ndarray[Any, Any]
Booleans = np.ndarray[Any, np.dtype[np.bool_]]
_FOLDS = 10
_REPEATS = 5
_SLACK = 1e-9


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
        for each in range(_FOLDS):
            here = fold == each
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
