"""What a live run has: the traces that the callback wrote for its answers."""

from __future__ import annotations

import mlflow

from mlflow_ragmetrics.tracking.traces import written_traces


def questions(run_id: str) -> list[str]:
    """The questions of the run's traces, sorted."""
    traces = written_traces(mlflow.get_run(run_id).info.experiment_id, run_id)
    return sorted(str(trace.info.request_preview) for trace in traces)


def answers(run_id: str) -> list[str]:
    """The answers of the run's traces, sorted."""
    traces = written_traces(mlflow.get_run(run_id).info.experiment_id, run_id)
    return sorted(str(trace.info.response_preview) for trace in traces)
