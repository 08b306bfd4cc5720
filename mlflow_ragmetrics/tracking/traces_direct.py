"""Traces handed to the tracking store whole, assessments included: about a tenth of the time of the public way.

``TracingClient`` is not public API: nothing else in the package uses it, and ``traces_public`` does the same without.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.core.run import Row
from mlflow_ragmetrics.tracking.feedback import assessments_of
from mlflow_ragmetrics.tracking.plain import as_json, plain
from mlflow_ragmetrics.tracking.run import TRACES_TAG, TraceTarget
from mlflow_ragmetrics.tracking.spans import documents_of

if TYPE_CHECKING:
    from mlflow.entities import Span, TraceInfo
    from mlflow.tracing.client import TracingClient

__all__ = ["is_possible", "write_trace_batch"]

_PREVIEW = 1000
_METADATA = 250


def is_possible() -> bool:
    """Whether this MLflow and this store take whole traces."""
    import mlflow

    try:
        from mlflow.tracing.client import TracingClient
    except ImportError:
        return False
    remote = mlflow.get_tracking_uri().startswith("databricks")
    return hasattr(TracingClient, "log_spans") and hasattr(TracingClient, "start_trace") and not remote


def write_trace_batch(rows: Sequence[Row], target: TraceTarget) -> list[str]:
    """Write one trace a row and return their ids."""
    from mlflow.tracing.client import TracingClient

    client = TracingClient()
    spans: list[list[Span]] = []
    ids: list[str] = []
    for row in rows:
        trace_id, root_id = f"tr-{uuid.uuid4().hex}", uuid.uuid4().hex[:16]
        client.start_trace(_info(row, target, trace_id, root_id))
        spans.append(_spans(row, trace_id, root_id, _time(row, target)))
        ids.append(trace_id)
    _log_spans(client, target.experiment_id, spans)
    return ids


def _log_spans(client: TracingClient, experiment_id: str, spans: Sequence[list[Span]]) -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.log_spans(experiment_id, [span for of_trace in spans for span in of_trace])
    except MlflowException:  # older stores take the spans of one trace at a time
        for of_trace in spans:
            client.log_spans(experiment_id, of_trace)


def _info(row: Row, target: TraceTarget, trace_id: str, root_id: str) -> TraceInfo:
    from mlflow.entities import TraceInfo, TraceLocation, TraceState

    assessments = assessments_of(row, target.run_id)
    for assessment in assessments:
        assessment.trace_id, assessment.span_id = trace_id, root_id
    request, response = as_json({"question": row.sample.question}), as_json(row.sample.answer)
    metadata = {
        "mlflow.sourceRun": target.run_id,
        "mlflow.trace_schema.version": "3",
        "mlflow.traceInputs": request[:_METADATA],
        "mlflow.traceOutputs": response[:_METADATA],
        **({"mlflow.modelId": target.model_id} if target.model_id else {}),
    }
    return TraceInfo(
        trace_id=trace_id,
        trace_location=TraceLocation.from_experiment_id(target.experiment_id),
        request_time=_time(row, target) // 1_000_000,
        execution_duration=_milliseconds(row),
        state=TraceState.OK,
        request_preview=request[:_PREVIEW],
        response_preview=response[:_PREVIEW],
        client_request_id=plain(row.sample.id),
        trace_metadata=metadata,
        tags={"mlflow.traceName": "rag_eval", TRACES_TAG: target.run_id},
        assessments=assessments,
    )


def _spans(row: Row, trace_id: str, root_id: str, now: int) -> list[Span]:
    end = now + 1_000_000 * _milliseconds(row)
    question = {"question": row.sample.question}
    spans = [_span("rag_eval", "CHAIN", trace_id, root_id, "", (now, end), question, row.sample.answer)]
    if row.sample.contexts is not None:
        found = documents_of(row.sample)
        child_id = uuid.uuid4().hex[:16]
        spans.append(_span("contexts", "RETRIEVER", trace_id, child_id, root_id, (now, end), question, found))
    return spans


def _span(
    name: str, kind: str, trace_id: str, own: str, parent: str, times: tuple[int, int], inputs: Any, outputs: Any
) -> Span:
    from mlflow.entities import Span

    return Span.from_dict(
        {
            "name": name,
            "trace_id": _encoded(trace_id.removeprefix("tr-")),
            "span_id": _encoded(own),
            "parent_span_id": _encoded(parent),
            "start_time_unix_nano": times[0],
            "end_time_unix_nano": times[1],
            "status": {"code": "STATUS_CODE_OK", "message": ""},
            "events": [],
            "attributes": {
                "mlflow.traceRequestId": as_json(trace_id),
                "mlflow.spanType": as_json(kind),
                "mlflow.spanInputs": as_json(inputs),
                "mlflow.spanOutputs": as_json(outputs),
            },
        }
    )


def _encoded(hexadecimal: str) -> str:
    return base64.b64encode(bytes.fromhex(hexadecimal)).decode("ascii")


def _time(row: Row, target: TraceTarget) -> int:
    return target.began_ns - 1_000_000 * row.index


def _milliseconds(row: Row) -> int:
    return round(max((score.duration_ms for score in row.scores.values()), default=0.0))
