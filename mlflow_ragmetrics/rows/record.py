"""Converts a record to a ``Sample``.

A record is a mapping: a row of a file or frame, another evaluation library's dict, or a row of a trace search. Its
names are canonical, aliases (``rows.aliases``) or given by a column mapping. Values nested in ``inputs``, ``outputs``
and ``expectations`` are found too. All other entries become metadata.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple

from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.core.score import FIELDS, Sample
from mlflow_ragmetrics.errors import InvalidDataError, InvalidFieldError, InvalidOptionError
from mlflow_ragmetrics.rows.aliases import (
    ALIASES,
    FIELD_BY_NATURE,
    FIELD_OF,
    MLFLOW_COLUMNS,
    PASSAGE_TEXT,
    QUESTION_IDS,
    RECORD_FIELDS,
    accepted_name,
    folded,
    with_accepted_names,
)
from mlflow_ragmetrics.rows.chat_messages import (
    answer_in,
    citations_in,
    contexts_in,
    messages_in,
    messages_of,
    question_in,
    reference_in,
    sample_from_messages,
    thoughts_in,
    turns_before,
)
from mlflow_ragmetrics.rows.passages import are_texts, chunks_of, document_ids_of, with_text
from mlflow_ragmetrics.rows.values import (
    cell,
    decoded,
    elements_of,
    is_list,
    is_missing,
    is_not_available,
    is_printed,
    looks_structured,
    mapping_of,
    text_of,
    texts_of,
)
from mlflow_ragmetrics.text.messages import Text, say
from mlflow_ragmetrics.text.shown import shown

_ALWAYS_SAID = ("question", "answer", "reference", "contexts")
_READ_ELSEWHERE = frozenset({"messages", "choices", "content", "expected_facts", "expected_retrieved_context"})
_NESTED = {
    **dict.fromkeys(("contexts", "retrieved_doc_ids", "history"), ("outputs", "inputs")),
    **dict.fromkeys(("reference", "gold_doc_ids"), ("expectations",)),
}


class Reading(NamedTuple):
    """One field of a record: its value (``None``: missing) or why it cannot be read, its name in the record, and
    whether these are contexts in one text."""

    value: Any = None
    problem: str | None = None
    name: str | None = None
    is_text: bool = False

    @property
    def empty(self) -> bool:
        """Whether the field is neither present nor unreadable."""
        return self.value is None and self.problem is None


MISSING = Reading()


def read_field(field: str, found: Mapping[str, Any]) -> Reading:
    """Read ``field`` from ``found``, the record's entries under its canonical name and aliases.

    The canonical name takes precedence unless its value is missing. Aliases must agree.
    """
    if len(found) == 1:
        ((only, value),) = found.items()
        return _read(field, only, value)
    readings = {name: _read(field, name, value) for name, value in found.items()}
    present = {name: reading for name, reading in readings.items() if not reading.empty}
    if field in present:
        return present[field]
    readable = {name: reading for name, reading in present.items() if reading.problem is None}
    if not present:
        return MISSING
    (name, reading), *others = (readable or present).items()
    differing = next((other for other, another in others if another.value != reading.value), None)
    if differing is None:
        return reading
    texts = {column: str(present[column].value) for column in (name, differing)}
    best = min(texts, key=lambda column: len(texts[column]))  # a longer text may repeat the prompt
    return Reading(
        problem=f"`{field}` is given as `{name}` and as `{differing}` with different values; keep one of them, "
        f"or choose one with columns={{{field!r}: {best!r}}} or --columns {field}={best}."
    )


def fits(field: str, value: object) -> bool:
    """Whether ``value`` has the type of ``field``: texts for contexts, messages for history."""
    if field == "history":
        return messages_of(value) is not None
    return are_texts(value) if field == "contexts" else not is_missing(value)


def entries_by_nature(entries: Mapping[Any, Any]) -> dict[str, dict[Any, Any]]:
    """The entries with ambiguous aliases whose values fit, by field; a list of ``answers`` is of accepted answers."""
    by_field: dict[str, dict[Any, Any]] = {}
    for name in [name for name in entries if name in FIELD_BY_NATURE]:
        field, value = FIELD_BY_NATURE[name], entries[name]
        if name == "answers" and not (isinstance(value, str) and not looks_structured(value)):
            field = "reference"
        if fits(field, value):
            by_field.setdefault(field, {})[name] = value
    return by_field


def read_nested(
    row: Mapping[Any, Any], asked: Iterable[Any] = (), outputs: Iterable[Any] = ()
) -> tuple[dict[str, Reading], dict[str, Any]]:
    """The fields in MLflow's columns, and the other entries of each column, which become metadata.

    Without ``inputs`` or ``outputs``, a mapping in ``asked`` or ``outputs`` is read: a question or answer in parts.

    ``expectations`` holds the reference and the gold ids. The reference is ``expected_response`` (or an alias of
    reference), else the ``expected_facts`` joined by newlines. Gold ids are the ``doc_uri`` of each element of
    ``expected_retrieved_context``. Other fields are read from ``outputs``, else from ``inputs``.
    """
    others = {"inputs": asked, "outputs": outputs}
    mappings = {column: map(mapping_of, (row.get(column), *others.get(column, ()))) for column in MLFLOW_COLUMNS}
    columns = {column: with_accepted_names(next(filter(None, found), {})) for column, found in mappings.items()}
    inner = {column: entries_by_field(entries, {}) for column, entries in columns.items()}
    readings: dict[str, Reading] = {}
    for field, names in _NESTED.items():
        for column in names:
            if readings.get(field, MISSING).empty:
                by_field, rest = inner[column]
                reading = read_field(field, by_field.get(field) or entries_by_nature(rest).get(field, {}))
                readings[field] = reading._replace(name=f"{column}.{reading.name}" if column in row else reading.name)
            if field == "contexts" and readings[field].empty:
                turns_contexts = contexts_in(columns[column].get("messages"), answer_in(columns["outputs"]))
                readings[field] = Reading(turns_contexts, name=f"{column}.messages")
    for field, read in (("reference", _expected_facts), ("gold_doc_ids", _document_uris)):
        if readings[field].empty:
            try:
                readings[field] = Reading(read(columns["expectations"]), name="expectations")
            except InvalidFieldError as error:
                readings[field] = Reading(problem=f"{error} It was read from `expectations`.")
    extra = {
        column: {str(name): value for name, value in rest.items() if name not in _READ_ELSEWHERE}
        for column, (_, rest) in inner.items()
        if column in row
    }
    return readings, {column: entries for column, entries in extra.items() if entries}


def entry_at(row: Mapping[Any, Any], name: str) -> Any:
    """The entry ``name``, or the one at this path of names (``result.answer``); ``None`` if there is none."""
    if name in row:
        return row[name]
    outer, _, inner = name.partition(".")
    return entry_at(mapping_of(row.get(outer)), inner) if inner else None


def entries_by_field(
    row: Mapping[Any, Any], columns: Mapping[str, str | None]
) -> tuple[dict[str, dict[str, Any]], dict[Any, Any]]:
    """The entries of each field by name, and the entries that belong to no field."""
    by_field = {field: {name: entry_at(row, name)} for field, name in columns.items() if name is not None}
    taken = set(columns.values())
    rest: dict[Any, Any] = {}
    for name, value in row.items():
        if name in taken:
            continue
        field = FIELD_OF.get(name)
        is_other_history = field == "history" and not is_missing(value) and not fits(field, value)
        if field is None or is_other_history or columns.get(field, "") is None:
            rest[name] = value
        elif field in by_field:
            if field not in columns:
                by_field[field][name] = value
        else:
            by_field[field] = {name: value}
    contexts = by_field.get("contexts", {})
    if "context" in contexts and not contexts.keys().isdisjoint(("retrieval_context", "retrievalContext")):
        rest["context"] = contexts.pop("context")  # deepeval's is the ideal one
    pointers = [name for name, value in contexts.items() if not are_texts(value)] if len(contexts) > 1 else []
    if len(pointers) < len(contexts):
        rest |= {name: contexts.pop(name) for name in pointers}  # ids or titles next to the texts
    return by_field, rest


_UNWRAPPED: Mapping[str, Callable[[object], object]] = {
    "question": question_in,
    "answer": answer_in,
    "reference": reference_in,
}
"""Functions that find a field's text in the mappings and messages of chains."""


