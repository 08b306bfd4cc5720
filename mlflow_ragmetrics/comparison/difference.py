"""The difference between two versions on one metric, and whether it is more than noise."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from mlflow_ragmetrics.core.score import Better, passes
from mlflow_ragmetrics.display.document import Cell, Interval, number, signed
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.tables import score_keys
from mlflow_ragmetrics.statistics.intervals import clusters_of, paired_intervals
from mlflow_ragmetrics.statistics.significance import about, equal_columns, holm, paired_tests, power_of
from mlflow_ragmetrics.text.messages import counted

Verdict = Literal["improved", "regressed", "changed", "unchanged", "cannot be told"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
Values = np.ndarray[Any, Any]
TOLERANCE = 0.05
ALPHA = 0.05
_FEWEST = 6
_MOST_LOST = 0.05
_TIE = 1e-9


def shared_keys(a: Evaluation, b: Evaluation) -> list[str]:
    """The metrics that both sides have, composites first."""
    return [key for key in score_keys(a.table) if key in b.keys]


@dataclass(frozen=True)
class Difference:
    """B minus A for one metric over the ``rows`` that both sides measured; figures that need more rows are ``None``.

    ``paired_mean_a``, ``paired_mean_b``: means of these rows, not of the whole runs. The other rows are counted:
    ``unscored_a``, ``unscored_b`` and ``unscored_both`` are pairs not measured in A only, in B only, or in both;
    ``only_a`` and ``only_b`` are rows without a partner. ``lost_b`` of ``unscored_b`` have no answer, no context or a
    failed judge in B; ``lost_a`` likewise. ``unlike`` pairs are not comparable: another question, another reference
    for a metric that reads it, or a composite of other members.
    ``low``, ``high``: the 95 % interval of ``difference``. ``p_value``: see ``paired_tests``. ``p_holm``: adjusted for
    the number of metrics; a metric that is ``same_as`` another in every row adds no test. ``unseen``: the largest shift
    of the mean by a kind of row that the sample may have missed. ``needed``: rows that would show a difference of
    ``tolerance`` in four of five comparisons, if the verdict is "cannot be told".
    With groups, interval and test are over groups; ``groups`` is their number, ``design_effect`` the factor by which
    they increase the variance, and ``few_groups`` marks fewer than ten effective groups, whose interval may be too
    narrow. ``higher_is_better``: ``False`` if lower is better (a negative difference is an improvement, and ``wins``
    are the rows that fell), ``None`` if the metric has no better direction.
    """

    key: str
    rows: int
    paired_mean_a: float | None = None
    paired_mean_b: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    p_holm: float | None = None
    wins: int = 0
    ties: int = 0
    losses: int = 0
    needed: int | None = None
    tolerance: float = TOLERANCE
    unscored_a: int = 0
    unscored_b: int = 0
    unscored_both: int = 0
    only_a: int = 0
    only_b: int = 0
    lost_a: int = 0
    lost_b: int = 0
    unlike: int = 0
    unseen: float = 0.0
    same_as: str | None = None
    groups: int | None = None
    design_effect: float | None = None
    few_groups: bool = False
    higher_is_better: Better = True

    @property
    def verdict(self) -> Verdict:
        """``paired_verdict``, or "cannot be told" if lost rows could change it: a side that lost rows is never better,
        and with lost rows no metric is unchanged. With more than 5 % ``unlike`` pairs it cannot be told either."""
        if self._is_refused:
            return "cannot be told"
        verdict = self.paired_verdict
        unsure = {"improved": self.lost_b, "regressed": self.lost_a, "unchanged": self.lost_a + self.lost_b}
        return "cannot be told" if unsure.get(verdict) else verdict

    @property
    def _common(self) -> int:
        return self.rows + self.unscored_a + self.unscored_b + self.unscored_both + self.unlike

    @property
    def _is_refused(self) -> bool:
        return self.unlike > _MOST_LOST * self._common

    @property
    def paired_verdict(self) -> Verdict:
        """The verdict from the paired rows alone.

        Unchanged: the whole interval is within the tolerance (it may exclude 0). Improved, regressed, or changed (for a
        metric without a better direction): ``p_holm`` is below 5 %. Otherwise, with fewer than six rows or groups, or
        if ``unseen`` rows could change the verdict: cannot be told.
        """
        independent = self.rows if self.groups is None else self.groups
        if independent < _FEWEST or self.low is None or self.high is None or self.p_holm is None:
            return "cannot be told"
        size = abs(self.difference or 0.0)
        if passes(max(-self.low, self.high, size + self.unseen), self.tolerance, higher_is_better=False):
            return "unchanged"
        if self.p_holm < ALPHA and size > self.unseen:
            if self.higher_is_better is None:
                return "changed"
            return "improved" if ((self.difference or 0.0) > 0) is self.higher_is_better else "regressed"
        return "cannot be told"

    def reaches(self, verdicts: Collection[str]) -> bool:
        """Whether the verdict is one of ``verdicts``. "regressed" also matches ``paired_verdict``, a B that lost more
        than 5 % of the rows that A measured, and more than 5 % ``unlike`` pairs."""
        lost = self._is_refused or self.lost_b > _MOST_LOST * (self.rows + self.unscored_b)
        is_worse = "regressed" in verdicts and (lost or self.paired_verdict == "regressed")
        return is_worse or self.verdict in verdicts

    @property
    def accounted(self) -> str:
        """Counts of the rows of both runs: ``55 paired, 5 unscored in B only (3 lost by B), 2 in A's run only``."""
        counts = {
            "paired": self.rows,
            f"unscored in A only{f' ({self.lost_a} lost by A)' if self.lost_a else ''}": self.unscored_a,
            f"unscored in B only{f' ({self.lost_b} lost by B)' if self.lost_b else ''}": self.unscored_b,
            "unscored in both": self.unscored_both,
            "not comparable": self.unlike,
            "in A's run only": self.only_a,
            "in B's run only": self.only_b,
        }
        return ", ".join(f"{count} {name}" for name, count in counts.items() if count or name == "paired")

    @property
    def counted(self) -> str:
        """Number of rows and groups, with the mark: ``60 rows in 4 groups (few groups)``."""
        rows = counted(self.rows, "row")
        if self.groups is None:
            return rows
        return f"{rows} in {counted(self.groups, 'group')}{' (few groups)' if self.few_groups else ''}"

    @property
    def plain(self) -> str:
        """The figures in brief: ``faithfulness (+0.19 [0.13, 0.27], 60 rows)``; with too few rows, the number
        needed: ``no verdict on faithfulness with 60 rows (about 370 needed)``."""
        if self.verdict != "cannot be told":
            limits = f"[{number(self.low, 2)}, {number(self.high, 2)}]"
            return f"{self.key} ({self.difference:+.2f} {limits}, {self.counted})"
        if self._is_refused:
            return f"no verdict on {self.key}: {self.unlike} of {counted(self._common, 'row')} are not comparable"
        if self.difference is None:
            return f"no verdict on {self.key}: no row is measured on both sides"
        if self.verdict != self.paired_verdict:
            lost = " and ".join(f"{side} lost {n}" for side, n in (("A", self.lost_a), ("B", self.lost_b)) if n)
            return f"no verdict on {self.key}: {lost} of the rows that the other measured"
        cannot = f"no verdict on {self.key} with {self.counted}"
        if self.needed is not None and self.needed > self.rows:
            return f"{cannot} (about {about(self.needed)} {'rows ' if self.groups else ''}needed)"
        return f"{cannot}: the difference may exceed {self.tolerance:g}"

    def figures(self, reach: float) -> dict[str, Cell]:
        """The figures by table heading; intervals are drawn from ``-reach`` to ``reach``."""
        interval: Cell = "–"
        if self.low is not None and self.high is not None:
            text = f"{signed(self.low)} … {signed(self.high)}"
            interval = Interval(text, self.low, self.difference or 0.0, self.high, self.tolerance, reach)
        return {
            "A paired": number(self.paired_mean_a),
            "B paired": number(self.paired_mean_b),
            "B−A": signed(self.difference),
            "95 % interval": interval,
            "p (Holm)": number(self.p_holm, 4),
            "won/tied/lost": f"{self.wins}/{self.ties}/{self.losses}",
            "rows": str(self.rows),
            **({} if self.groups is None else {"groups": f"{self.groups}{' (few)' if self.few_groups else ''}"}),
            "needed": "–" if self.needed is None else str(self.needed),
        }

    def record(self) -> dict[str, Any]:
        """The columns of ``Comparison.table``."""
        plain = {name: value for name, value in vars(self).items() if name not in ("key", "tolerance")}
        return {"metric": self.key, "verdict": self.verdict, **plain}


