"""Traces written with MLflow's public functions: span by span, then one call an assessment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlflow_ragmetrics.core.run import Row
from mlflow_ragmetrics.tracking.feedback import assessments_of
from mlflow_ragmetrics.tracking.plain import plain, plain_text
from mlflow_ragmetrics.tracking.run import TRACES_TAG, TraceTarget
from mlflow_ragmetrics.tracking.spans import documents_of

__all__ = ["write_trace_batch"]


def write_trace_batch(rows: Sequence[Row], target: TraceTarget) -> list[str]:
    """Write one trace a row and return their ids; the model is linked only where it is MLflow's active one."""
    import mlflow

    ids = [_write_spans(row, target) for row in rows]
    # spans are exported in the background, from a queue that drops what does not fit
    mlflow.flush_trace_async_logging()
    for row, trace_id in zip(rows, ids, strict=True):
        for assessment in assessments_of(row, target.run_id):
            mlflow.log_assessment(trace_id=trace_id, assessment=assessment)
    return ids


def _write_spans(row: Row, target: TraceTarget) -> str:
    from mlflow import MlflowClient

    client = MlflowClient()
    question = plain({"question": row.sample.question})
    root = client.start_trace(
        "rag_eval", "CHAIN", inputs=question, experiment_id=target.experiment_id, tags={TRACES_TAG: target.run_id}
    )
    _describe(str(root.trace_id), row, target)
    if row.sample.contexts is not None:
        child = client.start_span("contexts", root.trace_id, root.span_id, span_type="RETRIEVER", inputs=question)
        client.end_span(root.trace_id, child.span_id, outputs={"documents": documents_of(row.sample)})
    client.end_trace(root.trace_id, outputs=plain(row.sample.answer))
    return str(root.trace_id)


def _describe(trace_id: str, row: Row, target: TraceTarget) -> None:
    """Set the sample's id, and the run, of which MLflow itself names the active one only."""
    from mlflow.tracing.trace_manager import InMemoryTraceManager

    manager: Any = InMemoryTraceManager
    with manager.get_instance().get_trace(trace_id) as trace:
        trace.info.client_request_id = plain_text(row.sample.id)
        trace.info.trace_metadata["mlflow.sourceRun"] = target.run_id
