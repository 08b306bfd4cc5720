"""Figures of rows that are not kept: from what was counted while they passed, or where they are."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mlflow_ragmetrics.core.score import DOUBTS, Score
from mlflow_ragmetrics.report.diagnosis import CAUSES, causes_line
from mlflow_ragmetrics.report.gates import MinScored, check_figures, raise_failures
from mlflow_ragmetrics.report.marks import Cause, count_lines, failure_lines
from mlflow_ragmetrics.report.summary import group_marks
from mlflow_ragmetrics.statistics.groups import describe_totals, totals_of_sums
from mlflow_ragmetrics.statistics.intervals import MANY_ROWS, bootstrap_interval
from mlflow_ragmetrics.statistics.moments import Moments, interval_of_moments, interval_of_totals
from mlflow_ragmetrics.statistics.resampling import Vector
from mlflow_ragmetrics.text.messages import render
from mlflow_ragmetrics.tracking.describe import cause_figure

__all__ = ["MARKS", "RunningTotals", "Summary", "figures_of_totals"]

MARKS = (*DOUBTS.values(), "n_fewer_judges")
"""Counts of rows that stand among the figures only where they are not 0."""

_COUNTS = ("n_scored", "n_skipped", "n_error", "n_measured", "n_no_context")
_AVERAGES = ("mean", "pass_rate", "coverage")


@dataclass(frozen=True)
class Summary:
    """The figures of an evaluation whose rows are not kept, and what must be read with them.

    ``metrics`` have the names and values of ``Report.metrics``; ``keys`` are those of the scores, ``rows`` their
    number, ``causes`` what failed. ``incomplete`` says why the figures are not those of a whole evaluation.
    """

    metrics: Mapping[str, float]
    keys: tuple[str, ...]
    rows: int
    causes: tuple[Cause, ...] = ()
    incomplete: str | None = None
    language: str = "en"
    usage: Mapping[str, float] = field(default_factory=dict)

    @property
    def banner(self) -> list[str]:
        """What must be read with the figures: why they are not complete, what failed, rows that were not measured."""
        failed = failure_lines(self.causes, self.rows, self.incomplete, self.language)
        return [*failed, *count_lines(self.keys, self.metrics, self.rows, self.language)]

    @property
    def notes(self) -> list[str]:
        """How many rows have each diagnosis, where the metrics tell."""
        counts: dict[str, int] = {cause: int(self.metrics.get(cause_figure(cause), 0)) for cause in CAUSES}
        return [render(causes_line(counts), self.language)] if any(counts.values()) else []

    def check(self, *, min_scored: MinScored | None = None, **fail_under: float) -> None:
        """``GateError`` when a figure is under its limit or too few rows were measured; as ``Report.check``."""
        found = check_figures(
            self.metrics, fail_under, min_scored, keys=self.keys, rows=self.rows, incomplete=self.incomplete
        )
        raise_failures(found)


def figures_of_totals(
    totals: Mapping[str, float],
    *,
    values: Sequence[float] | None = None,
    groups: tuple[Vector, Vector] | None = None,
) -> dict[str, float]:
    """The figures of one metric, as ``report.summary`` has them, from what one pass over its scores finds.

    ``totals``: the counts ``n_scored``, ``n_skipped``, …, the averages ``mean``, ``pass_rate`` and ``coverage``, and
    of the scores ``deviation``, ``skewness``, ``least``, ``most`` and ``n_between`` (how many are neither 0 nor 1).
    ``values``: the scores themselves, where there are no more than a report resamples; else their interval follows from
    the moments, as a report's does. ``groups``: count and sum of each group's scores.
    """
    figures = {name: totals[name] for name in (*_COUNTS, *_AVERAGES) if name in totals}
    figures |= {name: totals[name] for name in MARKS if totals.get(name)}
    rows = int(totals["n_scored"])
    if not rows:
        return figures
    if groups is not None:
        return figures | _over_groups(totals, *groups)
    is_binary = totals["n_between"] == 0
    if values is not None:
        interval = bootstrap_interval(values)
    else:
        shape = {name: totals.get(name, 0.0) for name in ("mean", "deviation", "skewness", "least", "most")}
        interval = interval_of_moments(Moments(rows, **shape, is_binary=is_binary))
    return figures | _limits(interval)


def _over_groups(totals: Mapping[str, float], counts: Vector, sums: Vector) -> dict[str, float]:
    """Interval, number of groups, design effect and mark."""
    scored = counts > 0
    found = totals_of_sums(
        counts[scored],
        sums[scored],
        squares=totals["n_scored"] * (totals["deviation"] ** 2 + totals["mean"] ** 2),
        least=totals["least"],
        most=totals["most"],
        is_binary=totals["n_between"] == 0,
    )
    return _limits(interval_of_totals(found)) | group_marks(describe_totals(found)[0])


def _limits(interval: tuple[float, float] | None) -> dict[str, float]:
    return {} if interval is None else {"ci_low": interval[0], "ci_high": interval[1]}


class RunningTotals:
    """What the figures of one metric follow from, score by score; the scores are kept as long as they are few."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._sums: dict[str, tuple[float, int]] = {}
        self._values: array[float] | None = array("d")
        self._groups: dict[str, tuple[int, float]] = {}
        self._moments = 0, 0.0, 0.0, 0.0
        self._range = np.inf, -np.inf

    def add(self, score: Score, group: str | None = None) -> None:
        """Take one more score, of a row of this group."""
        counts, details, value = self._counts, score.details, score.value
        counts["n_scored"] += score.scored
        counts["n_measured"] += score.measured
        if "no_context" in details:
            counts["n_no_context"] += 0  # where a metric looks at contexts, the count stands there though it is 0
        for mark in score.marks:
            counts[mark] += 1
        if score.scaled is not None:
            self._average("1to5", score.scaled)
        if details.get("coverage") is not None:
            self._average("coverage", details["coverage"])
        if value is not None and score.passed is not None:
            self._average("pass_rate", score.passed)
        if value is not None:
            self._take(value)
            if group is not None:
                rows, total = self._groups.get(group, (0, 0.0))
                self._groups[group] = rows + 1, total + value

    def _average(self, name: str, number: float) -> None:
        total, count = self._sums.get(name, (0.0, 0))
        self._sums[name] = total + float(number), count + 1

    def _take(self, value: float) -> None:
        """Pébay (2008): mean and the sums of the second and third powers around it, one value at a time."""
        count, mean, squares, cubes = self._moments
        count += 1
        change = value - mean
        step = change / count
        term = change * step * (count - 1)
        cubes += term * step * (count - 2) - 3 * step * squares
        self._moments = count, mean + step, squares + term, cubes
        least, most = self._range
        if not least <= value <= most:
            self._range = min(least, value), max(most, value)
        if value not in (0.0, 1.0):
            self._counts["n_between"] += 1
        if self._values is not None:
            self._values.append(value)
            if len(self._values) > MANY_ROWS:
                self._values = None

    def forget_groups(self) -> None:
        """Keep no groups: there are none."""
        self._groups.clear()

    def figures(self, key: str, *, grouped: bool) -> dict[str, float]:
        """The figures so far, each as ``<key>/…``."""
        count, mean, squares, cubes = self._moments
        totals: dict[str, float] = {"n_scored": 0, "n_skipped": 0, "n_error": 0, **self._counts}
        totals |= {name: total / number for name, (total, number) in self._sums.items()}
        if count:
            deviation = float(np.sqrt(squares / count))
            skewness = cubes / count / deviation**3 if deviation else 0.0
            totals |= {"mean": mean, "deviation": deviation, "skewness": skewness}
            totals |= {"least": self._range[0], "most": self._range[1], "n_between": self._counts["n_between"]}
        sums = np.array(list(self._groups.values()), dtype=float).reshape(-1, 2).T
        groups = (sums[0], sums[1]) if grouped else None
        found = figures_of_totals(totals, values=self._values, groups=groups)
        scaled = {f"{key}_1to5/mean": totals["1to5"]} if "1to5" in totals else {}
        return {f"{key}/{name}": float(value) for name, value in found.items()} | scaled
