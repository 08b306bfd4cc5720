"""Finds the traces of an experiment by ``traces:/EXPERIMENT?since=24h`` and reads them as records."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Union
from urllib.parse import parse_qsl, unquote

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.rows.aliases import ALIASES, ALIASES_BY_NATURE, RECORD_NAMES
from mlflow_ragmetrics.rows.chat_messages import question_in
from mlflow_ragmetrics.rows.passages import are_texts, hits_in, passages_of_columns
from mlflow_ragmetrics.rows.values import decoded, is_list, is_missing, mapping_of

if TYPE_CHECKING:
    from mlflow.entities import Span, Trace, TraceInfo


SESSION = "mlflow.trace.session"
"""MLflow's metadata field for the conversation of a trace."""
TRACES_TAG = "ragmetrics.run"
"""The tag with the run's id, on traces that an evaluation wrote for its rows."""
TRACE_TIMES = ("request_time", "execution_duration")
"""The metadata of a row from a trace: start time and duration of its call, in milliseconds."""

_FILE_SEARCH = "file_search_call"
_RETRIEVER = ("RETRIEVER", "retrieval")
_NUMBERED = re.compile(r"retrieval\.documents\.(?P<number>\d{1,6})\.(?P<name>[\w.]+)")


def retrieved_documents(trace: Trace) -> list[Any] | None:
    """The documents of all retriever spans in time order, as stored; ``None`` without such a span.

    Retriever spans of MLflow (including LangChain's), OpenInference and OpenTelemetry's GenAI conventions are found at
    any depth. A retriever inside another retriever is ignored. Without a retriever, documents returned by tools and by
    a model's own file search are used; plain text from a tool is not a document.
    """
    spans = sorted(trace.data.spans, key=lambda span: span.start_time_ns)
    by_id = {span.span_id: span for span in spans}
    retrievers = [span for span in spans if _is_a(span, *_RETRIEVER) and not _is_within_retriever(span, by_id)]
    stored = [documents_in(span.attributes or {}) or _documents(span.outputs) for span in retrievers]
    found_documents = stored if retrievers else map(_returned_documents, spans)
    known = [documents for documents in found_documents if documents is not None]
    return [document for documents in known for document in documents] if known else None


def session_of(trace: Trace) -> dict[str, Any]:
    """The trace's conversation and start time as metadata entries; empty without a conversation."""
    session = (trace.info.trace_metadata or {}).get(SESSION)
    return {SESSION: session, TRACE_TIMES[0]: trace.info.request_time} if session else {}


def state_of(info: TraceInfo) -> str:
    """``OK``, ``ERROR``, ``IN_PROGRESS`` or ``STATE_UNSPECIFIED``."""
    return str(info.state).rpartition(".")[2]


def is_answered(info: TraceInfo) -> bool:
    """Whether the traced call ended without error and the trace was not written by an evaluation for a row."""
    return state_of(info) not in ("ERROR", "IN_PROGRESS") and TRACES_TAG not in (info.tags or {})


def failure_of(trace: Trace) -> str | None:
    """Why the traced call failed, or ``None`` if it did not."""
    if state_of(trace.info) != "ERROR":
        return None
    for span in sorted(trace.data.spans, key=lambda s: s.parent_id is not None):
        for event in span.events:
            if message := event.attributes.get("exception.message"):
                return f"{event.attributes.get('exception.type', 'Exception')}: {message}"
        if span.status.description:
            return str(span.status.description)
    return "the call failed without a message"


def _is_a(span: Span, kind: str, operation: str) -> bool:
    """Whether the span has this kind (MLflow, OpenInference) or this operation (OpenTelemetry)."""
    attributes = span.attributes or {}
    kinds = (span.span_type, attributes.get("openinference.span.kind"))
    return kind in kinds or attributes.get("gen_ai.operation.name") == operation


def _is_within_retriever(span: Span, spans: Mapping[str, Span]) -> bool:
    parent = spans.get(span.parent_id or "")
    return parent is not None and (_is_a(parent, *_RETRIEVER) or _is_within_retriever(parent, spans))


