"""MLflow traces as records: their inputs and outputs, retrieved documents and failures."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.core.json_text import plain
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.rows.aliases import ALIASES, ALIASES_BY_NATURE
from mlflow_ragmetrics.rows.groups import SESSION
from mlflow_ragmetrics.rows.messages import mapping_of
from mlflow_ragmetrics.rows.values import are_texts

if TYPE_CHECKING:
    from mlflow.entities import Span, Trace, TraceInfo

__all__ = [
    "TRACES_TAG",
    "TRACE_TIMES",
    "documents_of",
    "failure_of",
    "is_answered",
    "record_of_trace",
    "retrieved_documents",
    "session_of",
    "state_of",
]

TRACES_TAG = "ragmetrics.run"
"""The tag of a trace that an evaluation wrote for a row: the run."""
TRACE_TIMES = ("request_time", "execution_duration")
"""The metadata of a row that comes from a trace: when its call began, and how long it took, in milliseconds."""

_FILE_SEARCH = "file_search_call"
_DOCUMENT = re.compile(r"retrieval\.documents\.(?P<number>\d{1,6})\.document\.(?P<name>\w+)")


def retrieved_documents(trace: Trace) -> list[Any] | None:
    """The documents of all retriever spans in order of time, as stored; ``None`` without such a span.

    Such a span is one of MLflow's (LangChain's retrievers), of OpenInference or of OpenTelemetry's GenAI conventions.
    Retrievers may lie at any depth; of a retriever within a retriever only the outer one counts, whose documents
    are the outcome of both. Without a retriever, what tools gave back counts where it is documents (not a mere text:
    a calculator gives one too), and what a model's own file search found.
    """
    spans = {span.span_id: span for span in trace.data.spans}
    retrievers = [span for span in spans.values() if _retrieves(span) and not _is_within_retriever(span, spans)]
    if not retrievers:
        found = [_returned_documents(span) for span in sorted(spans.values(), key=lambda s: s.start_time_ns)]
        return [each for documents in found for each in documents or ()] if any(f is not None for f in found) else None
    return [each for span in sorted(retrievers, key=lambda s: s.start_time_ns) for each in _documents_of_span(span)]


def documents_of(sample: Sample) -> list[dict[str, Any]]:
    """The retrieved chunks in the form in which MLflow shows the documents of a retriever span."""
    chunks = sample.contexts or ()
    return [plain({"page_content": c.text, "metadata": dict(c.metadata), "id": c.id}) for c in chunks]


def session_of(trace: Trace) -> dict[str, Any]:
    """The conversation that the trace belongs to and when its call began, as entries of a record's metadata.

    Empty where it belongs to none.
    """
    session = (trace.info.trace_metadata or {}).get(SESSION)
    return {SESSION: session, TRACE_TIMES[0]: trace.info.request_time} if session else {}


def state_of(info: TraceInfo) -> str:
    """``OK``, ``ERROR``, ``IN_PROGRESS`` or ``STATE_UNSPECIFIED``."""
    return str(info.state).rpartition(".")[2]


def is_answered(info: TraceInfo) -> bool:
    """Whether it is the trace of a call that gave an answer, not one that failed, goes on, or was written for a row."""
    return state_of(info) not in ("ERROR", "IN_PROGRESS") and TRACES_TAG not in (info.tags or {})


def failure_of(trace: Trace) -> str | None:
    """Why the traced call failed, or ``None`` where it did not."""
    if state_of(trace.info) != "ERROR":
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
    attributes = span.attributes or {}
    return (
        span.span_type == "RETRIEVER"
        or attributes.get("openinference.span.kind") == "RETRIEVER"
        or attributes.get("gen_ai.operation.name") == "retrieval"
    )


def _is_within_retriever(span: Span, spans: Mapping[str, Span]) -> bool:
    parent = spans.get(span.parent_id or "")
    return parent is not None and (_retrieves(parent) or _is_within_retriever(parent, spans))


def _documents_of_span(span: Span) -> list[Any]:
    """The documents among the span's attributes (OpenInference, OpenTelemetry), else its outputs."""
    attributes = span.attributes or {}
    numbered: dict[int, dict[str, Any]] = {}
    for name, value in attributes.items():
        if found := _DOCUMENT.fullmatch(name):
            numbered.setdefault(int(found["number"]), {})[found["name"]] = value
    documents: Any = [numbered[number] for number in sorted(numbered)]
    documents = documents or _content(attributes.get("gen_ai.retrieval.documents")) or []
    read = [
        {**each, **({"metadata": mapping_of(each["metadata"])} if "metadata" in each else {})}
        for each in documents
        if isinstance(each, Mapping) and any(isinstance(each.get(key), str) for key in ("content", "text"))
    ]
    return read or _documents(span.outputs)


