"""The figures of scored rows, computed on the cluster and logged from the driver: no row is collected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mlflow_ragmetrics.adapters.spark.recipe import Recipe
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.report.summary import group_marks
from mlflow_ragmetrics.statistics.groups import describe_totals, totals_of_sums
from mlflow_ragmetrics.statistics.moments import Moments, interval_of_moments, interval_of_totals
from mlflow_ragmetrics.statistics.resampling import Vector
from mlflow_ragmetrics.suite import SuiteLike
from mlflow_ragmetrics.tracking.findings import Findings, log_findings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["log_spark", "summarize_spark"]

_INTERVALS = "95 %, from moments: the limits of the BCa bootstrap by Edgeworth expansion; Wilson where all are 0 or 1"
_OVER_GROUPS = "95 %, over groups: cluster-robust t below 40 of them, else the bootstrap of whole groups"
_GROUP = "__ragmetrics_group"
_OF_COLUMN = {"passed": "pass_rate", "coverage": "coverage", "1to5": "1to5"}
_OF_STATUS = {"n_skipped": "skipped", "n_error": "error"}


def summarize_spark(scored: DataFrame, *, groups: str | None = None) -> dict[str, float]:
    """The run metrics of a frame that ``score_spark`` gave, under the names of ``Report.metrics``, in one job.

    ``groups``: a column that rows which belong together share, such as the turns of a conversation. The intervals are
    then those over groups, as a report has them, from the count and sum of each group, which alone are collected.

    Means and counts are those of a report. ``ci_low`` and ``ci_high`` are too, for more than 20,000 rows: the limits of
    the BCa bootstrap, from mean, deviation and skewness. Nothing is resampled: for fewer rows, where a report resamples
    2,000 times, they differ by a few hundredths of the interval's width. Scores of 0 and 1 have Wilson's interval.
    Names without a slash (``avg_context_recall``, ``pct_records_with_all_refs``, …) are a report's alone.
    """
    from pyspark.sql import functions as f

    keys = [name for name in scored.columns if {f"{name}_status", f"{name}_reason"} <= {*scored.columns}]
    wanted = {("", "n_rows"): f.count(f.lit(1))}
    for key in keys:
        wanted |= {(key, name): column for name, column in _aggregates(key, scored.columns)}
    (found,) = scored.agg(*wanted.values()).collect()
    values = {place: float(value) for place, value in zip(wanted, found, strict=True) if value is not None}
    figures = {"n_rows": values["", "n_rows"]}
    sums = {} if groups is None else _group_sums(scored, keys, groups)
    for key in keys:
        own = {name: value for (owner, name), value in values.items() if owner == key}
        figures |= {_named(key, name): value for name, value in _figures(own, sums.get(key)).items()}
    return figures


def _group_sums(scored: DataFrame, keys: Sequence[str], groups: str) -> dict[str, tuple[Vector, Vector]]:
    """Count and sum of the scores of each group, by key; a row without a group is one of its own."""
    from pyspark.sql import functions as f

    if groups not in scored.columns:
        message = f"groups: the frame has no column {groups!r}; there are {', '.join(scored.columns)}"
        raise InvalidOptionError(message, param="groups")
    name = f.col(f"`{groups}`").cast("string")
    missing = name.isNull() | (f.trim(name) == "")
    named = f.when(missing, f.concat(f.lit("\0row "), f.monotonically_increasing_id().cast("string"))).otherwise(name)
    wanted = [each for key in keys for each in (f.count(f"`{key}`"), f.sum(f"`{key}`"))]
    found = scored.withColumn(_GROUP, named).groupBy(_GROUP).agg(*wanted).drop(_GROUP).collect()
    table = np.array([[value or 0.0 for value in row] for row in found], dtype=float).reshape(len(found), -1)
    return {key: (table[:, 2 * place], table[:, 2 * place + 1]) for place, key in enumerate(keys)}


def log_spark(
    scored: DataFrame,
    suite: SuiteLike,
    *,
    run_id: str | None = None,
    run_name: str | None = None,
    **options: Any,
) -> str:
    """Log the figures of ``scored`` and what the suite is into an MLflow run; returns the run's id.

    ``suite`` and ``options`` are those that ``score_spark`` was given, ``groups`` among them; the run is ``run_id``,
    else the active one, else a new one. The param ``intervals`` says how ``ci_low`` and ``ci_high`` were found.
    """
    built = Recipe.of(suite, options).build()
    figures = summarize_spark(scored, groups=built.groups)
    rows = int(figures.pop("n_rows"))
    grouped = {} if built.groups is None else {"groups": built.groups}
    intervals = _INTERVALS if built.groups is None else _OVER_GROUPS
    params = {**built.describe(), **grouped, "n_rows": rows, "intervals": intervals}
    return log_findings(Findings(metrics=figures, params=params), run_id, run_name)


def _aggregates(key: str, columns: list[str]) -> Iterator[tuple[str, Column]]:
    from pyspark.sql import functions as f

    value = f.col(f"`{key}`")
    yield from {"n_scored": f.count(value), "mean": f.avg(value)}.items()
    yield from {"deviation": f.stddev_pop(value), "skewness": f.skewness(value)}.items()
    yield from {"least": f.min(value), "most": f.max(value), "n_between": f.count_if(~value.isin(0.0, 1.0))}.items()
    for name, status in _OF_STATUS.items():
        yield name, f.count_if(f.col(f"`{key}_status`") == status)
    for suffix, name in _OF_COLUMN.items():
        if f"{key}_{suffix}" in columns:
            yield name, f.avg(f.col(f"`{key}_{suffix}`").cast("double"))
    if f"{key}_no_context" in columns:
        yield "n_no_context", f.count_if(f.col(f"`{key}_no_context`"))


def _figures(own: Mapping[str, float], sums: tuple[Vector, Vector] | None) -> dict[str, float]:
    shown = ("n_scored", *_OF_STATUS, "mean", *_OF_COLUMN.values(), "n_no_context")
    figures = {name: own[name] for name in shown if name in own}
    if sums is not None and own["n_scored"]:
        return figures | _over_groups(own, *sums)
    if own["n_scored"] > 1:
        shape = {name: own.get(name, 0.0) for name in ("mean", "deviation", "skewness", "least", "most")}
        interval = interval_of_moments(Moments(int(own["n_scored"]), **shape, is_binary=own["n_between"] == 0))
        figures |= dict(zip(("ci_low", "ci_high"), interval or (), strict=False))
    return figures


def _over_groups(own: Mapping[str, float], counts: Vector, sums: Vector) -> dict[str, float]:
    """Interval, number of groups, design effect and mark, as ``report.summary`` has them."""
    scored = counts > 0
    totals = totals_of_sums(
        counts[scored],
        sums[scored],
        squares=own["n_scored"] * (own["deviation"] ** 2 + own["mean"] ** 2),
        least=own["least"],
        most=own["most"],
        is_binary=own["n_between"] == 0,
    )
    interval = interval_of_totals(totals)
    return dict(zip(("ci_low", "ci_high"), interval or (), strict=False)) | group_marks(describe_totals(totals)[0])


def _named(key: str, name: str) -> str:
    return f"{key}_1to5/mean" if name == "1to5" else f"{key}/{name}"
