"""``power``: how small a difference these data can show, and what a smaller one would take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from mlflow_ragmetrics.comparison.result import Comparison
from mlflow_ragmetrics.core.document import Block, Heading, Line, Table, cell, number, to_text
from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.report.pairing import measured, metric_spans, numbers_of
from mlflow_ragmetrics.rows.results import Source, results_groups, results_of
from mlflow_ragmetrics.rows.row_groups import Groups
from mlflow_ragmetrics.statistics.sample_size import about, power_of
from mlflow_ragmetrics.statistics.significance import equal_columns
from mlflow_ragmetrics.text.messages import counted

if TYPE_CHECKING:
    import pandas as pd

_CORRELATION = 0.5


@dataclass(frozen=True)
class MetricPower:
    """What one metric's data can show in four of five comparisons at 5 %, after Holm over all metrics.

    ``smallest`` is the smallest difference between two versions over these ``rows`` (in ``groups``, where they are
    grouped), ``None`` for fewer than six, and where no score differs from another. ``rows_needed`` and
    ``groups_needed`` would show a difference of ``detect``.
    """

    key: str
    rows: int
    groups: int | None
    deviation: float
    design_effect: float
    smallest: float | None
    rows_needed: int | None
    groups_needed: int | None

    def sentence(self, detect: float) -> str:
        """The figures in plain words."""
        rows = f"{self.rows} rows" + (f" in {self.groups} groups" if self.groups is not None else "")
        if self.rows_needed is None:
            return f"{self.key}: no score differs from another in {rows}, so nothing says what they can show"
        shows = (
            "are too few to show any" if self.smallest is None else f"can show a difference of {number(self.smallest)}"
        )
        text = f"{self.key}: {rows} {shows}"
        if self.smallest is not None and self.smallest <= detect:
            return f"{text}, enough for {detect:g}"
        groups = f" in about {about(self.groups_needed)} groups" if self.groups_needed is not None else ""
        return f"{text}; {detect:g} would take about {about(self.rows_needed)} rows{groups}"


@dataclass(frozen=True)
class PowerReport:
    """What the data of one evaluation, or of a comparison, can show: ``metrics`` by key, for a difference ``detect``.

    ``tests``: the number of metrics that differ from each other, as Holm counts them; the others are taken to have no
    difference. ``assumed``: the correlation between the scores of two versions that was assumed, as only one was given.
    """

    detect: float
    metrics: Mapping[str, MetricPower] = field(default_factory=dict)
    tests: int = 1
    assumed: float | None = None

    def __getitem__(self, key: str) -> MetricPower:
        """The metric ``key``."""
        return self.metrics[key]

    @property
    def table(self) -> pd.DataFrame:
        """One row per metric: rows, groups, design effect, smallest difference, rows and groups needed."""
        import pandas as pd

        return pd.DataFrame([vars(each) for each in self.metrics.values()]).rename(columns={"key": "metric"})

    def _blocks(self) -> list[Block]:
        found = list(self.metrics.values())
        columns = {
            "metric": [each.key for each in found],
            "rows": [str(each.rows) for each in found],
            "groups": ["–" if each.groups is None else str(each.groups) for each in found],
            "design effect": [number(each.design_effect, 1) for each in found],
            "smallest": [number(each.smallest) for each in found],
            f"rows for {self.detect:g}": ["–" if e.rows_needed is None else str(e.rows_needed) for e in found],
        }
        tests = counted(self.tests, "different metric")
        notes = [f"In four of five comparisons, at 5 % after Holm over {tests}, of two versions over the same rows."]
        if self.assumed is not None:
            notes.append(
                f"Only one version is known: its scores and another's are assumed to correlate by {self.assumed:g}; "
                "give a comparison (two runs) in its place where there is one."
            )
        return [
            Heading("What the data can show"),
            Table(columns, left=["metric"], droppable=["design effect", "groups"]),
            *(Line(each.sentence(self.detect)) for each in found),
            *(Line(note, "faint") for note in notes),
        ]

    def _repr_html_(self) -> str:
        return cell(self._blocks())

    def to_text(self, width: int | None = None) -> str:
        """A table of the metrics, then each in plain words."""
        return to_text(self._blocks(), width)

    def __str__(self) -> str:
        return self.to_text()


def power(
    data: Source | Comparison,
    *,
    detect: float = 0.05,
    groups: Groups | None = None,
    correlation: float = _CORRELATION,
) -> PowerReport:
    """The smallest difference that these data can show, and what it takes to show one of ``detect``, for each metric.

    ``data``: a comparison, whose differences are then what varies, or one evaluation (a report, a run, a file), where
    the scores of two versions are assumed to have this ``correlation``. ``groups`` as in ``compare``.
    ``InvalidOptionError`` for figures that cannot be used, ``InvalidDataError`` where nothing was scored.
    """
    if not (isinstance(detect, (int, float)) and 0 < detect < math.inf):
        raise InvalidOptionError(f"detect={shown(detect)} must be a number above 0", param="detect")
    if not (isinstance(correlation, (int, float)) and -1 <= correlation < 1):
        raise InvalidOptionError(f"correlation={shown(correlation)} must lie from -1 to below 1", param="correlation")
    if isinstance(data, Comparison):
        scores = {each.key: data.pairs(each.key) for each in data.differences}
        names = None if data.groups is None else list(data.groups)
        scale, assumed = 1.0, None
    else:
        results = results_of(data)
        names = results_groups(results, groups)
        columns = {key: numbers_of(measured(results, key)) for key in results.keys}
        scores = {key: (np.zeros(column.size), column) for key, column in columns.items()}
        scale, assumed = math.sqrt(2 * (1 - correlation)), correlation
    if not scores:
        raise InvalidDataError("there is no metric of which anything could be said")
    spans = list(metric_spans(scores).values())
    sides = [np.column_stack(side) for side in zip(*scores.values(), strict=True)]
    tests = len(set(equal_columns(*(side.T for side in sides))))
    found: dict[str, MetricPower] = {}
    powers = power_of(scale * (sides[1] - sides[0]), groups=names, spans=spans, tests=tests)
    for key, own in zip(scores, powers, strict=True):
        if own is None:
            continue
        varies = own.deviation > 0
        found[key] = MetricPower(
            key,
            own.rows,
            None if names is None else own.groups,
            own.deviation,
            own.design_effect,
            own.smallest if varies else None,
            own.rows_needed(detect) if varies else None,
            own.groups_needed(detect) if varies and names is not None else None,
        )
    if not found:
        raise InvalidDataError("no metric has scores of two rows, or groups, from which anything could be said")
    return PowerReport(float(detect), found, tests, assumed)
