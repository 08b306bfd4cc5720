"""A record of any ecosystem -> a ``Sample``.

A record is a mapping: a row of a file or frame, a dict of another evaluation library, the row of a trace search. Its
names are canonical, aliases (``rows.aliases``) or named by a column mapping; what is nested in ``inputs``,
``outputs`` and ``expectations`` is found too. Everything that is not a field becomes metadata.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Generic, TypeVar, Union

from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.errors import InvalidDataError, InvalidFieldError, InvalidOptionError
from mlflow_ragmetrics.rows.aliases import ALIASES, ALIASES_BY_NATURE, RECORD_FIELDS
from mlflow_ragmetrics.rows.conversation import sample_from_messages
from mlflow_ragmetrics.rows.fields import (
    FIELD_OF,
    MISSING,
    MLFLOW_COLUMNS,
    Reading,
    expected_field,
    fits,
    nested_field,
    nested_metadata,
    read_by_nature,
    read_field,
)
from mlflow_ragmetrics.rows.messages import citations_in, mapping_of, messages_in, messages_of, turns_before
from mlflow_ragmetrics.rows.values import document_ids_of, is_missing, texts_of

__all__ = ["Recent", "check_columns", "content_id", "to_sample", "with_ids"]

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


_NO_COLUMNS: Mapping[str, str] = {}


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
    columns = columns or _NO_COLUMNS
    if columns:
        check_columns(columns, row)
    history = row.get("history")
    keys = tuple(row)
    names = _names_of(keys, tuple(columns.items()), is_missing(history) or fits("history", history))
    rest = {keys[place]: row[keys[place]] for place in names.others}
    readings = {
        field: read_field(field, {name: row[name] for name in found}, field in columns)
        for field, found in names.fields.items()
    }
    if "expectations" in rest and mapping_of(rest["expectations"]):
        del rest["expectations"]
    if names.nested:
        _add_nested(readings, row)
    for field in names.by_nature:
        if readings.get(field, MISSING).empty:
            reading = read_by_nature(field, rest)
            if reading is not MISSING:
                readings[field] = reading
                aliases = ALIASES_BY_NATURE[field]
                rest = {name: value for name, value in rest.items() if name not in aliases or not fits(field, value)}
    if "messages" in rest and messages_of(rest["messages"]):
        _add_conversation(readings, rest.pop("messages"))
    _add_history(readings, [row[name] for name in names.conversations])
    metadata = _metadata(rest)
    if names.nested:
        metadata.update(nested_metadata(row))
    _add_retrieved_ids(readings, metadata, row)
    _add_citations([row[name] for name in names.fields.get("answer", ())], metadata)
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


def content_id(question: str | None, reference: str | None) -> str:
    """The id of a record that has none: the first 16 hex digits of SHA-256 over question and reference."""
    return hashlib.sha256(json.dumps([question, reference]).encode()).hexdigest()[:16]


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
        unique = sample.id or _content_id_of(sample.question, sample.references)
        if earlier := rows.get(unique):
            derived = _content_id_of(sample.question, sample.references)
            if unique != derived:
                raise InvalidFieldError(
                    f"Rows {earlier} and {row} have the same id {unique!r}; give each row its own `id`, or none.",
                    field="id",
                )
            while rows.get(unique):
                repeated = (repeats.get(derived) or 1) + 1
                repeats[derived] = repeated
                unique = f"{derived}-{repeated}"
        rows[unique] = row
        yield sample if unique == sample.id else replace(sample, id=unique)


def _content_id_of(question: str | None, references: Sequence[str] | None) -> str:
    return content_id(question, None if references is None else "\n".join(references))


def _mapping(record: Any) -> Mapping[Any, Any]:
    if isinstance(record, Mapping):
        return record
    converted = record.to_dict() if callable(getattr(record, "to_dict", None)) else None
    if isinstance(converted, Mapping):
        return converted
    raise InvalidDataError(
        f"A record is {kind_of(record)}, but must be a mapping with entries such as `question`, `answer`, `contexts`."
    )


@dataclass(frozen=True)
class _Names:
    """What the names of a record say, whatever its values are.

    ``fields`` has the names of each field that is there, ``others`` the places of those that belong to no field, and
    ``conversations`` those whose values may be messages that end with the question. ``by_nature`` are the fields that
    may be among the others, ``nested`` says whether there are columns of MLflow.
    """

    fields: Mapping[str, tuple[str, ...]]
    others: tuple[int, ...]
    by_nature: tuple[str, ...]
    conversations: tuple[str, ...]
    nested: bool


@lru_cache(maxsize=256)
def _names_of(names: tuple[Any, ...], mapped: tuple[tuple[str, str], ...], is_history: bool) -> _Names:
    """What is found where in all records with these ``names``; ``is_history``: whether ``history`` may be one."""
    columns = dict(mapped)
    fields: dict[str, tuple[str, ...]] = {field: (name,) for field, name in mapped}
    others: list[int] = []
    for place, name in enumerate(names):
        field = FIELD_OF.get(name)
        if name in columns.values():
            continue
        if field is None or (field == "history" and not is_history):
            others.append(place)
        elif field not in columns:
            fields[field] = (*fields.get(field, ()), name)
    contexts = fields.get("contexts", ())
    if "context" in contexts and not {"retrieval_context", "retrievalContext"}.isdisjoint(contexts):
        fields["contexts"] = tuple(name for name in contexts if name != "context")  # deepeval's is the ideal one
        others.append(names.index("context"))
    left = [names[place] for place in others]
    by_nature = (field for field, found in ALIASES_BY_NATURE.items() if not set(found).isdisjoint(left))
    questions = (columns["question"],) if "question" in columns else ("question", *ALIASES["question"])
    return _Names(
        fields,
        tuple(others),
        tuple(field for field in by_nature if field not in columns),
        () if "history" in columns else tuple(name for name in questions if name in names),
        any(name in names for name in MLFLOW_COLUMNS),
    )


def _metadata(rest: Mapping[Any, Any]) -> dict[str, Any]:
    """The entries that are not fields; those of a ``metadata`` mapping stand beside the others."""
    nested = rest.get("metadata")
    if not isinstance(nested, Mapping):
        return {str(name): value for name, value in rest.items()}
    own = {str(name): value for name, value in rest.items() if name != "metadata"}
    return {**{str(name): value for name, value in nested.items()}, **own}


def _add_nested(readings: dict[str, Reading], row: Mapping[Any, Any]) -> None:
    """Fill fields that have no entry of their own from ``outputs``, ``inputs`` and ``expectations``."""
    for field in ("contexts", "retrieved_doc_ids", "history"):
        if readings.get(field, MISSING).empty:
            readings[field] = nested_field(row, field)
    for field in ("reference", "gold_doc_ids"):
        if readings.get(field, MISSING).empty:
            readings[field] = expected_field(row, field)


def _add_conversation(readings: dict[str, Reading], messages: Any) -> None:
    """Fill fields that have no entry of their own from an agent's messages."""
    told = sample_from_messages(messages)
    for field in ("question", "answer", "contexts", "history"):
        if readings.get(field, MISSING).empty:
            readings[field] = Reading(getattr(told, field))


