"""``power``: the smallest difference that the data can show, and the rows that a smaller one needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from mlflow_ragmetrics.comparison.difference import shared_keys
from mlflow_ragmetrics.comparison.result import Comparison
from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.display.document import Block, Document, Heading, Line, Table, number
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.results.pairing import measured, metric_spans
from mlflow_ragmetrics.results.results import Source, results_groups, results_of
from mlflow_ragmetrics.rows.data import Groups
from mlflow_ragmetrics.statistics.significance import Power, equal_columns, power_of
from mlflow_ragmetrics.text.messages import counted

_CORRELATION = 0.5


@dataclass(frozen=True)
class PowerReport(Document):
    """The power of one evaluation or comparison: ``metrics`` by key, for a difference of ``detect``.

    ``smallest`` and ``rows_needed`` of a metric are ``None`` if all its scores are equal. ``tests``: the number of
    distinct metrics in Holm's correction; all but the tested one are assumed to have no difference. ``assumed``: the
    correlation assumed between two versions, if only one was given.
    """

    detect: float
    metrics: Mapping[str, Power] = field(default_factory=dict)
    tests: int = 1
    assumed: float | None = None

    def __getitem__(self, key: str) -> Power:
        """The metric ``key``."""
        return self.metrics[key]

    @property
    def table(self) -> pd.DataFrame:
        """One row per metric: rows, groups, design effect, smallest difference, rows needed."""
        return pd.DataFrame([{"metric": key, **vars(power)} for key, power in self.metrics.items()])

    def _blocks(self) -> list[Block]:
        powers = self.metrics.values()
        columns = {
            "metric": list(self.metrics),
            "rows": [str(power.rows) for power in powers],
            "groups": [number(power.groups, 0) for power in powers],
            "design effect": [number(power.design_effect, 1) for power in powers],
            "smallest": [number(power.smallest) for power in powers],
            f"rows for {self.detect:g}": [number(power.rows_needed, 0) for power in powers],
        }
        tests = counted(self.tests, "different metric")
        notes = [f"For two versions over the same rows, in four of five comparisons, at 5 % after Holm over {tests}."]
        if self.assumed is not None:
            notes.append(
                f"Only one version was given: a correlation of {self.assumed:g} with the other version's scores is "
                "assumed. Give a comparison (two runs) if you have one."
            )
        return [
            Heading("What the data can show"),
            Table(columns, left=["metric"], droppable=["design effect", "groups"]),
            *(Line(note, "faint") for note in notes),
        ]


def power(
    data: Source | Comparison,
    *,
    detect: float = 0.05,
    groups: Groups | None = None,
) -> PowerReport:
    """For each metric, the smallest difference that the data can show, and the rows needed to show ``detect``.

    ``data``: a comparison, or one evaluation (a report, a run, a file). A comparison supplies the spread of its
    differences; for one evaluation, a correlation of 0.5 between the scores of two versions is assumed. ``groups`` as
    in ``compare``. Raises ``InvalidOptionError`` for invalid numbers, ``InvalidDataError`` if nothing was scored.
    """
    if not (isinstance(detect, (int, float)) and 0 < detect < math.inf):
        raise InvalidOptionError(f"detect={shown(detect)} must be a number above 0", param="detect")
    if isinstance(data, Comparison):
        scores = {difference.key: data.pairs(difference.key) for difference in data.differences}
        names = None if data.groups is None else list(data.groups)
        assumed = None
    else:
        results = results_of(data)
        names = results_groups(results, groups)
        columns = {key: measured(results, key) for key in shared_keys(results, results)}
        scores = {key: (np.zeros(column.size), column) for key, column in columns.items()}
        assumed = _CORRELATION  # so the spread of the differences is that of the scores
    if not scores:
        raise InvalidDataError("there is no metric")
    spans = list(metric_spans(scores).values())
    sides = [np.column_stack(side) for side in zip(*scores.values(), strict=True)]
    tests = len(set(equal_columns(*(side.T for side in sides))))
    tests *= data.candidates if isinstance(data, Comparison) else 1
    powers = power_of(sides[1] - sides[0], detect, groups=names, spans=spans, tests=tests)
    by_metric = {
        key: power if power.deviation > 0 else replace(power, smallest=None, rows_needed=None)
        for key, power in zip(scores, powers, strict=True)
        if power is not None
    }
    if not by_metric:
        raise InvalidDataError("no metric has scores on two rows (or groups)")
    return PowerReport(float(detect), by_metric, tests, assumed)