def _read(field: str, name: str, value: object) -> Reading:
    try:
        is_text = field == "contexts" and isinstance(value, str) and not looks_structured(value)
        return Reading(_value(field, _unwrapped(field, name, value)), None, name, is_text)
    except InvalidFieldError as error:
        where = "" if name == field else f" It was read from `{name}`."
        return Reading(problem=f"{error}{where}{_way_out(field, name, decoded(value))}")


def _way_out(field: str, name: str, value: object) -> str:
    """A sentence that names the mapping for an answer with several texts, or for a text inside a mapping."""
    content = value if isinstance(value, Mapping) else {}
    entries = {column: inner for column, inner in content.items() if not is_missing(inner)}
    inner = next((column for column in entries if isinstance(entries[column], str)), next(iter(entries), None))
    if field == "answer" and is_list(value):
        field, condition = "reference", "it lists accepted answers"
    elif field in _UNWRAPPED and inner is not None:
        name = f"{name}.{inner}"
        condition = f"the {field} is `{name}`"
    else:
        return ""
    return f" If {condition}, use columns={{{field!r}: {name!r}}} or --columns {field}={name}."


def _unwrapped(field: str, name: str, value: object) -> object:
    """The text in a chain's mapping or messages, in a printed object or in their JSON; other JSON stays text."""
    if field not in _UNWRAPPED or (isinstance(value, str) and not looks_structured(value)):
        return value
    structure = cell(value, field) if isinstance(value, str) and name not in MLFLOW_COLUMNS else decoded(value)
    if not isinstance(structure, (Mapping, list, tuple)) and isinstance(value, str):
        return value
    inner = _UNWRAPPED[field](structure)
    if isinstance(inner, Mapping) and not inner.keys().isdisjoint((field, *ALIASES[field])):
        return None  # the field is present, but has no value
    is_column = name in MLFLOW_COLUMNS and isinstance(structure, Mapping)
    if isinstance(value, str) and isinstance(inner, (Mapping, list)) and not (is_column or is_printed(value)):
        return inner if field == "reference" and _accepted(inner) else value
    return inner


