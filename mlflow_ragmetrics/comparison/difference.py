"""What became of one metric between two versions, and whether that is more than noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Union

import numpy as np

from mlflow_ragmetrics.statistics.intervals import paired_intervals
from mlflow_ragmetrics.statistics.significance import effect_size, holm, rows_needed, sign_flip_tests
from mlflow_ragmetrics.views import text

__all__ = ["ALPHA", "TOLERANCE", "Difference", "Passes", "Verdict", "differences_of"]

Verdict = Literal["improved", "regressed", "unchanged", "too few rows to tell"]
Values = np.ndarray[Any, Any]
TOLERANCE = 0.05
ALPHA = 0.05
_FEWEST = 6
_TIE = 1e-9


@dataclass(frozen=True)
class Passes:
    """Rows that reach the threshold on both sides, and how many changed sides; McNemar's exact p-value."""

    rate_a: float
    rate_b: float
    newly_passed: int
    newly_failed: int
    p_value: float


@dataclass(frozen=True)
class Difference:
    """One metric, B minus A over the ``rows`` that both sides scored; ``None`` where too few rows say nothing.

    ``low`` and ``high`` are the 95 % interval of ``difference``, ``p_value`` is the sign-flip test's and ``p_holm`` the
    same adjusted for the number of metrics. ``needed``: rows with which a difference of ``tolerance`` would be seen in
    four of five comparisons. ``unscored_a`` and ``unscored_b`` count paired rows without a score on that side.
    """

    key: str
    rows: int
    mean_a: float | None = None
    mean_b: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    p_holm: float | None = None
    wins: int = 0
    ties: int = 0
    losses: int = 0
    effect: float | None = None
    needed: int | None = None
    tolerance: float = TOLERANCE
    unscored_a: int = 0
    unscored_b: int = 0
    passes: Union[Passes, None] = None

    @property
    def verdict(self) -> Verdict:
        """Unchanged: the whole interval lies within the tolerance, though it may exclude 0. Improved or regressed:
        Holm's p-value is below 5 %. Else there are too few rows to tell, and always with fewer than six."""
        if self.rows < _FEWEST or self.low is None or self.high is None or self.p_holm is None:
            return "too few rows to tell"
        if -self.tolerance <= self.low and self.high <= self.tolerance:
            return "unchanged"
        if self.p_holm < ALPHA:
            return "improved" if (self.difference or 0.0) > 0 else "regressed"
        return "too few rows to tell"

    @property
    def sentence(self) -> str:
        """Metric, verdict and figures in one line."""
        return text.sentence(self)


def differences_of(
    scores: Mapping[str, tuple[Values, Values]], *, tolerance: float, resamples: int, seed: int
) -> list[Difference]:
    """The difference of each key from its paired columns (A, B), NaN where unscored; tests are adjusted together."""
    if not scores:
        return []
    matrix = np.column_stack([b - a for a, b in scores.values()])
    intervals = paired_intervals(matrix, resamples=resamples, seed=seed)
    p_values = sign_flip_tests(matrix, resamples=resamples, seed=seed + 1)
    found = [_described(key, a, b, tolerance) for key, (a, b) in scores.items()]
    tested = [place for place, each in enumerate(found) if each.rows > 1]
    adjusted = dict(zip(tested, holm([p_values[place] for place in tested]), strict=True))
    for place in tested:
        low, high = intervals[place] or (None, None)
        found[place] = replace(found[place], low=low, high=high, p_value=p_values[place], p_holm=adjusted[place])
    return found


def _described(key: str, a: Values, b: Values, tolerance: float) -> Difference:
    both = ~(np.isnan(a) | np.isnan(b))
    unscored_a, unscored_b = int(np.isnan(a).sum()), int(np.isnan(b).sum())
    bare = Difference(key, int(both.sum()), tolerance=tolerance, unscored_a=unscored_a, unscored_b=unscored_b)
    if not both.any():
        return bare
    changes = b[both] - a[both]
    deviation = float(changes.std(ddof=1)) if changes.size > 1 else None
    return replace(
        bare,
        mean_a=float(a[both].mean()),
        mean_b=float(b[both].mean()),
        difference=float(changes.mean()),
        wins=int((changes > _TIE).sum()),
        ties=int((np.abs(changes) <= _TIE).sum()),
        losses=int((changes < -_TIE).sum()),
        effect=effect_size(changes.tolist()),
        needed=rows_needed(deviation, tolerance) if deviation is not None and tolerance > 0 else None,
    )
