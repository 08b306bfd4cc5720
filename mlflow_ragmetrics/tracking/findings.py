"""What is found out about runs after they were evaluated, comparisons and calibrations, into a run."""

from __future__ import annotations

import json
import math
import re
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.tracking.describe import new_params, params_of
from mlflow_ragmetrics.tracking.run import target_run
from mlflow_ragmetrics.tracking.writer import table_json

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from mlflow import MlflowClient

__all__ = ["Findings", "log_findings", "safe_name"]

_TABLES_TAG = "mlflow.loggedArtifacts"
_METRICS_A_BATCH = 900
_UNSAFE = re.compile(r"[^\w\-]+", re.ASCII)


@dataclass(frozen=True)
class Findings:
    """Artifacts by file name, run metrics and params by name."""

    texts: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    plots: Mapping[str, Figure | None] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)


def log_findings(findings: Findings, run_id: str | None, run_name: str | None) -> str:
    """Write into the run ``run_id``, else the active run, else a new one; returns the run's id.

    Artifacts of the same name are replaced. A ``RagMetricsError`` says why something could not be written.
    """
    import mlflow

    with target_run(run_id, run_name) as target:
        client = mlflow.MlflowClient()
        with tempfile.TemporaryDirectory() as folder:
            _write(findings, Path(folder))
            client.log_artifacts(target, folder)
        _tag_tables(client, target, findings)
        _log_params(client, target, findings.params)
        _log_metrics(client, target, findings.metrics)
    return target


def safe_name(name: str, longest: int = 60) -> str:
    """``name`` as part of a file's or a metric's name: letters, digits, ``_`` and ``-`` of ASCII only."""
    return _UNSAFE.sub("_", name).strip("_")[:longest] or "run"


def _write(findings: Findings, folder: Path) -> None:
    for name, text in findings.texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, table in findings.tables.items():
        (folder / name).write_text(table_json(table), encoding="utf-8")
    for name, figure in findings.plots.items():
        if figure is not None:
            figure.savefig(folder / name)


def _tag_tables(client: MlflowClient, run_id: str, findings: Findings) -> None:
    known = json.loads(client.get_run(run_id).data.tags.get(_TABLES_TAG, "[]"))
    missing = [each for each in ({"path": name, "type": "table"} for name in findings.tables) if each not in known]
    if missing:
        client.set_tag(run_id, _TABLES_TAG, json.dumps([*known, *missing]))


def _log_params(client: MlflowClient, run_id: str, params: Mapping[str, Any]) -> None:
    from mlflow.entities import Param

    fresh = new_params(params_of(params), client.get_run(run_id).data.params)
    if fresh:
        client.log_batch(run_id, params=[Param(name, value) for name, value in fresh.items()], synchronous=True)


def _log_metrics(client: MlflowClient, run_id: str, figures: Mapping[str, float]) -> None:
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    metrics = [Metric(name, float(value), now, 0) for name, value in figures.items() if math.isfinite(value)]
    for start in range(0, len(metrics), _METRICS_A_BATCH):
        client.log_batch(run_id, metrics=metrics[start : start + _METRICS_A_BATCH], synchronous=True)
