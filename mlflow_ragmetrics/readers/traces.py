"""MLflow traces as records: their inputs and outputs, retrieved documents and failures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.core.json_text import plain
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.records.aliases import ALIASES

if TYPE_CHECKING:
    from mlflow.entities import Span, Trace

__all__ = ["documents_of", "failure_of", "retrieved_documents", "record_of_trace"]


def retrieved_documents(trace: Trace) -> list[Any] | None:
    """The documents of all retriever spans in order of time, as stored; ``None`` without such a span.

    Retrievers may lie at any depth; of a retriever within a retriever only the outer one counts, whose documents
    are the outcome of both.
    """
    spans = {span.span_id: span for span in trace.data.spans}
    retrievers = [span for span in spans.values() if _retrieves(span) and not _is_within_retriever(span, spans)]
    if not retrievers:
        return None
    return [each for span in sorted(retrievers, key=lambda s: s.start_time_ns) for each in _documents(span.outputs)]


def documents_of(sample: Sample) -> list[dict[str, Any]]:
    """The retrieved chunks in the form in which MLflow shows the documents of a retriever span."""
    chunks = sample.contexts or ()
    return [plain({"page_content": c.text, "metadata": dict(c.metadata), "id": c.id}) for c in chunks]


def failure_of(trace: Trace) -> str | None:
    """Why the traced call failed, or ``None`` where it did not."""
    if str(trace.info.state).rpartition(".")[2] != "ERROR":
        return None
    for span in sorted(trace.data.spans, key=lambda s: s.parent_id is not None):
        for event in span.events:
            message = event.attributes.get("exception.message")
            if message:
                return f"{event.attributes.get('exception.type', 'Exception')}: {message}"
        if span.status.description:
            return str(span.status.description)
    return "the call failed without a message"


def _retrieves(span: Span) -> bool:
    return span.span_type == "RETRIEVER"


def _is_within_retriever(span: Span, spans: Mapping[str, Span]) -> bool:
    parent = spans.get(span.parent_id or "")
    return parent is not None and (_retrieves(parent) or _is_within_retriever(parent, spans))


def _documents(outputs: Any) -> list[Any]:
    if isinstance(outputs, Mapping):
        named = (outputs[name] for name in ("contexts", *ALIASES["contexts"]) if name in outputs)
        outputs = next(named, [outputs])
    if outputs is None:
        return []
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def record_of_trace(row: Any) -> dict[str, Any] | None:
    """A trace, or a row of the frame of traces, as a record; ``None`` for anything else.

    The record has the trace's inputs and outputs, the expectations among its assessments, the documents of its
    retriever spans as contexts where it has such spans, and ``trace_id``, to which feedback is attached.
    """
    trace = _trace_in(row)
    if trace is None:
        return None
    expectations = {a.name: a.expectation.value for a in trace.info.assessments if a.expectation is not None}
    documents = retrieved_documents(trace)
    return {
        "inputs": _content(trace.data.request),
        "outputs": _content(trace.data.response),
        **({"contexts": documents} if documents is not None else {}),
        **({"expectations": expectations} if expectations else {}),
        "trace_id": trace.info.trace_id,
    }


def _trace_in(row: Any) -> Trace | None:
    if isinstance(row, Mapping):
        if not {"trace", "trace_id"} <= row.keys():
            return None
        row = row["trace"]
        if isinstance(row, str):
            from mlflow.entities import Trace

            return Trace.from_json(row)
    return row if hasattr(getattr(row, "info", None), "trace_id") else None


def _content(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
