"""The figures of an evaluation, from what is counted while its rows pass."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import numpy as np

from mlflow_ragmetrics.core.score import DOUBTS, Better, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.metrics.documents import RetrievalCounts
from mlflow_ragmetrics.report.marks import Failures, Ranking
from mlflow_ragmetrics.statistics.groups import Grouping, describe_groups
from mlflow_ragmetrics.statistics.intervals import MANY_ROWS, bootstrap_intervals
from mlflow_ragmetrics.statistics.resampling import Matrix, Vector
from mlflow_ragmetrics.text.messages import counted
from mlflow_ragmetrics.text.non_answers import gives_no_answer

TOLERATED = 0.05
"""The share of failed rows up to which an evaluation is complete."""

_DOUBTS = frozenset(DOUBTS.values())
_STATUS_COUNTS = {"ok": "n_scored", "skipped": "n_skipped", "error": "n_error"}


def _limits(interval: tuple[float, float] | None) -> dict[str, float]:
    return {} if interval is None else {"ci_low": interval[0], "ci_high": interval[1]}


class Totals:
    """What the figures of an evaluation follow from, taken row by row: 8 bytes for each score, and some counts."""

    def __init__(self, rows: Iterable[Row] = (), keys: Iterable[str] = ()) -> None:
        self.rows = 0
        self.non_answers = 0
        self.kept_all = True  # whether the report of these totals holds all their rows
        self.failures = Failures()
        self._metrics = {key: _MetricTotals() for key in keys}
        self._retrieval: RetrievalCounts | None = None
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        """Take one more row."""
        self.failures.add(row)
        self.non_answers += gives_no_answer(row.sample.answer)
        self.add_scores(row.scores)

    def add_scores(self, scores: Mapping[str, Score]) -> None:
        """Take the scores of one more row."""
        if any("gold_docs_count" in score.details for score in scores.values()):
            self._retrieval = self._retrieval or RetrievalCounts()
            self._retrieval.add(scores)
        for key, score in scores.items():
            if key not in self._metrics:
                self._metrics[key] = _MetricTotals()
            self._metrics[key].add(score, self.rows)
        self.rows += 1

    @property
    def partial(self) -> str | None:
        """How many rows have a failed score, if they exceed 5 % of the rows."""
        failed = self.failures.rows
        return f"{failed} of {counted(self.rows, 'row')} failed" if failed > TOLERATED * self.rows else None

    @property
    def keys(self) -> list[str]:
        """The keys of the scores, in the order in which they came."""
        return list(self._metrics)

    @property
    def better(self) -> dict[str, Better]:
        """Keys whose higher values are not better: ``False`` if lower is better, ``None`` if neither side is."""
        return {key: each.better for key, each in self._metrics.items() if each.better is not True}

    @property
    def composites(self) -> list[str]:
        """The keys of the weighted composites."""
        return [key for key, each in self._metrics.items() if each.is_composite]

    @property
    def ranking(self) -> Ranking:
        """The order of the worst rows: by the first composite that was scored, else by the worst score of each row."""
        composite = next((key for key in self.composites if self._metrics[key].counts["n_measured"]), None)
        keys = sorted(self.keys, key=lambda key: key not in self.composites)
        return Ranking(keys, self.better, composite)

    @property
    def matrix(self) -> Matrix:
        """The values, rows by keys, NaN where there is none."""
        return np.array([each.column(self.rows) for each in self._metrics.values()]).T

    def figures(self, groups: Sequence[object] | None = None) -> dict[str, float]:
        """``<key>/mean``, ``<key>/n_scored``, … of each key; ``groups`` names the group of each row."""
        figures: dict[str, float] = {}
        columns = {key: each.column(self.rows) for key, each in self._metrics.items()}
        step = max(1, len(columns)) if self.rows <= MANY_ROWS else 1  # of many rows one metric at a time, for memory
        for start in range(0, len(columns), step):
            some = dict(islice(columns.items(), start, start + step))
            for key, own in zip(some, _figures_of_columns(list(some.values()), groups), strict=True):
                own |= self._metrics[key].figures()
                scaled = {f"{key}_1to5/mean": own.pop("1to5")} if "1to5" in own else {}
                figures |= {f"{key}/{name}": float(value) for name, value in own.items()} | scaled
        figures |= {"n_non_answers": float(self.non_answers)} if self.non_answers else {}
        return figures | (self._retrieval.figures(figures) if self._retrieval else {})


class _MetricTotals:
    """The values of one metric, NaN where a row has none, and what is counted of its scores."""

    def __init__(self) -> None:
        self.better: Better = True
        self.values = array("d")
        self.counts: Counter[str] = Counter()
        self.sums: dict[str, tuple[float, int]] = {}
        self.is_composite = False
        self.coverages: Counter[float] = Counter()

    def add(self, score: Score, row: int) -> None:
        counts, details, value = self.counts, score.details, score.measurement
        self.better = score.higher_is_better
        self._fill(row)
        self.values.append(math.nan if value is None else value)
        counts[_STATUS_COUNTS[score.status or "skipped"]] += 1
        if "no_context" in details:
            counts["n_no_context"] += bool(details["no_context"])
        for mark in score.marks:
            if mark in _DOUBTS:
                counts[mark] += 1
        self.is_composite |= "coverage" in details
        if value is None:
            return
        counts["n_measured"] += 1
        if score.scaled is not None:
            self._average("1to5", score.scaled)
        if "coverage" in details:
            self._average("coverage", details["coverage"])
            self.coverages[round(details["coverage"], 9)] += 1
        if score.passed is not None:
            self._average("pass_rate", score.passed)

    def _average(self, name: str, number: float) -> None:
        total, count = self.sums.get(name, (0.0, 0))
        self.sums[name] = total + number, count + 1

    def _fill(self, rows: int) -> None:
        if len(self.values) < rows:
            self.values.extend([math.nan] * (rows - len(self.values)))

    def column(self, rows: int) -> Vector:
        """A value for each of so many rows."""
        self._fill(rows)
        return np.frombuffer(self.values, dtype=float)

    def figures(self) -> dict[str, float]:
        """The counts and averages."""
        counts = dict.fromkeys((*_STATUS_COUNTS.values(), "n_measured"), 0) | self.counts
        partial = self.coverages.total() - self.coverages[max(self.coverages, default=0.0)]
        counts |= {"n_partial": partial} if partial else {}
        return counts | {name: total / count for name, (total, count) in self.sums.items()}


def _figures_of_columns(columns: Sequence[Vector], groups: Sequence[object] | None) -> list[dict[str, float]]:
    """Mean and interval of each column, and what groups do to the interval."""
    if not columns or not columns[0].size:
        return [{} for _ in columns]
    intervals = bootstrap_intervals([column.tolist() for column in columns], groups=groups)
    marks: list[dict[str, float]] = [{}] * len(columns)
    if groups is not None:
        marks = [group_marks(each) for each in describe_groups(np.array(columns).T, groups)]
    figures = []
    for column, interval, mark in zip(columns, intervals, marks, strict=True):
        values = column[~np.isnan(column)]
        mean = {"mean": math.fsum(values) / values.size} if values.size else {}
        figures.append(mean | _limits(interval) | mark)
    return figures


def group_marks(grouping: Grouping) -> dict[str, float]:
    """How the rows are grouped; nothing where no row is scored."""
    if not grouping.rows:
        return {}
    effect = {} if grouping.design_effect is None else {"design_effect": grouping.design_effect}
    return {"n_groups": grouping.groups, **effect, **({"few_groups": 1} if grouping.few_groups else {})}
