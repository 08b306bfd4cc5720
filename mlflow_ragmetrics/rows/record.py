"""A record of any ecosystem -> a ``Sample``.

A record is a mapping: a row of a file or frame, a dict of another evaluation library, the row of a trace search. Its
names are canonical, aliases (``rows.aliases``) or named by a column mapping; what is nested in ``inputs``,
``outputs`` and ``expectations`` is found too. Everything that is not a field becomes metadata.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar, Union

from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.core.score import Sample
from mlflow_ragmetrics.errors import InvalidDataError, InvalidFieldError, InvalidOptionError
from mlflow_ragmetrics.rows.aliases import ALIASES_BY_NATURE, RECORD_FIELDS
from mlflow_ragmetrics.rows.fields import (
    MISSING,
    MLFLOW_COLUMNS,
    Reading,
    entries_by_field,
    fits,
    read_by_nature,
    read_field,
    read_nested,
)
from mlflow_ragmetrics.rows.messages import (
    citations_in,
    mapping_of,
    messages_in,
    messages_of,
    sample_from_messages,
    turns_before,
)
from mlflow_ragmetrics.rows.values import document_ids_of

V = TypeVar("V")


class Recent(Generic[V]):
    """Keeps at least the last ``least`` keys that were set, and at most twice as many; all of them for ``None``.

    >>> recent = Recent(2)
    >>> for number, key in enumerate("abcde"):
    ...     recent[key] = number
    >>> [recent.get(key) for key in "abcde"]
    [None, None, 2, 3, 4]
    """

    def __init__(self, least: int | None = None) -> None:
        self._least = least
        self._newer: dict[str, V] = {}
        self._older: dict[str, V] = {}

    def __setitem__(self, key: str, value: V) -> None:
        if len(self._newer) == self._least:
            self._older, self._newer = self._newer, {}
        self._newer[key] = value

    def get(self, key: str) -> Union[V, None]:
        """The value last set, or ``None``."""
        return self._newer.get(key, self._older.get(key))


_NOTHING = dict.fromkeys(RECORD_FIELDS, MISSING)


def to_sample(record: Any, columns: Mapping[str, str] | None = None, *, default_id: str | None = None) -> Sample:
    """One record as a ``Sample``.

    Args:
        record: a mapping or a pandas row; a ``Sample`` is returned as it is.
        columns: canonical field -> name in the record; beats every alias, and a name in it serves no other field.
        default_id: the id of a record without one; by default ``content_id`` of question and reference.

    A field that cannot be read does not raise: ``Sample.invalid`` holds the sentence that says why.

    Raises:
        InvalidDataError: where the record is not a mapping.
        InvalidOptionError: (``param="columns"``) for an unknown field or a name that the record does not have.
    """
    if isinstance(record, Sample):
        return record
    row = _mapping(record)
    columns = columns or {}
    if columns:
        check_columns(columns, row)
    found, rest = entries_by_field(row, columns)
    readings = {**_NOTHING, **{field: read_field(field, entries) for field, entries in found.items()}}
    nested: Mapping[str, Any] = {}
    if not row.keys().isdisjoint(MLFLOW_COLUMNS):
        inner, nested = read_nested(row)
        readings |= {field: reading for field, reading in inner.items() if readings[field].empty}
        if mapping_of(rest.get("expectations")):
            del rest["expectations"]
    for field, aliases in ALIASES_BY_NATURE.items():
        if field not in columns and readings[field].empty:
            readings[field] = read_by_nature(field, rest)
            if not readings[field].empty:
                rest = {name: value for name, value in rest.items() if name not in aliases or not fits(field, value)}
    if messages_of(rest.get("messages")):
        _add_conversation(readings, rest.pop("messages"))
    _add_history(readings, () if "history" in columns else found.get("question", {}).values())
    metadata = {**_metadata(rest), **nested}
    _add_retrieved_ids(readings, metadata, prefers_uri="expectations" in row)
    citations = [each for answer in found.get("answer", {}).values() if (each := citations_in(answer))]
    if citations and "citations" not in metadata:
        metadata["citations"] = citations[-1]
    return _sample(readings, metadata, default_id)


def check_columns(columns: Mapping[str, str], names: Iterable[str]) -> None:
    """Refuse a column mapping that names an unknown field, or an entry that is not among ``names``.

    Raises:
        InvalidOptionError: with ``param="columns"``, naming both what was given and what is accepted.
    """
    known = list(names)
    for field, name in columns.items():
        if field not in RECORD_FIELDS:
            accepted = ", ".join(RECORD_FIELDS)
            raise InvalidOptionError(
                f"`columns` names the unknown field {field!r}; fields are {accepted}.", param="columns"
            )
        if name not in known:
            there = ", ".join(repr(each) for each in known[:20]) or "none"
            raise InvalidOptionError(
                f"`columns` maps {field} to {name!r}, which is not there; the data has {there}.", param="columns"
            )


def content_id(question: str | None, references: Sequence[str] | None) -> str:
    """The id of a record that has none: the first 16 hex digits of SHA-256 over question and reference."""
    asked = [question, None if references is None else "\n".join(references)]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


def with_ids(samples: Iterable[Sample], remembered: int | None = None) -> Iterator[Sample]:
    """The samples of one data set with distinct ids, streaming: repeats of a content id get ``-2``, ``-3``, ….

    ``remembered``: ids are compared with those of at least so many previous rows, and memory is bounded; by default
    with those of all rows.

    Raises:
        InvalidFieldError: (``field="id"``) for an id given twice, naming both rows (from 1), or an unreadable one.
    """
    rows = Recent[int](remembered)
    repeats = Recent[int](remembered)
    for row, sample in enumerate(samples, start=1):
        if "id" in sample.invalid:
            raise InvalidFieldError(f"Row {row}: {sample.invalid['id']}", field="id")
        unique = sample.id or content_id(sample.question, sample.references)
        if earlier := rows.get(unique):
            derived = content_id(sample.question, sample.references)
            if unique != derived:
                message = f"Rows {earlier} and {row} have the same id {unique!r}; give each row its own `id`, or none."
                raise InvalidFieldError(message, field="id")
            while rows.get(unique):
                repeated = (repeats.get(derived) or 1) + 1
                repeats[derived] = repeated
                unique = f"{derived}-{repeated}"
        rows[unique] = row
        yield sample if unique == sample.id else replace(sample, id=unique)


def _mapping(record: Any) -> Mapping[Any, Any]:
    if isinstance(record, Mapping):
        return record
    converted = record.to_dict() if callable(getattr(record, "to_dict", None)) else None
    if isinstance(converted, Mapping):
        return converted
    raise InvalidDataError(
        f"A record is {kind_of(record)}, but must be a mapping with entries such as `question`, `answer`, `contexts`."
    )


def _metadata(rest: Mapping[Any, Any]) -> dict[str, Any]:
    """The entries that are not fields; those of a ``metadata`` mapping stand beside the others."""
    nested = rest.get("metadata")
    if isinstance(nested, Mapping):
        rest = {**nested, **{name: value for name, value in rest.items() if name != "metadata"}}
    return {str(name): value for name, value in rest.items()}


def _add_conversation(readings: dict[str, Reading], messages: Any) -> None:
    """Fill fields that have no entry of their own from an agent's messages."""
    conversation = sample_from_messages(messages)
    for field in ("question", "answer", "contexts", "history"):
        if readings[field].empty:
            readings[field] = Reading(getattr(conversation, field))