def _add_history(readings: dict[str, Reading], conversations: Iterable[object]) -> None:
    """The turns before the question: of the history that was given, else of the messages that hold the question."""
    messages = readings.get("history", MISSING).value
    if messages is None:
        messages = next(filter(None, map(messages_in, conversations)), None)
    if messages:
        question, answer = (readings.get(field, MISSING).value for field in ("question", "answer"))
        readings["history"] = Reading(turns_before(messages, question, answer) or None)


def _add_retrieved_ids(readings: dict[str, Reading], metadata: Mapping[str, Any], row: Mapping[Any, Any]) -> None:
    """Without ids of their own, the retrieved ids are those of the contexts that have one, else ``doc_uri``."""
    if not readings.get("retrieved_doc_ids", MISSING).empty:
        return
    chunks = readings.get("contexts", MISSING).value
    if chunks is not None:
        ids = document_ids_of(chunks, prefer_uri="expectations" in row)
        if ids or not chunks:
            readings["retrieved_doc_ids"] = Reading(ids)
            return
    uris = metadata.get("doc_uri")
    if isinstance(uris, (str, list, tuple)):
        try:
            readings["retrieved_doc_ids"] = Reading(texts_of(uris, "retrieved_doc_ids"))
        except InvalidFieldError as error:
            readings["retrieved_doc_ids"] = Reading(problem=str(error))


def _add_citations(answers: Iterable[object], metadata: dict[str, Any]) -> None:
    """The citations that come with the answer, where the record has none of its own."""
    if "citations" not in metadata:
        for citations in filter(None, map(citations_in, answers)):
            metadata["citations"] = citations


def _sample(readings: Mapping[str, Reading], metadata: Mapping[str, Any], default_id: str | None) -> Sample:
    values = {field: reading.value for field, reading in readings.items() if reading.value is not None}
    invalid = {field: reading.problem for field, reading in readings.items() if reading.problem is not None}
    references = values.pop("reference", None)
    values["id"] = values.get("id") or default_id or _content_id_of(values.get("question"), references)
    return Sample(references=references, metadata=metadata, invalid=invalid, **values)
