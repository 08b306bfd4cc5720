"""Traces into MLflow's store: handed over whole where it allows that, else with the public functions.

``TracingClient`` is not public API: nothing else in the package uses it, and ``write_traces_publicly`` does without.
"""

from __future__ import annotations

import base64
import os
import time
import uuid
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.core.json_text import as_json, plain, plain_text
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.rows.groups import SESSION
from mlflow_ragmetrics.rows.traces import TRACE_TIMES, TRACES_TAG, documents_of
from mlflow_ragmetrics.tracking.describe import Diagnosed
from mlflow_ragmetrics.tracking.feedback import assessments_of, write_assessment

if TYPE_CHECKING:
    from mlflow.entities import Span, Trace, TraceInfo
    from mlflow.tracing.client import TracingClient

__all__ = [
    "TraceTarget",
    "can_write_directly",
    "trace_of",
    "warn_of_small_pool",
    "write_traces_directly",
    "write_traces_publicly",
]

_SAFE_WORKERS = 14
_WORKERS = "MLFLOW_GENAI_EVAL_MAX_WORKERS"
_POOL = "MLFLOW_SQLALCHEMYSTORE_POOL_SIZE"


@dataclass(frozen=True)
class TraceTarget:
    """Where traces go: experiment, run and model, what the scores are called there, and from when they are dated back.

    ``diagnoses`` are those of the rows by id.

    MLflow lists the newest traces first, so of rows whose time is not known the first has to be the newest.
    """

    experiment_id: str
    run_id: str
    names: Mapping[str, str]
    diagnoses: Mapping[str, Diagnosed] = field(default_factory=dict)
    model_id: str | None = None
    began_ns: int = field(default_factory=time.time_ns)


def warn_of_small_pool() -> None:
    """Warn, with the two remedies, when the workers of ``mlflow.genai.evaluate`` outnumber a store's connections.

    Each worker that starts a trace holds one connection and waits for a second one: with 15 connections, the default
    of SQLAlchemy, 15 workers can wait for each other until all of them time out.
    """
    import mlflow

    if not mlflow.get_tracking_uri().startswith("sqlite") or os.environ.get(_POOL):
        return
    if int(os.environ.get(_WORKERS) or _default_workers()) > _SAFE_WORKERS:
        message = (
            "mlflow.genai.evaluate starts more workers than a SQLite store has connections, and then loses traces and "
            f"feedback; set {_WORKERS}=10 or {_POOL}=100 in the environment before the first use of the store"
        )
        warnings.warn(message, stacklevel=4)


def _default_workers() -> int:
    try:
        from mlflow.genai.evaluation import harness
    except ImportError:  # before MLflow 3.4 there was no harness of its own
        return 0
    return 40 if hasattr(harness, "_pool_size") else 10


def write_traces_publicly(rows: Sequence[Row], target: TraceTarget) -> list[str]:
    """Write one trace per row and return their ids; the model is linked only where it is MLflow's active one."""
    import mlflow

    ids = [_write_spans(row, target) for row in rows]
    # spans are exported in the background, from a queue that drops what does not fit
    mlflow.flush_trace_async_logging()
    for row, trace_id in zip(rows, ids, strict=True):
        diagnosis = target.diagnoses.get(row.sample.id)
        for number, assessment in enumerate(assessments_of(row, target.run_id, target.names, None, diagnosis)):
            write_assessment(trace_id, assessment, f"{number} {target.run_id}")
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


_PREVIEW = 1000
_METADATA = 250


def can_write_directly() -> bool:
    """Whether this MLflow and this store take whole traces."""
    import mlflow

    try:
        from mlflow.tracing.client import TracingClient
    except ImportError:
        return False
    remote = mlflow.get_tracking_uri().startswith("databricks")
    return hasattr(TracingClient, "log_spans") and hasattr(TracingClient, "start_trace") and not remote


def write_traces_directly(rows: Sequence[Row], target: TraceTarget) -> list[str]:
    """Write one trace per row and return their ids."""
    from mlflow.tracing.client import TracingClient

    client = TracingClient()
    infos: list[TraceInfo] = []
    spans: list[list[Span]] = []
    for row in rows:
        trace_id, root_id = f"tr-{uuid.uuid4().hex}", uuid.uuid4().hex[:16]
        infos.append(_info(row, target, trace_id, root_id))
        spans.append(_spans(row, trace_id, root_id, target))
    if not _write_in_one_transaction(client.store, target.experiment_id, infos, spans):
        for info in infos:
            client.start_trace(info)
        _log_spans(client, target.experiment_id, spans)
    return [info.trace_id for info in infos]