def _documents(outputs: Any) -> list[Any]:
    if isinstance(outputs, Mapping):
        named = [outputs[name] for name in ("contexts", *ALIASES["contexts"]) if name in outputs]
        named += [outputs[name] for name in ALIASES_BY_NATURE["contexts"] if are_texts(outputs.get(name))]
        outputs = named[0] if named else [outputs]
    if outputs is None:
        return []
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def _returned_documents(span: Span) -> list[Any] | None:
    """The documents that a tool, or a model's file search, gave back; ``None`` where the span is of neither."""
    attributes = span.attributes or {}
    outputs = span.outputs if span.outputs is not None else _content(attributes.get("gen_ai.tool.call.result"))
    if isinstance(outputs, Mapping) and isinstance(outputs.get("output"), list):  # OpenAI's Responses
        calls = [each for each in outputs["output"] if isinstance(each, Mapping) and each.get("type") == _FILE_SEARCH]
        results = [call["results"] for call in calls if isinstance(call.get("results"), list)]
        return [each for result in results for each in result] if results else None
    is_tool = span.span_type == "TOOL" or attributes.get("openinference.span.kind") == "TOOL"
    if not is_tool and attributes.get("gen_ai.operation.name") != "execute_tool":
        return None
    if isinstance(outputs, Mapping):
        names = ("artifact", "contexts", *ALIASES["contexts"], *ALIASES_BY_NATURE["contexts"], "results")
        outputs = next((outputs[name] for name in names if isinstance(outputs.get(name), list)), None)
    if not isinstance(outputs, list) or not outputs:
        return None
    return outputs if all(isinstance(each, Mapping) and are_texts([each]) for each in outputs) else None


def _root_content(trace: Trace, *names: str) -> Any:
    """The first of these attributes that the outermost span has: exporters that MLflow does not translate."""
    root = next((span for span in trace.data.spans if span.parent_id is None), None)
    attributes = (root.attributes if root is not None else None) or {}
    return next((_content(attributes[name]) for name in names if attributes.get(name)), None)


def record_of_trace(row: Any) -> dict[str, Any] | None:
    """A trace, or a row of the frame of traces, as a record; ``None`` for anything else.

    The record has the trace's inputs and outputs, the expectations among its assessments, the documents of its
    retriever spans as contexts where it has such spans, its session (the conversation that it belongs to) where it has
    one, ``trace_id``, to which feedback is attached, and its times (``TRACE_TIMES``).
    """
    trace = _trace_in(row)
    if trace is None:
        return None
    expectations = {a.name: a.expectation.value for a in trace.info.assessments if a.expectation is not None}
    documents = retrieved_documents(trace)
    inputs, outputs = _content(trace.data.request), _content(trace.data.response)
    return {
        "inputs": inputs if inputs is not None else _root_content(trace, "input.value", "gen_ai.input.messages"),
        "outputs": outputs if outputs is not None else _root_content(trace, "output.value", "gen_ai.output.messages"),
        **({"contexts": documents} if documents is not None else {}),
        **({"expectations": expectations} if expectations else {}),
        **session_of(trace),
        "trace_id": trace.info.trace_id,
        **{name: time for name in TRACE_TIMES if (time := getattr(trace.info, name, None)) is not None},
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
