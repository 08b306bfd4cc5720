"""Suites for ``mlflow.models.evaluate``: one ``EvaluationMetric`` a metric, all of them out of one evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow.metrics import MetricValue
from mlflow.models import EvaluationMetric

from mlflow_ragmetrics.adapters.mlflow_models.columns import Columns, column_names
from mlflow_ragmetrics.adapters.mlflow_models.shared import SharedEvaluation
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.suite import Suite
from mlflow_ragmetrics.tracking.plain import plain_text

__all__ = ["extra_metrics"]

_LEFT_OUT = Score(status="skipped", reason="no row has the fields that this metric needs")


def extra_metrics(
    suite: Suite, columns: Mapping[str, str] | None = None, *, traces: bool = False
) -> list[EvaluationMetric]:
    """The suite's metrics and composites for ``mlflow.models.evaluate(extra_metrics=…)``.

    Fields are found by their names and aliases among the data's and the model's output columns; ``predictions`` is
    the answer and ``targets`` the reference. ``columns`` maps sample fields to other column names. The run gets
    ``<key>/mean``, ``<key>/ci_low``, ``<key>/n_scored``, …, the suite's params and the tables ``rag_rows.json`` and
    ``rag_claims.json``; MLflow's own table gets a score and a reason a row. ``traces`` writes one trace a row with its
    scores, so that MLflow's pages compare two runs row by row.
    """
    shared = SharedEvaluation(suite, columns or {}, traces=traces)
    return [_metric(shared, key, column_names(columns or {})) for key in suite.keys]


def _metric(shared: SharedEvaluation, key: str, names: list[str]) -> EvaluationMetric:
    def eval_fn(*values: Any) -> MetricValue:
        return _metric_value(shared.report_for(key, dict(zip(names, values, strict=True))), key)

    eval_fn.__name__ = key
    eval_fn.__signature__ = Columns(names)  # type: ignore[attr-defined]
    return EvaluationMetric(eval_fn, name=key, greater_is_better=True)  # type: ignore[no-untyped-call]


def _metric_value(report: Report, key: str) -> MetricValue:
    scores = [row.scores.get(key) or _LEFT_OUT for row in report.rows]
    parts = ((name.partition("/"), value) for name, value in report.metrics.items())
    figures = {figure: value for (owner, _, figure), value in parts if owner == key}
    return MetricValue(
        scores=[score.value for score in scores],  # type: ignore[arg-type]  # None is what MLflow stores as null
        justifications=[plain_text(score.error or score.reason) for score in scores],
        aggregate_results=figures,
    )
