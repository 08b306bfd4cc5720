"""The figures of scored rows, computed on the cluster and logged from the driver: no row is collected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.adapters.spark.recipe import Recipe
from mlflow_ragmetrics.statistics.moments import Moments, interval_of_moments
from mlflow_ragmetrics.suite import SuiteLike
from mlflow_ragmetrics.tracking.findings import Findings, log_findings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["log_spark", "summarize_spark"]

_INTERVALS = "95 %, from moments: the limits of the BCa bootstrap by Edgeworth expansion; Wilson where all are 0 or 1"
_OF_COLUMN = {"passed": "pass_rate", "coverage": "coverage", "1to5": "1to5"}
_OF_STATUS = {"n_skipped": "skipped", "n_error": "error"}


def summarize_spark(scored: DataFrame) -> dict[str, float]:
    """The run metrics of a frame that ``score_spark`` gave, under the names of ``Report.metrics``, in one job.

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
    for key in keys:
        own = {name: value for (owner, name), value in values.items() if owner == key}
        figures |= {_named(key, name): value for name, value in _figures(own).items()}
    return figures


def log_spark(
    scored: DataFrame,
    suite: SuiteLike,
    *,
    run_id: str | None = None,
    run_name: str | None = None,
    **options: Any,
) -> str:
    """Log the figures of ``scored`` and what the suite is into an MLflow run; returns the run's id.

    ``suite`` and ``options`` are those that ``score_spark`` was given; the run is ``run_id``, else the active one,
    else a new one. The param ``intervals`` says how ``ci_low`` and ``ci_high`` were found.
    """
    figures = summarize_spark(scored)
    rows = int(figures.pop("n_rows"))
    params = {**Recipe.of(suite, options).build().describe(), "n_rows": rows, "intervals": _INTERVALS}
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


def _figures(own: Mapping[str, float]) -> dict[str, float]:
    shown = ("n_scored", *_OF_STATUS, "mean", *_OF_COLUMN.values(), "n_no_context")
    figures = {name: own[name] for name in shown if name in own}
    if own["n_scored"] > 1:
        shape = {name: own.get(name, 0.0) for name in ("mean", "deviation", "skewness", "least", "most")}
        interval = interval_of_moments(Moments(int(own["n_scored"]), **shape, is_binary=own["n_between"] == 0))
        figures |= dict(zip(("ci_low", "ci_high"), interval or (), strict=False))
    return figures


def _named(key: str, name: str) -> str:
    return f"{key}_1to5/mean" if name == "1to5" else f"{key}/{name}"