def documents_in(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The documents in a retriever's attributes, stored as a list or under numbered names."""
    numbered: dict[int, dict[str, Any]] = {}
    for name, value in attributes.items():
        if (match := _NUMBERED.fullmatch(name)) and not is_missing(value):
            numbered.setdefault(int(match["number"]), {})[match["name"]] = value
    listed: Any = [numbered[number] for number in sorted(numbered)]
    for name in ("retrieval.documents", "gen_ai.retrieval.documents"):
        listed = listed or decoded(attributes.get(name))
    documents = []
    for entry in map(mapping_of, listed if isinstance(listed, list) else ()):
        entries = mapping_of(entry.get("document")) or entry
        document = {str(name).removeprefix("document."): value for name, value in entries.items()}
        if any(isinstance(document.get(key), str) for key in ("content", "text")):
            documents.append({**document, "metadata": dict(mapping_of(document.get("metadata")))})
    return documents


def _documents(outputs: Any) -> list[Any]:
    if isinstance(outputs, Mapping):
        if passages := passages_of_columns(outputs):
            return passages
        named = [outputs[name] for name in ("contexts", *ALIASES["contexts"]) if name in outputs]
        named += [outputs[name] for name in ALIASES_BY_NATURE["contexts"] if are_texts(outputs.get(name))]
        outputs = named[0] if named else hits_in(outputs) or [outputs]
    if outputs is None:
        return []
    return hits_in(outputs) or list(outputs) if is_list(outputs) else [outputs]


def _returned_documents(span: Span) -> list[Any] | None:
    """The documents returned by a tool or a model's file search; ``None`` for other spans."""
    attributes = span.attributes or {}
    outputs = span.outputs if span.outputs is not None else decoded(attributes.get("gen_ai.tool.call.result"))
    if isinstance(outputs, Mapping) and isinstance(outputs.get("output"), list):  # OpenAI's Responses
        calls = [each for each in outputs["output"] if isinstance(each, Mapping) and each.get("type") == _FILE_SEARCH]
        results = [call["results"] for call in calls if isinstance(call.get("results"), list)]
        return [document for result in results for document in result] if results else None
    if not _is_a(span, "TOOL", "execute_tool"):
        return None
    if isinstance(outputs, Mapping):
        names = ("artifact", "contexts", *ALIASES["contexts"], *ALIASES_BY_NATURE["contexts"], "results")
        outputs = next((outputs[name] for name in names if isinstance(outputs.get(name), list)), None)
    if not isinstance(outputs, list) or not outputs:
        return None
    return outputs if all(isinstance(entry, Mapping) and are_texts([entry]) for entry in outputs) else None


def _root_content(trace: Trace, *names: str) -> Any:
    """The root span's first attribute with one of these names, for exporters that MLflow does not translate."""
    root = next((span for span in trace.data.spans if span.parent_id is None), None)
    attributes = (root.attributes if root is not None else None) or {}
    return next((decoded(attributes[name]) for name in names if attributes.get(name)), None)


def record_of_trace(row: Any) -> dict[str, Any] | None:
    """A trace, or a row of a frame of traces, as a record; ``None`` for anything else.

    The record has the trace's inputs, outputs, ``trace_id`` and times (``TRACE_TIMES``) and, if there are any, its
    expectations, its retrieved documents as contexts, and its session (conversation).
    """
    trace = _trace_in(row)
    if trace is None:
        return None
    expectations = {a.name: a.expectation.value for a in trace.info.assessments if a.expectation is not None}
    documents = retrieved_documents(trace)
    inputs, outputs = decoded(trace.data.request), decoded(trace.data.response)
    return {
        "inputs": _only_text(inputs)
        if inputs is not None
        else _root_content(trace, "input.value", "gen_ai.input.messages"),
        "outputs": outputs if outputs is not None else _root_content(trace, "output.value", "gen_ai.output.messages"),
        **({"contexts": documents} if documents is not None else {}),
        **({"expectations": expectations} if expectations else {}),
        **session_of(trace),
        "trace_id": trace.info.trace_id,
        **{name: time for name in TRACE_TIMES if (time := getattr(trace.info, name, None)) is not None},
    }


def _only_text(inputs: Any) -> Any:
    """Inputs with their only text, under a name that is no field's, as the question; other inputs unchanged."""
    if not isinstance(inputs, Mapping) or question_in(inputs) is not inputs:
        return inputs
    texts = [value for name, value in inputs.items() if isinstance(value, str) and str(name) not in RECORD_NAMES]
    return {**inputs, "question": texts[0]} if len(texts) == 1 else inputs


def _trace_in(row: Any) -> Trace | None:
    if isinstance(row, Mapping):
        if not {"trace", "trace_id"} <= row.keys():
            return None
        row = row["trace"]
        if isinstance(row, str):
            from mlflow.entities import Trace

            return Trace.from_json(row)
    return row if hasattr(getattr(row, "info", None), "trace_id") else None


SCHEME = "traces:/"
"""The prefix of an address of traces."""
_PARTS = ("since", "until", "filter")
_PAGE = 100
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(?P<number>\d{1,9})(?P<unit>[smhdw])")


def milliseconds(text: str, param: str) -> int:
    """Convert a duration such as ``90s``, ``30m``, ``24h``, ``7d`` or ``2w``; ``InvalidOptionError`` otherwise.

    >>> milliseconds("24h", "since")
    86400000
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise InvalidOptionError(f"{param}={shown(text)} is not a duration such as 30m, 24h or 7d", param=param)
    return int(match["number"]) * _UNITS[match["unit"]] * 1000


def moment(text: str, param: str) -> int:
    """Convert an age (``24h``) or a date with or without a time (UTC by default) to milliseconds since 1970."""
    if _DURATION.fullmatch(text.strip()):
        return int(time.time() * 1000) - milliseconds(text, param)
    try:
        instant = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        message = (
            f"{param}={shown(text)} is neither a duration (24h, 7d) nor a date such as 2026-07-01 or 2026-07-01T12:00"
        )
        raise InvalidOptionError(message, param=param) from None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=timezone.utc)
    return (instant - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)


@dataclass(frozen=True)
class TraceSearch:
    """A search for an experiment's traces that began at ``since`` or later and before ``until`` (milliseconds).

    ``filter`` is a filter of MLflow's trace search. ``sample`` is the share of traces to take. They are chosen by id:
    the same traces each time, and a larger share includes those of a smaller one.
    """

    experiment_id: str
    filter: str = ""
    since: int = 0
    until: int = field(default_factory=lambda: int(time.time() * 1000))
    sample: float = 1.0

    def infos(self) -> Iterator[TraceInfo]:
        """Each trace once, without spans, in time order.

        Each page starts at the time of the previous page's last trace, not at an offset. So no trace is lost or
        repeated if traces are added, changed or deleted during the search.
        """
        start, seen, token = self.since, set[str](), None
        while True:
            infos, token = self._page(start, token)
            yield from (info for info in infos if info.trace_id not in seen and self._takes(info.trace_id))
            if token is None or not infos:
                return
            last = infos[-1].request_time
            seen |= {info.trace_id for info in infos}
            if infos[0].request_time < last:  # else the whole page has one time: use the token
                seen = {info.trace_id for info in infos if info.request_time == last}
                start, token = last, None

    def _page(self, since: int, token: Union[str, None]) -> tuple[list[TraceInfo], Union[str, None]]:
        import mlflow

        times = f"timestamp_ms >= {since} AND timestamp_ms < {self.until}"
        try:
            page = mlflow.MlflowClient().search_traces(
                experiment_ids=[self.experiment_id],
                filter_string=f"{times} AND {self.filter}" if self.filter else times,
                max_results=_PAGE,
                order_by=["timestamp_ms ASC"],
                page_token=token,
                include_spans=False,
            )
        except mlflow.exceptions.MlflowException as error:
            if self.filter and error.error_code == "INVALID_PARAMETER_VALUE":
                message = f"filter={shown(self.filter)} is not a valid trace filter of MLflow: {error.message}"
                raise InvalidOptionError(message, param="filter") from error
            raise
        return [trace.info for trace in page], page.token or None

    def _takes(self, trace_id: str) -> bool:
        number = int.from_bytes(blake2b(trace_id.encode(), digest_size=8).digest(), "big")
        return number < self.sample * 2**64


def experiment_named(name: str) -> str:
    """The id of the experiment with this name or id; ``InvalidDataError`` if it does not exist."""
    import mlflow

    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name(name)
    with suppress(mlflow.exceptions.MlflowException):
        experiment = experiment or client.get_experiment(name)
    if experiment is None or experiment.lifecycle_stage == "deleted":
        there = ", ".join(active.name for active in client.search_experiments(max_results=5))
        missing = f"there is no experiment {shown(name)} in MLflow"
        problem = f"the experiment {shown(name)} is deleted" if experiment else missing
        raise InvalidDataError(f"{problem}; use one of {there}")
    return str(experiment.experiment_id)


def whole_trace(info: TraceInfo) -> Union[Trace, None]:
    """The trace with its spans; ``None`` if it was deleted or its spans are missing or not stored yet."""
    import mlflow

    try:
        trace: Union[Trace, None] = mlflow.MlflowClient().get_trace(info.trace_id)
    except mlflow.exceptions.MlflowException as error:
        status: int = error.get_http_status_code()  # type: ignore[no-untyped-call]
        if 400 <= status < 500 and status not in (401, 403, 408, 429):
            return None
        raise
    return trace


def read_traces(address: str) -> Iterator[Trace]:
    """The traces at ``traces:/EXPERIMENT?since=…&until=…&filter=…``, with their spans.

    ``EXPERIMENT`` is the name or id of an experiment in the current tracking store. ``since`` and ``until`` are ages
    (``24h``, ``7d``) or dates, ``filter`` is a filter of MLflow's search. Failed and unfinished calls, and traces that
    an evaluation wrote for its rows, are left out. Raises ``InvalidOptionError`` for an invalid part and
    ``InvalidDataError`` for an unknown experiment.
    """
    name, _, query = address.removeprefix(SCHEME).partition("?")
    parts: dict[str, Any] = dict(parse_qsl(query, keep_blank_values=True))
    for part in parts:
        if part not in _PARTS:
            raise InvalidOptionError(f"{address}: {part} is not one of {', '.join(_PARTS)}", param=part)
    parts |= {part: moment(parts[part], part) for part in ("since", "until") if part in parts}
    read = unread = 0
    for info in filter(is_answered, TraceSearch(experiment_named(unquote(name)), **parts).infos()):
        trace = whole_trace(info)
        read, unread = read + (trace is not None), unread + (trace is None)
        if trace is not None:
            yield trace
    if not read:
        raise InvalidDataError(f"{address} has no answered trace; change since= or filter=")
    if unread:
        warnings.warn(f"traces left out because the store does not have their spans: {unread}", stacklevel=2)
