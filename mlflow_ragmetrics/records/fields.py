"""One field of a record: which of its names counts, and its value in the type that a sample holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mlflow_ragmetrics.errors import InvalidFieldError
from mlflow_ragmetrics.records.aliases import ALIASES
from mlflow_ragmetrics.records.chunks import chunks_of
from mlflow_ragmetrics.records.messages import answer_in, question_in
from mlflow_ragmetrics.records.values import elements_of, is_missing, text_of, texts_of

__all__ = ["Reading", "read_field"]


@dataclass(frozen=True)
class Reading:
    """What a record holds of one field: its value (``None``: missing), or the sentence that says why not."""

    value: Any = None
    problem: str | None = None

    @property
    def empty(self) -> bool:
        """Whether the field is neither there nor unreadable."""
        return self.value is None and self.problem is None


MISSING = Reading()


def read_field(field: str, found: Mapping[str, Any], mapped: bool = False) -> Reading:
    """Read ``field`` from ``found``, the entries of a record under its canonical name and its aliases.

    The canonical name beats aliases, unless its value is missing; aliases must agree. ``mapped``: the one entry was
    named by a column mapping.
    """
    if field in found and not mapped:
        reading = _read(field, field, found[field])
        if len(found) == 1 or not reading.empty:
            return reading
    elif len(found) == 1:
        ((name, value),) = found.items()
        return _read(field, name, value)
    return _agreed(field, {name: _read(field, name, found[name]) for name in ALIASES[field] if name in found})


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
        if type(value) is str and field in _TEXT_FIELDS:
            return Reading(_TEXT_FIELDS[field](value))
        return Reading(_READERS[field](value if name == field else _UNWRAP.get(field, _as_is)(value)))
    except InvalidFieldError as error:
        where = "" if name == field else f" It was read from `{name}`."
        return Reading(problem=f"{error}{where}")


def _as_is(value: object) -> object:
    return value


def _one_reference(text: str) -> tuple[str, ...]:
    return (text,)


def _given_id(text: str) -> str | None:
    return text.strip() or None


def _id(value: object) -> str | None:
    text = text_of(value, "id")
    return None if text is None else _given_id(text)


def _text(field: str) -> Callable[[object], str | None]:
    def read(value: object) -> str | None:
        return None if isinstance(value, (dict, list)) and not value else text_of(value, field)

    return read


def _references(value: object) -> tuple[str, ...] | None:
    """Accepted answers: a text, or a list of texts whose blank elements are dropped. A string is always one text."""
    if isinstance(value, str):
        return (value,)
    if is_missing(value):
        return None
    if isinstance(value, (list, tuple)) or (hasattr(value, "tolist") and getattr(value, "shape", ()) != ()):
        return texts_of(value, "reference") or None
    text = text_of(value, "reference")
    return None if text is None else (text,)


def _document_ids(field: str) -> Callable[[object], tuple[str, ...] | None]:
    return lambda value: texts_of(value, field)


def uris_of(value: object) -> tuple[str, ...] | None:
    """The ``doc_uri`` of each element of ``expectations["expected_retrieved_context"]`` (a mapping, or the URI itself).

    Raises:
        InvalidFieldError: where the value is no list, or an element has no ``doc_uri``.
    """
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


_TEXT_FIELDS: Mapping[str, Callable[[str], Any]] = {
    "id": _given_id,
    "question": _as_is,
    "answer": _as_is,
    "reference": _one_reference,
}
_UNWRAP: Mapping[str, Callable[[object], object]] = {"question": question_in, "answer": answer_in}
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "id": _id,
    "question": _text("question"),
    "answer": _text("answer"),
    "reference": _references,
    "contexts": chunks_of,
    "retrieved_doc_ids": _document_ids("retrieved_doc_ids"),
    "gold_doc_ids": _document_ids("gold_doc_ids"),
}
