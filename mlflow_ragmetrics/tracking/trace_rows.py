"""Traces as records: what ``mlflow.search_traces`` found, in the form that every reader of rows takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.tracking.spans import retrieved_documents

if TYPE_CHECKING:
    from mlflow.entities import Trace

__all__ = ["record_of_trace"]


def record_of_trace(row: Any) -> dict[str, Any] | None:
    """A trace, or a row of the frame of traces, as a record; ``None`` for anything else.

    The record has the trace's inputs and outputs, the expectations among its assessments, the documents of its
    retriever spans as contexts where it has such spans, and ``trace_id``, by which feedback finds its way back.
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