def differences_of(
    scores: Mapping[str, tuple[Values, Values]],
    *,
    tolerance: float,
    resamples: int,
    groups: Sequence[str] | None = None,
    candidates: int = 1,
    better: Mapping[str, Better] | None = None,
    spans: Mapping[str, float] | None = None,
    failed: tuple[Values, Values] | None = None,
    unlike: Mapping[str, Values] | None = None,
) -> list[Difference]:
    """The difference of each key from its paired columns (A, B; NaN: not measured), with tests adjusted together.

    ``better``: the better direction of each key (default: higher). ``spans``: the largest possible difference (default
    1). ``failed``: rows of A and of B without answer or context, or with a failed judge. ``unlike``: by key, the
    rows that are not comparable. ``groups``: the group of each row. With more than one of ``candidates`` (or slices),
    call ``adjust`` on the differences of all of them.
    """
    if not scores:
        return []
    matrix = np.column_stack([b - a for a, b in scores.values()])
    reach = [(spans or {}).get(key, 1.0) for key in scores]
    same = equal_columns(*zip(*scores.values(), strict=True))
    intervals = paired_intervals(matrix, groups=groups, spans=reach, resamples=resamples)
    p_values = paired_tests(matrix, groups=groups, resamples=resamples, seed=1)
    samples = [None if groups is None else clusters_of(column, groups) for column in matrix.T]
    powers = power_of(matrix, tolerance, groups=groups, spans=reach, tests=candidates * len(set(same)))
    keys, nobody = list(scores), np.zeros(len(matrix), dtype=bool)
    failed_a, failed_b = failed or (nobody, nobody)
    differences: list[Difference] = []
    for place, (key, (a, b)) in enumerate(scores.items()):
        has_a, has_b, power, sample = ~np.isnan(a), ~np.isnan(b), powers[place], samples[place]
        not_alike, side = (unlike or {}).get(key, nobody), (better or {}).get(key, True)
        changes = np.sort((b - a)[has_a & has_b])  # makes the result independent of the row order
        gains = -changes if side is False else changes
        interval = intervals[place]
        low, high = interval or (None, None)
        differences.append(
            Difference(
                key,
                rows=len(changes),
                paired_mean_a=_mean(a[has_a & has_b]),
                paired_mean_b=_mean(b[has_a & has_b]),
                difference=_mean(changes),
                low=low,
                high=high,
                p_value=None if interval is None else p_values[place],
                wins=int((gains > _TIE).sum()),
                ties=int((np.abs(changes) <= _TIE).sum()),
                losses=int((gains < -_TIE).sum()),
                needed=None if power is None else power.rows_needed,
                tolerance=tolerance,
                unscored_a=int((has_b & ~has_a).sum()),
                unscored_b=int((has_a & ~has_b).sum()),
                unscored_both=int((~has_a & ~has_b & ~not_alike).sum()),
                lost_a=int((has_b & ~has_a & failed_a).sum()),
                lost_b=int((has_a & ~has_b & failed_b).sum()),
                unlike=int(not_alike.sum()),
                unseen=0.0 if power is None else power.unseen,
                same_as=None if same[place] == place else keys[same[place]],
                groups=None if sample is None else sample.groups,
                design_effect=None if sample is None else sample.design_effect,
                few_groups=sample is not None and sample.few_groups,
                higher_is_better=side,
            )
        )
    return adjust(differences) if candidates == 1 else differences


def adjust(differences: Sequence[Difference]) -> list[Difference]:
    """Adjust the p-values by Holm, and clear ``needed`` unless the verdict is "cannot be told".

    A metric that equals another in every row gets that metric's p-value and adds no test.
    """
    corrected = holm([difference.p_value if difference.same_as is None else None for difference in differences])
    adjusted: list[Difference] = []
    for difference, p_holm in zip(differences, corrected, strict=True):
        same = next((other for other in reversed(adjusted) if other.key == difference.same_as), None)
        changed = replace(difference, p_holm=p_holm if same is None else same.p_holm)
        adjusted.append(changed if changed.paired_verdict == "cannot be told" else replace(changed, needed=None))
    return adjusted


def _mean(values: Values) -> float | None:
    return float(np.sort(values).mean()) if values.size else None
