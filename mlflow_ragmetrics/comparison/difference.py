"""The difference of one metric between two versions, and whether it is more than noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, Literal, Union, get_args

import numpy as np

from mlflow_ragmetrics.core.document import Cell, Interval, number, signed
from mlflow_ragmetrics.core.score import Better
from mlflow_ragmetrics.statistics.groups import describe_groups
from mlflow_ragmetrics.statistics.intervals import BOOTSTRAP_GROUPS, paired_intervals
from mlflow_ragmetrics.statistics.sample_size import about, power_of
from mlflow_ragmetrics.statistics.significance import effect_size, holm, mcnemar, sign_flip_tests, t_tests
from mlflow_ragmetrics.text.messages import counted

Verdict = Literal["improved", "regressed", "changed", "unchanged", "too few rows to tell"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
Values = np.ndarray[Any, Any]
TOLERANCE = 0.05
ALPHA = 0.05
_FEWEST = 6
_TIE = 1e-9


@dataclass(frozen=True)
class Passes:
    """Of so many ``rows`` (or conversations) known on both sides, how many pass, and how many changed sides.

    ``p_value`` is McNemar's, exact.
    """

    rows: int
    passed_a: int
    passed_b: int
    newly_passed: int
    newly_failed: int
    p_value: float

    @classmethod
    def of(cls, before: Values, after: Values) -> Passes:
        """From who passes before and after."""
        won, lost = int((after & ~before).sum()), int((before & ~after).sum())
        return cls(len(before), int(before.sum()), int(after.sum()), won, lost, mcnemar(lost, won))

    def __str__(self) -> str:
        changed = f"{self.newly_passed} newly pass, {self.newly_failed} newly fail, McNemar p = {self.p_value:.4f}"
        return f"{self.passed_a} → {self.passed_b} of {self.rows} pass ({changed})"


@dataclass(frozen=True)
class Difference:
    """One metric, B minus A over the ``rows`` that both sides scored; ``None`` where too few rows say nothing.

    ``low`` and ``high`` are the 95 % interval of ``difference``, ``p_value`` is the sign-flip test's and ``p_holm`` the
    same adjusted for the number of metrics. ``needed``: rows with which a difference of ``tolerance`` would be seen in
    four of five comparisons, where there are too few to tell. ``unscored_a`` and ``unscored_b`` count paired rows
    without a score on that side. Where rows are grouped, ``groups`` is their number, ``design_effect`` how many times
    larger the variance is for it, and ``few_groups`` marks fewer than ten effective ones, whose interval may cover less
    than it says; interval and test are then those over groups. ``higher_is_better`` is ``False`` where lower is
    better: a negative difference is then an improvement, and ``wins`` are the rows that fell; ``None``: neither is.
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
    groups: int | None = None
    design_effect: float | None = None
    few_groups: bool = False
    higher_is_better: Better = True

    @property
    def verdict(self) -> Verdict:
        """Unchanged: the whole interval lies within the tolerance, though it may exclude 0. Improved or regressed, or
        changed where neither side is better: Holm's p-value is below 5 %. Else there are too few rows to tell, and
        always with fewer than six, or groups."""
        independent = self.rows if self.groups is None else self.groups
        if independent < _FEWEST or self.low is None or self.high is None or self.p_holm is None:
            return "too few rows to tell"
        if -self.tolerance <= self.low and self.high <= self.tolerance:
            return "unchanged"
        if self.p_holm < ALPHA:
            if self.higher_is_better is None:
                return "changed"
            return "improved" if ((self.difference or 0.0) > 0) is self.higher_is_better else "regressed"
        return "too few rows to tell"

    @property
    def sentence(self) -> str:
        """Metric, verdict and figures in one line."""
        if self.difference is None:
            return f"{self.key}: {self.verdict}; no row is scored on both sides"
        means = f"{number(self.mean_a)} → {number(self.mean_b)} ({signed(self.difference)}"
        if self.low is None:
            return f"{self.key}: {self.verdict}, {means}, {self.counted()})"
        interval = f"95 % interval {signed(self.low)} to {signed(self.high)}, p = {number(self.p_holm, 4)} after Holm"
        groups = "" if self.groups is None else f", {self.counted()}"
        said = f"{self.key}: {self.verdict}, {means}, {interval}{groups})"
        if self.verdict != "too few rows to tell" or self.needed is None:
            return said
        rows, tolerance = counted(self.rows, "row"), f"a difference of {self.tolerance:g}"
        if self.needed > self.rows:
            return f"{said}; {rows}, about {self.needed} would show {tolerance}"
        return f"{said}; {tolerance} cannot be ruled out with {rows}"

    def counted(self, unit: str = "rows") -> str:
        """How many rows there are and in how many groups, with the mark: ``60 rows in 4 groups (few groups)``."""
        rows = counted(self.rows, unit.removesuffix("s"))
        if self.groups is None:
            return rows
        return f"{rows} in {counted(self.groups, 'group')}{' (few groups)' if self.few_groups else ''}"

    def plain(self, unit: str = "rows") -> str:
        """The figures in a few words: ``faithfulness (+0.19 [0.13, 0.27], 60 questions)``; where there are too few
        rows, how many would do: ``on faithfulness 60 rows cannot tell, about 370 would``."""
        if self.verdict != "too few rows to tell":
            limits = f"[{number(self.low, 2)}, {number(self.high, 2)}]"
            return f"{self.key} ({self.difference:+.2f} {limits}, {self.counted(unit)})"
        if self.difference is None:
            return f"on {self.key} no row is scored on both sides"
        cannot = f"on {self.key} {self.counted()} cannot tell"
        if self.needed is not None and self.needed > self.rows:
            return f"{cannot}, about {about(self.needed)} {'rows ' if self.groups else ''}would"
        return f"{cannot} whether it is more than {self.tolerance:g}"

    def figures(self, reach: float) -> dict[str, Cell]:
        """The figures by the heading that tables have above them; intervals are drawn from ``-reach`` to ``reach``."""
        interval: Cell = "–"
        if self.low is not None and self.high is not None:
            text = f"{signed(self.low)} … {signed(self.high)}"
            interval = Interval(text, self.low, self.difference or 0.0, self.high, self.tolerance, reach)
        return {
            "A": number(self.mean_a),
            "B": number(self.mean_b),
            "B−A": signed(self.difference),
            "95 % interval": interval,
            "p (Holm)": number(self.p_holm, 4),
            "d_z": number(self.effect, 2),
            "won/tied/lost": f"{self.wins}/{self.ties}/{self.losses}",
            "rows": str(self.rows),
            **({} if self.groups is None else {"groups": f"{self.groups}{' (few)' if self.few_groups else ''}"}),
            "needed": "–" if self.needed is None else str(self.needed),
        }

    def record(self) -> dict[str, Any]:
        """The columns of ``Comparison.table``."""
        plain = {name: value for name, value in vars(self).items() if name not in ("key", "passes", "tolerance")}
        passes = self.passes
        return {
            "metric": self.key,
            "verdict": self.verdict,
            **plain,
            "pass_rate_a": passes and passes.passed_a / passes.rows,
            "pass_rate_b": passes and passes.passed_b / passes.rows,
            "newly_passed": passes and passes.newly_passed,
            "newly_failed": passes and passes.newly_failed,
            "mcnemar_p": passes and passes.p_value,
        }