def _add_history(readings: dict[str, Reading], conversations: Iterable[object]) -> None:
    """The turns before the question: of the history that was given, else of the messages that hold the question."""
    messages = readings["history"].value
    if messages is None:
        messages = next(filter(None, map(messages_in, conversations)), None)
    if messages:
        question, answer = (readings[field].value for field in ("question", "answer"))
        readings["history"] = Reading(turns_before(messages, question, answer) or None)


def _add_retrieved_ids(readings: dict[str, Reading], metadata: Mapping[str, Any], prefers_uri: bool) -> None:
    """Without ids of their own, the retrieved ids are those of the contexts that have one, else ``doc_uri``."""
    if not readings["retrieved_doc_ids"].empty:
        return
    chunks = readings["contexts"].value
    ids = document_ids_of(chunks or (), prefer_uri=prefers_uri)
    if ids or chunks == ():
        readings["retrieved_doc_ids"] = Reading(ids)
    elif isinstance(metadata.get("doc_uri"), (str, list, tuple)):
        readings["retrieved_doc_ids"] = read_field("retrieved_doc_ids", {"doc_uri": metadata["doc_uri"]})


def _sample(readings: Mapping[str, Reading], metadata: Mapping[str, Any], default_id: str | None) -> Sample:
    values = {field: reading.value for field, reading in readings.items() if reading.value is not None}
    invalid = {field: reading.problem for field, reading in readings.items() if reading.problem is not None}
    references = values.pop("reference", None)
    values["id"] = values.get("id") or default_id or content_id(values.get("question"), references)
    return Sample(references=references, metadata=metadata, invalid=invalid, **values)
