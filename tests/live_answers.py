"""What a live run has: the traces that the callback wrote for its answers."""

from __future__ import annotations

import mlflow
from mlflow.entities import Trace

from mlflow_ragmetrics.rows.trace_records import TRACES_TAG


def _written_traces(run_id: str) -> list[Trace]:
    experiment_id = mlflow.get_run(run_id).info.experiment_id
    traces: list[Trace] = mlflow.search_traces([experiment_id], f"tags.`{TRACES_TAG}` = '{run_id}'", return_type="list")
    return traces


def questions(run_id: str) -> list[str]:
    """The questions of the run's traces, sorted."""
    traces = _written_traces(run_id)
    return sorted(str(trace.info.request_preview) for trace in traces)


def answers(run_id: str) -> list[str]:
    """The answers of the run's traces, sorted."""
    traces = _written_traces(run_id)
    return sorted(str(trace.info.response_preview) for trace in traces)