def differences_of(
    scores: Mapping[str, tuple[Values, Values]],
    *,
    tolerance: float,
    resamples: int,
    seed: int,
    groups: Sequence[str] | None = None,
    adjusted: bool = True,
    better: Mapping[str, Better] | None = None,
) -> list[Difference]:
    """The difference of each key from its paired columns (A, B), NaN where unscored; tests are adjusted together.

    ``better`` says of which keys higher is not better. ``groups`` names that of each row. With fewer than 40 of them
    the test is the cluster-robust t, as the interval is, else the sign-flip test of their sums. Where not ``adjusted``,
    ``adjust`` is to be called for what is compared.
    """
    if not scores:
        return []
    matrix = np.column_stack([b - a for a, b in scores.values()])
    intervals = paired_intervals(matrix, groups=groups, resamples=resamples, seed=seed)
    p_values: list[float | None] = [*sign_flip_tests(matrix, groups=groups, resamples=resamples, seed=seed + 1)]
    groupings = describe_groups(matrix, groups) if groups is not None else None
    powers = power_of(matrix, groups=groups) if tolerance else [None] * matrix.shape[1]
    if groups is not None and groupings is not None:
        for place, p_value in enumerate(t_tests(matrix, groups)):
            if groupings[place].groups < BOOTSTRAP_GROUPS:
                p_values[place] = p_value
    found = [
        _difference(
            key,
            *scores[key],
            (better or {}).get(key, True),
            tolerance=tolerance,
            low=None if interval is None else interval[0],
            high=None if interval is None else interval[1],
            p_value=None if interval is None else p_value,
            needed=None if power is None else power.rows_needed(tolerance),
            groups=None if grouping is None else grouping.groups,
            design_effect=None if grouping is None else grouping.design_effect,
            few_groups=grouping is not None and grouping.few_groups,
        )
        for key, interval, p_value, power, grouping in zip(
            scores, intervals, p_values, powers, groupings or repeat(None, len(scores)), strict=True
        )
    ]
    return adjust(found) if adjusted else found


def adjust(differences: Sequence[Difference]) -> list[Difference]:
    """With p-values adjusted by Holm for their number, and ``needed`` only where there are too few rows to tell."""
    tested = [place for place, each in enumerate(differences) if each.p_value is not None]
    corrected = holm([float(differences[place].p_value or 0.0) for place in tested])
    found = [*differences]
    for place, p_value in zip(tested, corrected, strict=True):
        found[place] = replace(found[place], p_holm=p_value)
    return [each if each.verdict == "too few rows to tell" else replace(each, needed=None) for each in found]


def _difference(key: str, a: Values, b: Values, better: Better, **found: Any) -> Difference:
    both = ~(np.isnan(a) | np.isnan(b))
    changes = np.sort(b[both] - a[both])  # so that the order of rows changes not even the last digit
    gains = -changes if better is False else changes
    return Difference(
        key,
        rows=len(changes),
        mean_a=_mean(a[both]),
        mean_b=_mean(b[both]),
        difference=_mean(changes),
        wins=int((gains > _TIE).sum()),
        ties=int((np.abs(changes) <= _TIE).sum()),
        losses=int((gains < -_TIE).sum()),
        effect=effect_size(changes.tolist()),
        unscored_a=int(np.isnan(a).sum()),
        unscored_b=int(np.isnan(b).sum()),
        higher_is_better=better,
        **found,
    )


def _mean(values: Values) -> float | None:
    return float(np.sort(values).mean()) if values.size else None
