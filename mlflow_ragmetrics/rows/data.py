"""Reads rows and samples from any data source, gives them ids and groups, and joins results with references."""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Union

from mlflow_ragmetrics.core.options import kind_of, shown
from mlflow_ragmetrics.core.safe_text import plain
from mlflow_ragmetrics.core.score import Sample
from mlflow_ragmetrics.engine.memory import Recent
from mlflow_ragmetrics.errors import InvalidDataError, InvalidFieldError, InvalidOptionError
from mlflow_ragmetrics.rows.aliases import (
    ALIASES,
    FIELD_BY_NATURE,
    FIELD_OF,
    PASSAGE_TEXT,
    QUESTION_IDS,
    accepted_name,
    with_accepted_names,
)
from mlflow_ragmetrics.rows.chat_messages import fields_of
from mlflow_ragmetrics.rows.exports import records_of_exports
from mlflow_ragmetrics.rows.files import read_file, rows_of_columns
from mlflow_ragmetrics.rows.record import check_columns, content_id, to_sample
from mlflow_ragmetrics.rows.tables import check_delimiter
from mlflow_ragmetrics.rows.trace_records import SCHEME, read_traces, record_of_trace
from mlflow_ragmetrics.rows.values import is_missing, mapping_of, text_of

if TYPE_CHECKING:
    import pandas as pd

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def digest(rows: Iterable[Any]) -> str:
    """16 hex digits of SHA-256 over samples or rows, streaming.

    The digest depends on all values, also nested ones, and on the order of rows, but not on the order of keys.
    """
    total = hashlib.sha256()
    for row in rows:
        total.update(_ADDRESS.sub("", json.dumps(plain(row), sort_keys=True)).encode() + b"\n")
    return total.hexdigest()[:16]


Data = Any
"""A file or folder path, traces (``traces:/EXPERIMENT?since=24h``), a run's rows (``runs:/RUN``, by id or name), a
frame (pandas, Polars), an Arrow table, a data set (MLflow, Hugging Face, ragas, deepeval), or any iterable of
mappings, samples, dataclasses or pydantic models."""

RUNS = "runs:/"
_LOOK_AHEAD = 100


def read_rows(data: Data, delimiter: str | None = None) -> Iterator[Any]:
    """Stream the rows of ``data`` if the source supports it. Each row is a mapping; a given ``Sample`` is unchanged.

    Exports of LangSmith, Phoenix and OpenAI's evals become one record per answer. ``delimiter`` separates
    the cells of a text table; by default it is detected.

    Raises:
        InvalidDataError: if ``data`` or a row has an unsupported type, or a file cannot be read.
    """
    if isinstance(data, str) and data.startswith(SCHEME):
        yield from _checked_rows(read_traces(data))
    elif isinstance(data, str) and data.startswith(RUNS):
        from mlflow_ragmetrics.results.results import results_of, stored_samples

        yield from stored_samples(results_of(data.removeprefix(RUNS)))
    elif isinstance(data, (str, os.PathLike)):
        yield from records_of_exports(read_file(data, check_delimiter(delimiter)))
    else:
        yield from records_of_exports(_checked_rows(data))


def _checked_rows(data: Data) -> Iterator[Any]:
    for number, entry in enumerate(_rows_in(data), start=1):
        row = entry if isinstance(entry, Sample) else record_of_trace(entry) or _mapping_of_row(entry)
        if not isinstance(row, (Mapping, Sample)) and not callable(getattr(row, "to_dict", None)):
            raise InvalidDataError(f"Row {number} is {kind_of(row)}, but must be a mapping from names to values.")
        yield row


def _mapping_of_row(row: Any) -> Any:
    """Convert a pydantic model, dataclass or named tuple to a mapping."""
    if callable(getattr(row, "model_dump", None)):
        return row.model_dump()
    return row._asdict() if callable(getattr(row, "_asdict", None)) else fields_of(row)


def read_samples(
    data: Data,
    columns: Mapping[str, str | None] | None = None,
    *,
    remembered: int | None = None,
    delimiter: str | None = None,
) -> Iterator[Sample]:
    """Stream the samples of ``data`` with unique ids; ``remembered`` as in ``with_ids``.

    ``columns`` maps canonical fields to names in the data, or to ``None`` to drop a field, and takes precedence over
    aliases. Each name must be in one of the first 100 rows. In a row without the name, the field is missing.

    Raises:
        InvalidDataError: as in ``read_rows``.
        InvalidFieldError: (``field="id"``) if an id is repeated.
        InvalidOptionError: (``param="columns"``) for unknown fields and names.
    """
    rows = read_rows(data, delimiter)
    return with_ids(_mapped(rows, columns) if columns else map(to_sample, rows), remembered)


