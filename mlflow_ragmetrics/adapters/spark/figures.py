"""The figures of scored rows, computed on the cluster and logged from the driver: no row is collected."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.adapters.spark.recipe import Recipe, SuiteLike
from mlflow_ragmetrics.tracking.findings import Findings, log_findings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["log_spark", "summarize_spark"]

_NORMAL = 1.959964
_MEANS = {"": "mean", "_passed": "pass_rate", "_coverage": "coverage", "_1to5": "_1to5"}


def summarize_spark(scored: DataFrame) -> dict[str, float]:
    """The run metrics of a frame that ``score_spark`` gave, under the names of ``Report.metrics``, in one job.

    ``ci_low`` and ``ci_high`` are the mean ± 1.96 standard errors, within the observed range: a bootstrap, which a
    report uses, would read the rows a thousand times and gives the same for many rows.
    """
    from pyspark.sql import functions as f

    keys = [name.removesuffix("_status") for name in scored.columns if name.endswith("_status")]
    wanted = [f.count(f.lit(1)).alias("rows")]
    for key in keys:
        value = f.col(key)
        wanted += [f.count(value).alias(f"{key}/n_scored"), f.stddev(value).alias(f"{key}/deviation")]
        wanted += [f.min(value).alias(f"{key}/min"), f.max(value).alias(f"{key}/max")]
        for status in ("skipped", "error"):
            wanted.append(f.count_if(f.col(f"{key}_status") == status).alias(f"{key}/n_{status}"))
        for suffix, name in _MEANS.items():
            if f"{key}{suffix}" in scored.columns:
                wanted.append(f.avg(f.col(f"{key}{suffix}").cast("double")).alias(f"{key}/{name}"))
        if f"{key}_no_context" in scored.columns:
            wanted.append(f.count_if(f.col(f"{key}_no_context")).alias(f"{key}/n_no_context"))
    (found,) = scored.agg(*wanted).collect()
    figures: dict[str, float] = {"n_rows": found["rows"]}
    for key in keys:
        own = {name.removeprefix(f"{key}/"): found[name] for name in found.asDict() if name.startswith(f"{key}/")}
        figures |= {_name(key, name): float(value) for name, value in _of_key(own).items() if value is not None}
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
    else a new one.
    """
    figures = summarize_spark(scored)
    rows = int(figures.pop("n_rows"))
    params = {**Recipe.of(suite, options).build().describe(), "n_rows": rows}
    return log_findings(Findings(metrics=figures, params=params), run_id, run_name)


def _of_key(own: Mapping[str, Any]) -> dict[str, Any]:
    figures = {name: value for name, value in own.items() if name not in ("deviation", "min", "max")}
    scored, deviation = own["n_scored"], own["deviation"]
    if scored > 1 and deviation is not None:
        reach = _NORMAL * deviation / math.sqrt(scored)
        figures["ci_low"] = max(own["min"], own["mean"] - reach)
        figures["ci_high"] = min(own["max"], own["mean"] + reach)
    return figures


def _name(key: str, name: str) -> str:
    return f"{key}_1to5/mean" if name == "_1to5" else f"{key}/{name}"
