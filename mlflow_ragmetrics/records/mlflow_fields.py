"""The fields inside ``inputs``, ``outputs`` and ``expectations``, the three holders of an MLflow evaluation row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow_ragmetrics.errors import InvalidFieldError
from mlflow_ragmetrics.records.aliases import FIELD_OF
from mlflow_ragmetrics.records.fields import MISSING, Reading, read_field, uris_of
from mlflow_ragmetrics.records.messages import mapping_of
from mlflow_ragmetrics.records.values import is_missing, name_of, texts_of

__all__ = ["HOLDERS", "expected", "held", "leftovers"]

HOLDERS = ("inputs", "outputs", "expectations")

_READ_FROM_HOLDERS = frozenset({"messages", "choices", "content", "expected_facts", "expected_retrieved_context"})


def held(row: Mapping[Any, Any], field: str) -> Reading:
    """``field`` as it is found, under any of its names, in ``outputs``, else in ``inputs``."""
    for holder in ("outputs", "inputs"):
        reading = _field_in(row.get(holder), field)
        if not reading.empty:
            return reading
    return MISSING


def expected(row: Mapping[Any, Any], field: str) -> Reading:
    """``field`` as ``expectations`` give it.

    A reference is ``expected_response`` (or an alias of reference), else the ``expected_facts`` joined by newlines;
    gold ids are the ``doc_uri`` of each element of ``expected_retrieved_context``.
    """
    expectations = mapping_of(row.get("expectations"))
    reading = _field_in(expectations, field)
    if not reading.empty or not expectations:
        return reading
    try:
        if field == "reference":
            facts = texts_of(expectations.get("expected_facts"), field)
            return Reading(("\n".join(facts),) if facts else None)
        return Reading(uris_of(expectations.get("expected_retrieved_context")))
    except InvalidFieldError as error:
        return Reading(problem=f"{error} It was read from `expectations`.")


def leftovers(row: Mapping[Any, Any]) -> dict[str, dict[str, Any]]:
    """What the holders hold besides fields, by holder: it belongs to the metadata."""
    extra = {
        holder: {
            name_of(name): value
            for name, value in mapping_of(row.get(holder)).items()
            if name not in FIELD_OF and name not in _READ_FROM_HOLDERS
        }
        for holder in HOLDERS
    }
    return {holder: entries for holder, entries in extra.items() if entries}


def _field_in(holder: object, field: str) -> Reading:
    entries = {name: value for name, value in mapping_of(holder).items() if FIELD_OF.get(name) == field}
    present = {name: value for name, value in entries.items() if not is_missing(value)}
    return read_field(field, present) if present else MISSING