def with_ids(samples: Iterable[Sample], remembered: int | None = None) -> Iterator[Sample]:
    """Stream the samples of one data set with unique ids: repeats of a question's id or content get ``-2``, ``-3``, ….

    ``remembered``: compare ids with this number of previous rows, to bound memory; by default with all rows.

    Raises:
        InvalidFieldError: (``field="id"``) for an unreadable or a repeated id, naming both rows (from 1).
    """
    rows = Recent[str, int](remembered)
    repeats = Recent[str, int](remembered)
    is_said = False
    for row, sample in enumerate(samples, start=1):
        if "id" in sample.invalid:
            raise InvalidFieldError(f"Row {row}: {sample.invalid['id']}", field="id")
        sample_id = unique = sample.id or content_id(sample.question, sample.references)
        if (earlier := rows.get(sample_id)) and sample_id != content_id(sample.question, sample.references):
            name = sample.read_from.get("id", "id")
            if accepted_name(name) not in QUESTION_IDS:
                ways = "give each row its own `id`, or drop the column with columns={'id': None} or --columns id="
                message = f"Rows {earlier} and {row} have the same id {sample_id!r} in {name!r}; {ways}"
                raise InvalidFieldError(message, field="id")
            if not is_said:
                is_said, shared = True, f"rows {earlier} and {row} and others share a {name!r}"
                warnings.warn(f"{shared}: it is their group, and their ids get a number", stacklevel=2)
        while rows.get(unique):
            repeats[sample_id] = (repeats.get(sample_id) or 1) + 1
            unique = f"{sample_id}-{repeats[sample_id]}"
        rows[unique] = row
        yield sample if unique == sample.id else replace(sample, id=unique)


def _mapped(rows: Iterator[Any], columns: Mapping[str, str | None]) -> Iterator[Sample]:
    first = list(islice(rows, _LOOK_AHEAD))
    names = dict.fromkeys(name for row in first if not isinstance(row, Sample) for name in dict(row))
    if names:
        columns = check_columns(columns, names)
    absent = {name: None for field, name in columns.items() if name in names and field != PASSAGE_TEXT}
    for row in chain(first, rows):
        yield to_sample(row) if isinstance(row, Sample) else to_sample({**absent, **row}, columns)


def _rows_in(data: Any) -> Iterable[Any]:
    """The rows of a frame, a table, or another library's data set."""
    if isinstance(data, Mapping) and data and all(hasattr(split, "column_names") for split in data.values()):
        names = ", ".join(map(repr, data))
        message = f"The data has several data sets ({names}); give one of them, such as data[{next(iter(data))!r}]."
        raise InvalidDataError(message)
    if callable(getattr(data, "collect", None)) and hasattr(data, "collect_schema"):  # a Polars lazy frame
        data = data.collect()
    frame = getattr(data, "df", data)
    if hasattr(frame, "itertuples"):
        return _frame_rows(frame)
    if hasattr(data, "test_cases") and hasattr(data, "goldens"):  # deepeval: cases have answers, goldens may not
        return [*data.test_cases] or [*data.goldens]
    if callable(getattr(data, "iter_rows", None)):
        rows: Iterable[Any] = data.iter_rows(named=True)
        return rows
    if hasattr(data, "to_batches") or hasattr(data, "read_next_batch"):
        batches = data.to_batches() if hasattr(data, "to_batches") else data
        return (row for batch in batches for row in batch.to_pylist())
    if isinstance(data, Mapping) and (table := rows_of_columns(data)):
        return table
    if isinstance(data, Iterable) and not isinstance(data, (Mapping, bytes, Sample)):
        return data
    raise InvalidDataError(
        f"The data is {kind_of(data)}, but must be a path, a frame, a table or an iterable of mappings "
        "(one mapping is one row: put it into a list)."
    )


def _frame_rows(frame: Any) -> Iterator[dict[Any, Any]]:
    if frame.index.name == "context.span_id":  # Phoenix calls contexts "context" or "reference"
        frame = frame.rename(columns={} if "context" in frame.columns else {"reference": "contexts"})
        frame = frame if "context.span_id" in frame.columns else frame.reset_index()
    names = list(frame.columns)
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise InvalidDataError(f"The frame has the column {repeated!r} twice; rename one of them.")
    for values in frame.itertuples(index=False, name=None):
        yield {name: _without_arrays(value) for name, value in zip(names, values, strict=True)}


