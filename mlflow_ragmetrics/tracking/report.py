"""A report into an MLflow run: params, dataset, tables, then metrics, so that what has metrics is complete."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from mlflow_ragmetrics.core.json_text import as_json
from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.tracking.describe import (
    Loggable,
    dataset_input,
    description_of,
    figures_of,
    package_version,
    run_metrics_of,
)
from mlflow_ragmetrics.tracking.run import WRITING, status_of, target_run
from mlflow_ragmetrics.tracking.traces import log_feedback, log_traces
from mlflow_ragmetrics.tracking.writer import (
    CLAIMS,
    FIGURES,
    ROWS,
    STATUS_TAG,
    SUITE,
    WRITER_TAG,
    Content,
    RunWriter,
    table_json,
    this_process,
)

__all__ = ["log_report"]


def log_report(
    report: Loggable,
    *,
    run_id: str | None = None,
    run_name: str | None = None,
    tags: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    model_id: str | None = None,
    traces: bool = True,
    feedback: bool = False,
    dataset: bool = True,
    omit: Collection[str] = (),
    files: Mapping[str, str | bytes] | None = None,
) -> str:
    """Write ``report`` into the run ``run_id``, else the active run, else a new one; returns the run's id.

    ``params`` are further params, ``files`` further artifacts by name; ``model_id`` links run and metrics to a logged
    model (default: the active one). ``traces`` writes one trace per row with its scores as assessments, for the
    row-by-row comparison of two runs; ``feedback`` writes the scores onto the traces that the rows come from instead.
    ``dataset=False`` logs no dataset input and ``omit`` names metrics not to log, where somebody else logs them.
    Logging again, also after a failure, replaces tables and traces and sets the metrics anew. Where something cannot be
    written, a run made here ends FAILED, the tag ``ragmetrics.status`` says why, and a ``RagMetricsError`` is raised.
    A report that is not complete (``report.incomplete``) is written whole, but the tag is not ``complete``, and a run
    made here ends FAILED.
    """
    import mlflow
    from mlflow.entities import LoggedModelInput

    model = model_id or mlflow.get_active_model_id()
    with target_run(run_id, run_name) as target:
        writer = RunWriter(target)
        writer.tags({STATUS_TAG: WRITING, WRITER_TAG: this_process(), "ragmetrics.version": package_version()})
        writer.params({**description_of(report), **(params or {})})
        datasets = [dataset_input(report)] if dataset else []
        writer.inputs(datasets, [] if model is None else [LoggedModelInput(model)])
        writer.files({**(files or {}), **_own_files(report)}, tables=(ROWS, CLAIMS))
        about: dict[str, Any] = {"model_id": model, "run_id": target}
        for each in datasets:
            about |= {"dataset_name": each.dataset.name, "dataset_digest": each.dataset.digest}
        writer.figures({name: value for name, value in run_metrics_of(report).items() if name not in omit}, **about)
        if feedback:
            log_feedback(report.rows, target)
        elif traces:
            log_traces(report.rows, target, model)
        writer.tags({**(tags or {}), STATUS_TAG: status_of(report.incomplete)})
    return target


def _own_files(report: Loggable) -> dict[str, Content]:
    about = {"suite": description_of(report), "warnings": report.warnings, "usage": report.usage}
    return {
        ROWS: table_json(report.table),
        CLAIMS: table_json(report.items),
        FIGURES: as_json(figures_of(report), indent=2),
        SUITE: redact(as_json(about, indent=2)),
    }
