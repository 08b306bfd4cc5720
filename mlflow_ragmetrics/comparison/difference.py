"""The difference of one metric between two versions, and whether it is more than noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Union

import numpy as np

from mlflow_ragmetrics.statistics.intervals import paired_intervals
from mlflow_ragmetrics.statistics.significance import effect_size, holm, rows_needed, sign_flip_tests
from mlflow_ragmetrics.views.text import number, signed

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

    def __str__(self) -> str:
        return (
            f"{self.rate_a:.1%} → {self.rate_b:.1%} of the rows pass ({self.newly_passed} newly pass, "
            f"{self.newly_failed} newly fail, McNemar p = {self.p_value:.4f})"
        )


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
        if self.difference is None:
            return f"{self.key}: {self.verdict}; no row is scored on both sides"
        means = f"{number(self.mean_a)} → {number(self.mean_b)} ({signed(self.difference)}"
        if self.low is None:
            return f"{self.key}: {self.verdict}, {means}, {self.rows} row)"
        interval = f"95 % interval {signed(self.low)} to {signed(self.high)}, p = {number(self.p_holm, 4)} after Holm"
        return f"{self.key}: {self.verdict}, {means}, {interval}){self._rows_advice()}"

    def _rows_advice(self) -> str:
        if self.verdict != "too few rows to tell" or self.needed is None:
            return ""
        if self.needed > self.rows:
            return f"; {self.rows} rows, about {self.needed} would show a difference of {self.tolerance:g}"
        return f"; a difference of {self.tolerance:g} cannot be ruled out with {self.rows} rows"

    @property
    def figures(self) -> dict[str, str]:
        """The figures by the heading that tables have above them, as text; a dash where one is unknown."""
        return {
            "A": number(self.mean_a),
            "B": number(self.mean_b),
            "B−A": signed(self.difference),
            "95 % interval": "–" if self.low is None else f"{signed(self.low)} … {signed(self.high)}",
            "p (Holm)": number(self.p_holm, 4),
            "d_z": number(self.effect, 2),
            "won/tied/lost": f"{self.wins}/{self.ties}/{self.losses}",
            "rows": str(self.rows),
            "needed": "–" if self.needed is None else str(self.needed),
        }


def differences_of(
    scores: Mapping[str, tuple[Values, Values]], *, tolerance: float, resamples: int, seed: int
) -> list[Difference]:
    """The difference of each key from its paired columns (A, B), NaN where unscored; tests are adjusted together."""
    if not scores:
        return []
    matrix = np.column_stack([b - a for a, b in scores.values()])
    intervals = paired_intervals(matrix, resamples=resamples, seed=seed)
    p_values = sign_flip_tests(matrix, resamples=resamples, seed=seed + 1)
    found = [_difference(key, a, b, tolerance) for key, (a, b) in scores.items()]
    tested = [place for place, each in enumerate(found) if each.rows > 1]
    adjusted = dict(zip(tested, holm([p_values[place] for place in tested]), strict=True))
    for place in tested:
        low, high = intervals[place] or (None, None)
        found[place] = replace(found[place], low=low, high=high, p_value=p_values[place], p_holm=adjusted[place])
    return found


def _difference(key: str, a: Values, b: Values, tolerance: float) -> Difference:
    both = ~(np.isnan(a) | np.isnan(b))
    unscored_a, unscored_b = int(np.isnan(a).sum()), int(np.isnan(b).sum())
    counted = Difference(key, int(both.sum()), tolerance=tolerance, unscored_a=unscored_a, unscored_b=unscored_b)
    if not both.any():
        return counted
    changes = b[both] - a[both]
    deviation = float(changes.std(ddof=1)) if changes.size > 1 else None
    return replace(
        counted,
        mean_a=float(a[both].mean()),
        mean_b=float(b[both].mean()),
        difference=float(changes.mean()),
        wins=int((changes > _TIE).sum()),
        ties=int((np.abs(changes) <= _TIE).sum()),
        losses=int((changes < -_TIE).sum()),
        effect=effect_size(changes.tolist()),
        needed=rows_needed(deviation, tolerance) if deviation is not None and tolerance > 0 else None,
    )