def _without_arrays(value: Any) -> Any:
    """Convert NumPy arrays, which pandas reads from Parquet, to lists, also inside mappings and lists."""
    if isinstance(value, dict):
        return {name: _without_arrays(entry) for name, entry in value.items()}
    if type(value).__name__ == "ndarray" and value.ndim:
        value = value.tolist()
    return [_without_arrays(entry) for entry in value] if isinstance(value, list) else value


Groups = Union[str, Sequence[Any]]
"""A column or metadata field, or one name per row."""

Rows = Union[Sequence[Sample], "pd.DataFrame"]
"""Samples, or the table of a report."""

_NESTED = ("metadata", "inputs", "outputs", "expectations")
_FIELDS = ("id", "question", "answer", "reference")


def groups_of(rows: Rows, groups: Groups) -> list[str]:
    """The group of each row: one name per row, or the value of a field (also in ``inputs``, ``metadata`` etc.).

    A row without a value forms its own group. Raises ``InvalidOptionError`` (``param="groups"``) if no row has a value
    or the number of names differs from that of the rows.
    """
    if isinstance(groups, str):
        present = slices_of(rows, groups, param="groups")
    elif not isinstance(groups, Iterable):
        raise InvalidOptionError(f"groups={shown(groups)} is neither a column nor a name for each row", param="groups")
    else:
        names = list(groups)
        if len(names) != len(rows):
            message = f"groups has length {len(names)}, not {len(rows)}; give one name per row, or a column"
            raise InvalidOptionError(message, param="groups")
        present = _present(names, "groups", "groups", names)
    return [f"\0row {row}" if value is None else value for row, value in enumerate(present)]


def slices_of(rows: Rows, name: str, *, param: str = "by") -> list[Union[str, None]]:
    """The slice of each row: the same value as in ``groups_of``, or ``None`` if it is missing."""
    if isinstance(rows, Sequence):
        fields = [field for field in _FIELDS if any(getattr(sample, field) is not None for sample in rows)]
        return _present(
            _values(rows, name), name, param, [*fields, *(entry for sample in rows for entry in sample.metadata)]
        )
    return _present(_values(rows, name), name, param, rows.columns)


def question_id_field(samples: Sequence[Sample]) -> Union[str, None]:
    """The first of ``QUESTION_IDS`` with a value shared by several samples, or ``None``."""
    for name in QUESTION_IDS:
        values = (sample.metadata.get(name) for sample in samples)
        there = [str(value) for value in values if not is_missing(value) and str(value).strip()]
        if len(set(there)) < len(there):
            return name
    return None


def _values(rows: Rows, name: str) -> list[Any]:
    field = FIELD_OF.get(name)
    if isinstance(rows, Sequence):
        values = [_value_in(sample.metadata, name) for sample in rows]
        pairs = zip(rows, values, strict=True)
        return [getattr(row, field) if value is None and field in _FIELDS else value for row, value in pairs]
    columns = [column for column in dict.fromkeys((name, field, *_NESTED)) if column in rows.columns]
    records = rows[columns].to_dict("records") or [{}] * len(rows)  # before pandas 3, none without a column
    values = [_value_in(record, name) for record in records]
    return [record.get(field) if value is None else value for record, value in zip(records, values, strict=True)]


def _value_in(entries: Mapping[Any, Any], name: str) -> Any:
    """The entry ``name``, else the entry ``name`` in the metadata or in MLflow's columns."""
    if name in entries:
        return entries[name]
    nested = (mapping_of(entries[column]) for column in _NESTED if column in entries)
    return next((entries[name] for entries in nested if name in entries), None)


def _present(values: Sequence[Any], name: str, param: str, there: Iterable[Any]) -> list[Union[str, None]]:
    """The values as text, ``None`` if missing; the error message lists the names in ``there``."""
    texts = [None if is_missing(value) or not str(value).strip() else str(value) for value in values]
    if texts and not any(text is not None for text in texts):
        known = ", ".join(dict.fromkeys(map(str, there))) or "none"
        raise InvalidOptionError(f"{param}: no row has {shown(name)}; the rows have {known}", param=param)
    return texts


