"""Labels that people gave on traces in MLflow's UI."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mlflow_ragmetrics.errors import InvalidDataError

__all__ = ["feedback_labels", "has_feedback"]

_PEOPLE = "HUMAN"


def has_feedback(labels: Any) -> bool:
    """Whether ``labels`` are traces, or the frame of ``mlflow.search_traces``."""
    if hasattr(labels, "columns"):
        return "assessments" in labels.columns
    if not isinstance(labels, (list, tuple)):
        return False
    return bool(labels) and all(hasattr(getattr(each, "info", None), "trace_id") for each in labels)


def feedback_labels(traces: Any, key: str) -> dict[str, Any]:
    """People's feedback by trace id, by the request's id, and by the row's own id where the trace has one.

    The feedback named ``key`` counts, or, where people gave feedback of one name only, that one; of several on a
    trace the last. ``InvalidDataError`` when there is none, or when it is not clear which is meant.
    """
    given = [(ids, name, value) for ids, assessments in _traces(traces) for name, value in _human(assessments)]
    names = list(dict.fromkeys(name for _, name, _ in given))
    if not names:
        raise InvalidDataError("the traces carry no feedback by people; label some of them in MLflow's UI first")
    wanted = key if key in names else names[0]
    if wanted != key and len(names) > 1:
        message = f"people's feedback on the traces is named {', '.join(names)}; name one of them {key}, as the metric"
        raise InvalidDataError(message)
    return {identity: value for ids, name, value in given if name == wanted for identity in ids}


def _traces(traces: Any) -> Iterator[tuple[list[str], Iterable[Any]]]:
    if hasattr(traces, "columns"):
        for record in traces.to_dict("records"):
            identities = [record.get("trace_id"), record.get("client_request_id"), (record.get("tags") or {}).get("id")]
            yield _known(identities), record["assessments"] or []
        return
    for trace in traces:
        info = trace.info
        yield _known([info.trace_id, info.client_request_id, info.tags.get("id")]), info.assessments or []


def _known(identities: Iterable[Any]) -> list[str]:
    return [identity for identity in identities if isinstance(identity, str) and identity]


def _human(assessments: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for each in assessments:
        record = each if isinstance(each, Mapping) else each.to_dictionary()
        source = record.get("source") or {}
        feedback = record.get("feedback") or {}
        is_valid = record.get("valid") is not False and feedback.get("value") is not None
        if str(source.get("source_type")) == _PEOPLE and is_valid:
            yield str(record.get("assessment_name") or record.get("name")), feedback["value"]