def _value(field: str, value: object) -> Any:
    """``value`` converted to the type of the sample's field."""
    if field not in ("question", "answer", "history") and is_not_available(value):
        return None
    if field in ("question", "answer"):
        if is_list(value) and len(value) == 1 and isinstance(value[0], str):
            value = value[0]
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
        return text_of(value, field) or None
    return texts_of(value, field)


def _references(value: object) -> tuple[str, ...] | None:
    """Accepted answers without blank and repeated ones: a text, a list of texts, or mappings of SQuAD and TriviaQA."""
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        listed = decoded(value)
        are_answers = is_list(listed) and all(isinstance(entry, str) or _accepted(entry) for entry in listed)
        value = listed if are_answers or is_printed(value) else value
    if isinstance(value, Mapping):
        value = [value]
    if not is_list(value) and not getattr(value, "shape", ()):  # an array
        text = text_of(value, "reference")
        return None if text is None else (text,)
    elements = elements_of(value, "reference") or ()
    texts = [text for element in elements for text in _accepted(element) or [element]]
    return tuple(dict.fromkeys(texts_of(texts, "reference") or ())) or None


def _accepted(answers: object) -> list[Any]:
    """The answers in a mapping of SQuAD (``text``) or TriviaQA (``value``, ``aliases``); ``[]`` for anything else."""
    if not isinstance(answers, Mapping):
        return []
    names = ("value", "text", "answer", "answers", "aliases", "spans")
    entries = [answers[name] for name in names if not is_missing(answers.get(name))]
    return [text for entry in entries for text in (entry if is_list(entry) else [entry])]


def _expected_facts(expectations: Mapping[Any, Any]) -> tuple[str, ...] | None:
    facts = texts_of(expectations.get("expected_facts"), "reference")
    return ("\n".join(facts),) if facts else None


def _document_uris(expectations: Mapping[Any, Any]) -> tuple[str, ...] | None:
    """The ``doc_uri`` of each element of ``expected_retrieved_context``; an element may be the URI itself."""
    elements = elements_of(expectations.get("expected_retrieved_context"), "gold_doc_ids")
    if elements is None:
        return None
    uris = [element.get("doc_uri") if isinstance(element, Mapping) else element for element in elements]
    if any(isinstance(element, Mapping) and is_missing(uri) for element, uri in zip(elements, uris, strict=True)):
        message = "`gold_doc_ids` cannot be read: an element of `expected_retrieved_context` has no `doc_uri`."
        raise InvalidFieldError(message, field="gold_doc_ids")
    return texts_of(uris, "gold_doc_ids")


_NOTHING = dict.fromkeys(RECORD_FIELDS, MISSING)