def _write_in_one_transaction(
    store: Any, experiment_id: str, infos: Sequence[TraceInfo], spans: Sequence[list[Span]]
) -> bool:
    """Let a database store write all traces in one transaction; ``False`` where it cannot, and nothing is written.

    A transaction of its own for each trace, and the experiment read anew, is two thirds of what a trace costs.
    """
    from mlflow.exceptions import MlflowException

    if not hasattr(store, "ManagedSessionMaker"):
        return False
    shared = copy(store)
    try:
        experiment = store.get_experiment(experiment_id)
        with store.ManagedSessionMaker(read_only=False) as session:
            shared.ManagedSessionMaker = lambda **_: nullcontext(session)
            shared.get_experiment = lambda _: experiment
            session.flush = lambda *_: None  # rows of one table go together
            for info in infos:
                shared.start_trace(info)
            del session.flush
            session.flush()
            shared.log_spans(experiment_id, [span for of_trace in spans for span in of_trace])
    except (MlflowException, AttributeError, TypeError):  # of another version, whose store works otherwise
        return False
    return True


def trace_of(sample: Sample) -> Trace:
    """A trace of the sample as it would be written, which is in no store: for what reads traces."""
    from mlflow.entities import Trace, TraceData

    target = TraceTarget("0", "", {})
    row = Row(sample, {})
    trace_id, root_id = f"tr-{uuid.uuid4().hex}", uuid.uuid4().hex[:16]
    return Trace(_info(row, target, trace_id, root_id), TraceData(_spans(row, trace_id, root_id, target)))


def _log_spans(client: TracingClient, experiment_id: str, spans: Sequence[list[Span]]) -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.log_spans(experiment_id, [span for of_trace in spans for span in of_trace])
    except MlflowException:  # older stores take the spans of one trace at a time
        for of_trace in spans:
            client.log_spans(experiment_id, of_trace)


def _info(row: Row, target: TraceTarget, trace_id: str, root_id: str) -> TraceInfo:
    from mlflow.entities import TraceInfo, TraceLocation, TraceState

    assessments = assessments_of(row, target.run_id, target.names, trace_id, target.diagnoses.get(row.sample.id))
    for assessment in assessments:
        assessment.trace_id, assessment.span_id = trace_id, root_id
    request, response = as_json({"question": row.sample.question}), as_json(row.sample.answer)
    began, took = _times(row, target)
    metadata = {
        "mlflow.sourceRun": target.run_id,
        "mlflow.trace_schema.version": "3",
        "mlflow.traceInputs": request[:_METADATA],
        "mlflow.traceOutputs": response[:_METADATA],
        **({"mlflow.modelId": target.model_id} if target.model_id else {}),
        **({SESSION: str(row.sample.metadata[SESSION])} if took is not None and SESSION in row.sample.metadata else {}),
    }
    return TraceInfo(
        trace_id=trace_id,
        trace_location=TraceLocation.from_experiment_id(target.experiment_id),
        request_time=began,
        execution_duration=took,
        state=TraceState.OK,
        request_preview=plain_text(row.sample.question or "")[:_PREVIEW],
        response_preview=plain_text(row.sample.answer or "")[:_PREVIEW],
        client_request_id=plain(row.sample.id),
        trace_metadata=metadata,
        tags={"mlflow.traceName": "rag_eval", TRACES_TAG: target.run_id},
        assessments=assessments,
    )


def _spans(row: Row, trace_id: str, root_id: str, target: TraceTarget) -> list[Span]:
    began, took = _times(row, target)
    start = 1_000_000 * began
    question = {"question": row.sample.question}
    whole = (start, start + 1_000_000 * (took or 0))
    spans = [_span("rag_eval", "CHAIN", trace_id, root_id, "", whole, question, row.sample.answer)]
    if row.sample.contexts is not None:
        found = documents_of(row.sample)
        child_id = uuid.uuid4().hex[:16]
        # when it was is not known: a mark at the beginning
        spans.append(_span("contexts", "RETRIEVER", trace_id, child_id, root_id, (start, start), question, found))
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


def _times(row: Row, target: TraceTarget) -> tuple[int, int | None]:
    """When the answer was begun, in milliseconds, and how many it took, where the row comes from a trace.

    Otherwise nobody knows: the time is that of writing, row by row before it, and there is no duration.
    """
    began, took = (row.sample.metadata.get(name) for name in TRACE_TIMES)
    if "trace_id" in row.sample.metadata and isinstance(began, int):
        return began, took if isinstance(took, int) else None
    return target.began_ns // 1_000_000 - row.index, None