_SHOWN = 5
_ID_NAMES = ("id", *ALIASES["id"])
_OF_REFERENCES = ("question", "reference", "answer", "gold_doc_ids")


@dataclass(frozen=True)
class Joined:
    """The rows of both sources: matched rows, then results without a reference, then references without a result.

    ``warning`` lists unmatched rows and differing questions, or is ``None``.
    """

    rows: tuple[dict[str, Any], ...]
    warning: str | None = None


def join(results: Data, references: Data, on: str = "qid", *, delimiter: str | None = None) -> Joined:
    """Join ``results`` (answer, contexts, retrieved ids) with ``references`` (reference, gold ids).

    Rows match by the text of ``on``; a source without this column uses its id column. Unmatched rows are kept, with
    missing fields. The reference and gold ids come from ``references``. If the questions differ, the question from
    ``references`` is used, and the warning counts such rows. An ``answer`` in ``references`` is the reference if there
    is no other; its ``contexts`` become ``reference_contexts`` in the metadata. ``delimiter`` separates the cells of
    text tables; by default it is detected.

    Raises:
        InvalidDataError: if a source has no ids or repeats one, or the sources share no id.
    """
    by_id, known = _by_id(results, on, "results", delimiter), _by_id(references, on, "references", delimiter)
    results_only = [key for key in by_id if key not in known]
    references_only = [key for key in known if key not in by_id]
    if len(results_only) == len(by_id):
        raise InvalidDataError(
            f"The results and the references share no id (results: {_first_few(results_only)}; references: "
            f"{_first_few(references_only)}); check `on`, which is {on!r}."
        )
    matched = [key for key in by_id if key in known]
    questions = {key: (_questions(by_id[key]), _questions(known[key])) for key in matched}
    differing = [key for key, (asked, named) in questions.items() if asked and named and asked.isdisjoint(named)]
    problems = (
        (results_only, f"{len(results_only)} of {len(by_id)} results without a reference"),
        (references_only, f"{len(references_only)} of {len(known)} references without a result"),
        (differing, f"{len(differing)} of {len(matched)} rows with another question than the reference, which is used"),
    )
    warning = " ".join(f"{sentence}: {_first_few(keys)}." for keys, sentence in problems if keys)
    keys = (*matched, *results_only, *references_only)
    rows = tuple({"id": key, **_merged(by_id.get(key, {}), known.get(key, {}))} for key in keys)
    return Joined(rows, warning or None)


def _by_id(data: Data, on: str, source: str, delimiter: str | None) -> dict[str, Mapping[str, Any]]:
    rows: dict[str, Mapping[str, Any]] = {}
    for number, row in enumerate(map(with_accepted_names, read_rows(data, delimiter)), start=1):
        name = next((name for name in (on, *_ID_NAMES) if name in row), on)
        try:
            key = text_of(row.get(name), "id")
        except InvalidFieldError as error:
            raise InvalidDataError(f"Row {number} of the {source} has no usable id: {error}") from error
        if not key:
            there = ", ".join(repr(column) for column in list(row)[:20])
            raise InvalidDataError(
                f"Row {number} of the {source} has no id, or a blank one, in {name!r}; it has {there}."
            )
        if key in rows:
            raise InvalidDataError(f"Row {number} of the {source} repeats the id {key!r}; each row needs its own.")
        rows[key] = {name: value for name, value in row.items() if name != on}
    if not rows:
        raise InvalidDataError(f"The {source} have no rows.")
    return rows


def _merged(result: Mapping[str, Any], reference: Mapping[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, value in reference.items():
        field = FIELD_OF.get(name)
        if field in _OF_REFERENCES:
            if not is_missing(value):
                known.setdefault(field, value)
        elif field in ("contexts", "retrieved_doc_ids") or FIELD_BY_NATURE.get(name) == "contexts":
            others[f"reference_{field or name}"] = value
        elif field is None:
            others[name] = value
    if (answer := known.pop("answer", None)) is not None:
        known.setdefault("reference", answer)
    row = {name: value for name, value in result.items() if FIELD_OF.get(name) not in ("id", *known)}
    for name, value in others.items():
        row[name if str(row.get(name, value)) == str(value) else f"reference_{name}"] = value
    return {**row, **known}


def _questions(row: Mapping[str, Any]) -> set[str]:
    questions = [value for name, value in row.items() if FIELD_OF.get(name) == "question" and not is_missing(value)]
    return {str(question).strip() for question in questions}


def _first_few(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return ", ".join(keys[:_SHOWN]) + more