def to_sample(record: Any, columns: Mapping[str, str | None] | None = None) -> Sample:
    """Convert a record to a ``Sample``.

    Args:
        record: a mapping or a pandas row; in a ``Sample``, only thoughts are removed from the answer.
        columns: canonical field -> name in the record; takes precedence over aliases. Each name is used for one field;
            ``None`` drops the field.

    An unreadable field does not raise: ``Sample.invalid`` holds the reason.

    Raises:
        InvalidDataError: if the record is not a mapping.
        InvalidOptionError: (``param="columns"``) for an unknown field or a name that is not in the record.
    """
    if isinstance(record, Sample):
        return _without_thoughts(record)
    columns = dict(columns or {})
    named = _mapping(record, columns.pop(PASSAGE_TEXT, None))
    if columns:
        columns = check_columns(columns, named)
    row = with_accepted_names(named, columns.values())
    by_field, rest = entries_by_field(row, columns)
    readings = {**_NOTHING, **{field: read_field(field, entries) for field, entries in by_field.items()}}
    for field in [field for field, entries in by_field.items() if len(entries) > 1]:
        rest |= _unread(by_field[field], readings[field].name)
    nested: Mapping[str, Any] = {}
    questions, outputs = _structures(by_field.get("question")), _structures(by_field.get("answer"))
    if questions or outputs or not row.keys().isdisjoint(MLFLOW_COLUMNS):
        inner, nested = read_nested(row, questions, outputs)
        readings |= {field: reading for field, reading in inner.items() if readings[field].empty}
        if mapping_of(rest.get("expectations")):
            del rest["expectations"]
    for field, entries in entries_by_nature(rest).items():
        if field not in columns and readings[field].empty:
            readings[field] = read_field(field, entries)
            rest = {name: value for name, value in rest.items() if name not in entries}
    if "messages" in rest and messages_of(rest["messages"]):
        rest |= _add_conversation(readings, rest.pop("messages"))
    if thoughts := _split_thoughts(readings, outputs):
        rest["thoughts"] = thoughts
    _add_history(readings, () if "history" in columns else questions)
    metadata = {**_metadata(rest), **nested}
    if readings["id"].name in QUESTION_IDS:
        metadata[readings["id"].name] = readings["id"].value
    _add_retrieved_ids(readings, metadata, prefers_uri="expectations" in row)
    citations = [cited for output in outputs if (cited := citations_in(output))]
    if citations and "citations" not in metadata:
        metadata["citations"] = citations[-1]
    return _sample(readings if row is named else _with_spelling(readings, named, row), metadata)


def _without_thoughts(sample: Sample) -> Sample:
    text, thoughts = shown(sample.answer or "")
    kept = {**sample.metadata, "thoughts": thoughts.strip()} if thoughts.strip() else sample.metadata
    return sample if text == (sample.answer or "") else replace(sample, answer=text, metadata=kept)


def _unread(entries: Mapping[str, Any], read: str | None) -> dict[str, Any]:
    """The entries of a field that was read from the one named ``read``, if their values are others."""
    read_value = str(entries.get(read or ""))
    others = {name: value for name, value in entries.items() if name != read and not is_missing(value)}
    return {name: value for name, value in others.items() if read and str(value) != read_value}


def _structures(entries: Mapping[str, Any] | None) -> list[Any]:
    """The values that are not plain texts."""
    return [entry for entry in (entries or {}).values() if not isinstance(entry, str) or looks_structured(entry)]


def _with_spelling(
    readings: Mapping[str, Reading], named: Mapping[Any, Any], row: Mapping[Any, Any]
) -> dict[str, Reading]:
    """``readings`` with the names of columns as ``named`` spells them."""
    spelled = {accepted_name(name): name for name in named if name not in row}
    return {field: each._replace(name=spelled.get(each.name, each.name)) for field, each in readings.items()}


def check_columns(columns: Mapping[str, str | None], names: Iterable[str]) -> dict[str, str | None]:
    """``columns`` with the names as they are spelled in ``names``; a name of ``None`` drops the field.

    Raises:
        InvalidOptionError: with ``param="columns"``, naming the invalid and the accepted values.
    """
    known, spelled = list(names), dict(columns)
    accepted = (*RECORD_FIELDS, PASSAGE_TEXT)
    for field, name in columns.items():
        if field not in accepted:
            message = f"`columns` names the unknown field {field!r}; fields are {', '.join(accepted)}."
            raise InvalidOptionError(message, param="columns")
        if name is None or field == PASSAGE_TEXT or name in known or str(name).partition(".")[0] in known:
            continue
        alike = [other for other in known if folded(str(other)) == folded(str(name))]
        if len(alike) != 1:
            there = ", ".join(repr(column) for column in known[:20]) or "none"
            message = f"`columns` maps {field} to {name!r}, which the data lacks; the data has {there}."
            raise InvalidOptionError(message, param="columns")
        spelled[field] = alike[0]
    return spelled


def content_id(question: str | None, references: Sequence[str] | None) -> str:
    """The default id of a record: the first 16 hex digits of SHA-256 over question and reference."""
    identifying = [question, None if references is None else "\n".join(references)]
    return hashlib.sha256(json.dumps(identifying).encode()).hexdigest()[:16]


