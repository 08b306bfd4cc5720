"""A report into an MLflow run: params, dataset, tables, then metrics, so that what has metrics is complete."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.core.json_text import as_json, plain_text
from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.tracking.describe import (
    Loggable,
    dataset_input,
    description_of,
    figures_of,
    new_params,
    package_version,
    params_of,
)
from mlflow_ragmetrics.tracking.run import COMPLETE, STATUS_TAG, target_run
from mlflow_ragmetrics.tracking.traces import log_feedback, log_traces

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient
    from mlflow.entities import Run

__all__ = ["CLAIMS", "ROWS", "SUITE", "log_report"]

ROWS = "rag_rows.json"
CLAIMS = "rag_claims.json"
SUITE = "ragmetrics_suite.json"
_TABLES_TAG = "mlflow.loggedArtifacts"
_METRICS_A_BATCH = 900
_PARAMS_A_BATCH = 100


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
    model (default: the active one). ``traces`` writes one trace a row with its scores as assessments, for the
    row-by-row comparison of two runs; ``feedback`` writes the scores onto the traces that the rows come from instead.
    ``dataset=False`` logs no dataset input and ``omit`` names metrics not to log, where somebody else logs them.
    Logging again, also after a failure, replaces tables and traces and sets the metrics anew. Where something cannot be
    written, a run made here ends FAILED, the tag ``ragmetrics.status`` says why, and a ``RagMetricsError`` is raised.
    """
    import mlflow

    model = model_id or mlflow.get_active_model_id()
    with target_run(run_id, run_name) as target:
        client = mlflow.MlflowClient()
        run = client.get_run(target)
        _log_params(client, run, params_of(description_of(report), params))
        _log_inputs(client, run, report if dataset else None, model)
        _log_artifacts(client, run, report, files or {})
        figures = {name: value for name, value in figures_of(report).items() if name not in omit}
        _log_metrics(client, run, figures, model, report if dataset else None)
        if feedback:
            log_feedback(report.rows, target)
        elif traces:
            log_traces(report.rows, target, model)
        _log_tags(client, run, {**(tags or {}), STATUS_TAG: COMPLETE})
    return target


def _log_params(client: MlflowClient, run: Run, wanted: Mapping[str, str]) -> None:
    from mlflow.entities import Param

    _log_tags(client, run, {STATUS_TAG: "writing", "ragmetrics.version": package_version()})
    fresh = [Param(name, value) for name, value in new_params(wanted, run.data.params).items()]
    for batch in _batches(fresh, _PARAMS_A_BATCH):
        client.log_batch(run.info.run_id, params=batch, synchronous=True)


def _log_inputs(client: MlflowClient, run: Run, report: Loggable | None, model_id: str | None) -> None:
    from mlflow.entities import LoggedModelInput

    datasets = [] if report is None else [dataset_input(report)]
    models = [] if model_id is None else [LoggedModelInput(model_id)]
    if datasets or models:
        client.log_inputs(run.info.run_id, datasets, models)


def _log_artifacts(
    client: MlflowClient,
    run: Run,
    report: Loggable,
    files: Mapping[str, str | bytes],
) -> None:
    about = {"suite": description_of(report), "warnings": report.warnings, "usage": report.usage}
    texts = {
        ROWS: table_json(report.table),
        CLAIMS: table_json(report.items),
        SUITE: redact(as_json(about, indent=2)),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, content in {**files, **texts}.items():
            Path(folder, name).write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        client.log_artifacts(run.info.run_id, folder)
    known = json.loads(run.data.tags.get(_TABLES_TAG, "[]"))
    tables = [{"path": name, "type": "table"} for name in (ROWS, CLAIMS)]
    missing = [table for table in tables if table not in known]
    if missing:
        client.set_tag(run.info.run_id, _TABLES_TAG, json.dumps([*known, *missing]))


def _log_metrics(
    client: MlflowClient, run: Run, figures: Mapping[str, float], model_id: str | None, report: Loggable | None
) -> None:
    from mlflow.entities import Metric

    about: dict[str, Any] = {"model_id": model_id, "run_id": run.info.run_id}
    if report is not None:
        data = dataset_input(report).dataset
        about |= {"dataset_name": data.name, "dataset_digest": data.digest}
    now = int(time.time() * 1000)
    metrics = [Metric(name, value, now, 0, **about) for name, value in figures.items()]
    for batch in _batches(metrics, _METRICS_A_BATCH):
        client.log_batch(run.info.run_id, metrics=batch, synchronous=True)


def _log_tags(client: MlflowClient, run: Run, tags: Mapping[str, Any]) -> None:
    from mlflow.entities import RunTag

    entries = [RunTag(name, plain_text(str(value))) for name, value in tags.items()]
    client.log_batch(run.info.run_id, tags=entries, synchronous=True)


def table_json(frame: pd.DataFrame) -> str:
    """A frame in the form of MLflow's ``log_table`` artifacts: columns, and data row by row."""
    columns = [_cells(frame[name]) for name in frame.columns]
    return as_json({"columns": list(frame.columns), "data": list(zip(*columns, strict=True))})


def _cells(column: pd.Series[Any]) -> list[Any]:
    found: list[Any] = column.astype(object).where(column.notna(), None).tolist()
    return found


def _batches(entries: list[Any], size: int) -> Iterator[list[Any]]:
    return (entries[start : start + size] for start in range(0, len(entries), size))
