"""One field of a record, under any of its names: its own entry, or one inside the columns of an MLflow row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.errors import InvalidFieldError
from mlflow_ragmetrics.rows.aliases import ALIASES, ALIASES_BY_NATURE, RECORD_FIELDS
from mlflow_ragmetrics.rows.conversation import tool_chunks_in
from mlflow_ragmetrics.rows.messages import answer_in, mapping_of, messages_of, question_in, reference_in
from mlflow_ragmetrics.rows.values import are_texts, chunks_of, elements_of, is_missing, text_of, texts_of

__all__ = [
    "FIELD_OF",
    "MISSING",
    "MLFLOW_COLUMNS",
    "RECORD_NAMES",
    "Reading",
    "expected_field",
    "fits",
    "nested_field",
    "nested_metadata",
    "read_by_nature",
    "read_field",
]

FIELD_OF: Mapping[str, str] = {name: field for field in RECORD_FIELDS for name in (field, *ALIASES[field])}
"""Every accepted name (canonical or alias) -> canonical field."""

RECORD_NAMES = (*FIELD_OF, *(name for names in ALIASES_BY_NATURE.values() for name in names))
"""Every name under which a field may be found."""

MLFLOW_COLUMNS = ("inputs", "outputs", "expectations")
"""The columns of an MLflow evaluation row, each of which holds a mapping."""

_READ_ELSEWHERE = frozenset({"messages", "choices", "content", "expected_facts", "expected_retrieved_context"})


class Reading(NamedTuple):
    """What a record has for one field: its value (``None``: missing), or why it cannot be read, as a sentence."""

    value: Any = None
    problem: str | None = None

    @property
    def empty(self) -> bool:
        """Whether the field is neither present nor unreadable."""
        return self.value is None and self.problem is None


MISSING = Reading()


def read_field(field: str, found: Mapping[str, Any], mapped: bool = False) -> Reading:
    """Read ``field`` from ``found``, the entries of a record under its canonical name and its aliases.

    The canonical name beats aliases, unless its value is missing; aliases must agree. ``mapped``: the only entry was
    named by a column mapping.
    """
    if field in found and not mapped:
        reading = _read(field, field, found[field])
        if len(found) == 1 or not reading.empty:
            return reading
    elif len(found) == 1:
        ((name, value),) = found.items()
        return _read(field, name, value)
    names = (*ALIASES[field], *ALIASES_BY_NATURE.get(field, ()))
    return _agreed(field, {name: _read(field, name, found[name]) for name in names if name in found})


def fits(field: str, value: object) -> bool:
    """Whether ``value`` can be one of ``field``, whatever its name: texts for contexts, messages for history."""
    return messages_of(value) is not None if field == "history" else are_texts(value)


def read_by_nature(field: str, entries: Mapping[Any, Any]) -> Reading:
    """``field`` under a name of ``ALIASES_BY_NATURE``, where the value fits."""
    names = ALIASES_BY_NATURE.get(field, ())
    found = {name: entries[name] for name in names if name in entries and fits(field, entries[name])}
    return read_field(field, found) if found else MISSING


def nested_field(row: Mapping[Any, Any], field: str) -> Reading:
    """``field``, under any of its names, as ``outputs`` has it, else ``inputs``."""
    for column in ("outputs", "inputs"):
        reading = _field_in(row.get(column), field)
        if not reading.empty:
            return reading
    return MISSING


def expected_field(row: Mapping[Any, Any], field: str) -> Reading:
    """``field`` as ``expectations`` has it.

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
        return Reading(_document_uris(expectations.get("expected_retrieved_context")))
    except InvalidFieldError as error:
        return Reading(problem=f"{error} It was read from `expectations`.")


def nested_metadata(row: Mapping[Any, Any]) -> dict[str, dict[str, Any]]:
    """What MLflow's columns hold besides fields, by column: it belongs to the metadata."""
    extra = {
        column: {
            str(name): value
            for name, value in mapping_of(row.get(column)).items()
            if name not in FIELD_OF and name not in _READ_ELSEWHERE
        }
        for column in MLFLOW_COLUMNS
    }
    return {column: entries for column, entries in extra.items() if entries}


def _field_in(column: object, field: str) -> Reading:
    entries = mapping_of(column)
    present = {name: each for name, each in entries.items() if FIELD_OF.get(name) == field and not is_missing(each)}
    if field == "contexts" and {"retrieval_context", "retrievalContext"} & entries.keys():
        present.pop("context", None)
    if field == "history" and not all(fits(field, each) for each in present.values()):
        present = {}
    reading = read_field(field, present) if present else read_by_nature(field, entries)
    if reading.empty and field == "contexts":
        return Reading(tool_chunks_in(entries.get("messages")))
    return reading


def _agreed(field: str, readings: Mapping[str, Reading]) -> Reading:
    present = {name: reading for name, reading in readings.items() if not reading.empty}
    readable = {name: reading for name, reading in present.items() if reading.problem is None}
    chosen = next(iter((readable or present).items()), None)
    if chosen is None:
        return MISSING
    name, reading = chosen
    for other, another in readable.items():
        if another.value != reading.value:
            return Reading(
                problem=f"`{field}` is given as `{name}` and as `{other}` with different values; keep one of them, "
                f"or say which one counts with columns={{{field!r}: {name!r}}}."
            )
    return reading


def _read(field: str, name: str, value: object) -> Reading:
    try:
        if name != field and field == "question":
            value = question_in(value)
        elif name != field and field == "answer":
            value = answer_in(value)
        elif name != field and field == "reference":
            value = reference_in(value)
        return Reading(_value(field, value))
    except InvalidFieldError as error:
        where = "" if name == field else f" It was read from `{name}`."
        return Reading(problem=f"{error}{where}")


def _value(field: str, value: object) -> Any:
    """``value`` in the type that a sample holds."""
    if field in ("question", "answer"):
        return None if isinstance(value, (dict, list)) and not value else text_of(value, field)
    if field == "reference":
        return _references(value)
    if field == "contexts":
        return chunks_of(value)
    if field == "history":
        messages = messages_of(value)
        if messages is None and not is_missing(value):
            message = f"`history` is {kind_of(value)}, but must be a list of messages with `role` and `content`."
            raise InvalidFieldError(message, field=field)
        return messages or None
    if field == "id":
        return (text_of(value, field) or "").strip() or None
    return texts_of(value, field)


def _references(value: object) -> tuple[str, ...] | None:
    """Accepted answers: a text, or a list of texts whose blank elements are dropped. A string is always one text."""
    if isinstance(value, (list, tuple)) or (hasattr(value, "tolist") and getattr(value, "shape", ()) != ()):
        return texts_of(value, "reference") or None
    text = text_of(value, "reference")
    return None if text is None else (text,)


def _document_uris(value: object) -> tuple[str, ...] | None:
    """The ``doc_uri`` of each element of ``expected_retrieved_context`` (a mapping, or the URI itself)."""
    elements = elements_of(value, "gold_doc_ids")
    if elements is None:
        return None
    uris = [element.get("doc_uri") if isinstance(element, Mapping) else element for element in elements]
    for element, uri in zip(elements, uris, strict=True):
        if isinstance(element, Mapping) and is_missing(uri):
            raise InvalidFieldError(
                "`gold_doc_ids` cannot be read: an element of `expected_retrieved_context` has no `doc_uri`.",
                field="gold_doc_ids",
            )
    return texts_of(uris, "gold_doc_ids")