def shown_id(sample: Sample, index: int) -> str:
    """The id of a row to show to people: ``row 4`` if its id is only a digest; ``index`` is its place from 0."""
    return f"row {index + 1}" if sample.id.startswith(content_id(sample.question, sample.references)) else sample.id


def _mapping(record: Any, text_name: str | None) -> Mapping[Any, Any]:
    if not isinstance(record, Mapping) and callable(getattr(record, "to_dict", None)):
        record = record.to_dict()
    if isinstance(record, Mapping):
        return {name: with_text(entry, text_name) for name, entry in record.items()} if text_name else record
    raise InvalidDataError(
        f"A record is {kind_of(record)}, but must be a mapping with entries such as `question`, `answer`, `contexts`."
    )


def _metadata(rest: Mapping[Any, Any]) -> dict[str, Any]:
    """The entries that are not fields, merged with those of a ``metadata`` mapping."""
    nested = mapping_of(rest.get("metadata"))
    kept = {name: value for name, value in rest.items() if name != "metadata" or not nested}
    return {str(name): value for name, value in {**nested, **kept}.items()}


def _split_thoughts(readings: dict[str, Reading], answers: Iterable[object]) -> str:
    """Remove a reasoning model's thoughts from the answer; returns them, ``""`` if it has none."""
    answer = readings["answer"].value
    if answer is None:
        return ""
    text, thoughts = shown(answer)
    if text is not answer:
        readings["answer"] = readings["answer"]._replace(value=text)
    return thoughts.strip() or next(filter(None, map(thoughts_in, answers)), "").strip()


def _add_conversation(readings: dict[str, Reading], messages: Any) -> Mapping[str, Any]:
    """Fill missing fields from an agent's messages; returns the metadata of the conversation."""
    conversation = sample_from_messages(messages)
    for field in ("question", "answer", "contexts", "history"):
        if readings[field].empty:
            readings[field] = Reading(getattr(conversation, field))
    return conversation.metadata


def _add_history(readings: dict[str, Reading], conversations: Iterable[object]) -> None:
    """Set the history to the turns before the question, from the given history or the question's messages."""
    messages = readings["history"].value
    if messages is None:
        messages = next(filter(None, map(messages_in, conversations)), None)
    if messages:
        question, answer = (readings[field].value for field in ("question", "answer"))
        readings["history"] = Reading(turns_before(messages, question, answer) or None)


def _add_retrieved_ids(readings: dict[str, Reading], metadata: Mapping[str, Any], prefers_uri: bool) -> None:
    """Fill missing retrieved ids from the ids of the contexts, else from ``doc_uri``."""
    if not readings["retrieved_doc_ids"].empty:
        return
    chunks = readings["contexts"].value
    ids = document_ids_of(chunks or (), prefer_uri=prefers_uri)
    if ids or chunks == ():
        readings["retrieved_doc_ids"] = Reading(ids)
    elif isinstance(metadata.get("doc_uri"), (str, list, tuple)):
        readings["retrieved_doc_ids"] = read_field("retrieved_doc_ids", {"doc_uri": metadata["doc_uri"]})


def _sample(readings: Mapping[str, Reading], metadata: Mapping[str, Any]) -> Sample:
    present = {field: reading for field, reading in readings.items() if reading.value is not None}
    values = {field: reading.value for field, reading in present.items()}
    names = {field: each.name for field, each in present.items() if each.name is not None and each.name != field}
    if readings["contexts"].is_text:
        names[PASSAGE_TEXT] = "contexts"
    invalid = {field: reading.problem for field, reading in readings.items() if reading.problem is not None}
    references = values.pop("reference", None)
    values["id"] = values.get("id") or content_id(values.get("question"), references)
    return Sample(references=references, metadata=metadata, invalid=invalid, read_from=names, **values)


def reading_line(samples: Sequence[Sample]) -> Text | None:
    """The column that each field was read from, such as ``answer ← output``; ``None`` if no alias was used."""
    if all(sample.read_from.keys() <= {PASSAGE_TEXT} for sample in samples):
        return None
    parts = []
    for field in FIELDS:
        present = [sample for sample in samples if getattr(sample, field) is not None]
        names = dict.fromkeys(sample.read_from.get(field, field) for sample in present)
        if present:
            parts.append(field if [*names] == [field] else f"{field} ← {' / '.join(names)}")
        elif field in _ALWAYS_SAID:
            parts.append(f"{field}: none")
        if present and field == "contexts":
            parts[-1] += f" ({fmean(len(sample.contexts or ()) for sample in present):.3g} per row)"
    return say("read.line", parts=", ".join(parts))
