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
from mlflow_ragmetrics.rows.groups import Groups
from mlflow_ragmetrics.rows.results import Results, Source, results_groups, results_of
from mlflow_ragmetrics.statistics.power import about, power_of
from mlflow_ragmetrics.statistics.resampling import Matrix

if TYPE_CHECKING:
    import pandas as pd

_CORRELATION = 0.5


@dataclass(frozen=True)
class MetricPower:
    """What one metric's data can show in four of five comparisons at 5 %.

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

    ``assumed``: the correlation between the scores of two versions that was assumed, as only one was given.
    """

    detect: float
    metrics: Mapping[str, MetricPower] = field(default_factory=dict)
    assumed: float | None = None

    def __getitem__(self, key: str) -> MetricPower:
        """The metric ``key``."""
        return self.metrics[key]

    @property
    def table(self) -> pd.DataFrame:
        """One row per metric: rows, groups, design effect, smallest difference, rows and groups needed."""
        import pandas as pd

        names = ("rows", "groups", "deviation", "design_effect", "smallest", "rows_needed", "groups_needed")
        return pd.DataFrame([{"metric": key, **{n: getattr(m, n) for n in names}} for key, m in self.metrics.items()])

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
        notes = ["In four of five comparisons, at 5 %, of two versions over the same rows."]
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
        keys = [each.key for each in data.differences]
        values = np.column_stack([after - before for before, after in map(data.pairs, keys)])
        names = None if data.groups is None else list(data.groups)
        scale, assumed = 1.0, None
    else:
        results = results_of(data)
        keys, values, names = results.keys, _scores(results), results_groups(results, groups)
        scale, assumed = math.sqrt(2 * (1 - correlation)), correlation
    found: dict[str, MetricPower] = {}
    for key, own in zip(keys, power_of(scale * values, groups=names), strict=True):
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
    return PowerReport(float(detect), found, assumed)


def _scores(results: Results) -> Matrix:
    import pandas as pd

    columns = [pd.to_numeric(results.table[key], errors="coerce") for key in results.keys]
    if not columns:
        raise InvalidDataError(f"{results.name} has no metric")
    return np.column_stack([each.to_numpy(dtype=float, na_value=np.nan) for each in columns])
