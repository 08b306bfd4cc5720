"""Anything that holds rows -> rows and samples, and the digest that identifies a data set."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import chain, islice
from typing import Any

from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.rows.exports import mapping_of_row, records_of_exports, rows_of_container
from mlflow_ragmetrics.rows.files import NEVER_BLANK, check_delimiter, extension_of, read_file
from mlflow_ragmetrics.rows.record import check_columns, to_sample, with_ids
from mlflow_ragmetrics.rows.trace_search import SCHEME, read_traces
from mlflow_ragmetrics.rows.traces import record_of_trace
from mlflow_ragmetrics.rows.values import is_missing

__all__ = ["digest", "Data", "read_rows", "read_samples"]

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def digest(rows: Iterable[Any]) -> str:
    """16 hex digits of SHA-256 over samples or rows, streaming.

    Every value counts, lists and nested mappings included, and so does the order of rows; the order of a mapping's
    keys does not.
    """
    total = hashlib.sha256()
    for row in rows:
        total.update(json.dumps(_plain(row), sort_keys=True).encode() + b"\n")
    return total.hexdigest()[:16]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if is_missing(value):
        return None
    if isinstance(value, float):
        return value
    return _plain_object(value)


def _plain_object(value: Any) -> Any:
    if is_dataclass(value):
        plain = {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
        if isinstance(value, Sample) and value.history is None:  # so that a digest from before it was read still holds
            del plain["history"]
        return plain
    if callable(getattr(value, "tolist", None)):
        return _plain(value.tolist())
    if isinstance(value, (set, frozenset)):
        return sorted(json.dumps(_plain(each), sort_keys=True) for each in value)
    if hasattr(value, "page_content"):
        return [value.page_content, _plain(getattr(value, "metadata", None)), getattr(value, "id", None)]
    return _ADDRESS.sub("", repr(value))


Data = Any
"""A path of a file or folder, an address of traces (``traces:/EXPERIMENT?since=24h``) or of a run's rows
(``runs:/RUN``, its id or name), a frame (pandas, Polars), an Arrow table, a data set (MLflow, Hugging Face, ragas,
deepeval), or any iterable of mappings, samples, dataclasses or pydantic models."""

RUNS = "runs:/"
_LOOK_AHEAD = 100


def read_rows(data: Data, delimiter: str | None = None) -> Iterator[Any]:
    """The rows of ``data``, streaming where the source can: each a mapping, or a ``Sample`` that was given as one.

    Exports of LangSmith, Phoenix, TruLens and OpenAI's evals become records of one answer each. ``delimiter``: what
    separates the cells of a text table, where that is not found out.

    Raises:
        InvalidDataError: where ``data`` or one of its rows is of a type that cannot be read, or a file cannot be read.
    """
    if isinstance(data, str) and data.startswith(SCHEME):
        yield from _checked_rows(read_traces(data))
    elif isinstance(data, str) and data.startswith(RUNS):
        from mlflow_ragmetrics.rows.results import results_of
        from mlflow_ragmetrics.rows.stored_rows import stored_samples

        yield from stored_samples(results_of(data.removeprefix(RUNS)))
    elif isinstance(data, (str, os.PathLike)):
        yield from records_of_exports(read_file(data, check_delimiter(delimiter)))
    else:
        yield from records_of_exports(_checked_rows(data))


def _checked_rows(data: Data) -> Iterator[Any]:
    for number, given in enumerate(_raw_rows(rows_of_container(data)), start=1):
        row = given if isinstance(given, Sample) else record_of_trace(given) or mapping_of_row(given)
        if not isinstance(row, (Mapping, Sample)) and not callable(getattr(row, "to_dict", None)):
            raise InvalidDataError(f"Row {number} is {kind_of(row)}, but must be a mapping from names to values.")
        yield row


def read_samples(
    data: Data,
    columns: Mapping[str, str] | None = None,
    *,
    remembered: int | None = None,
    delimiter: str | None = None,
) -> Iterator[Sample]:
    """The samples of ``data`` with distinct ids, streaming; ``remembered`` as in ``rows.record.with_ids``.

    ``columns`` maps canonical fields to names in the data and beats every alias; a name must occur in one of the
    first 100 rows, and a row without it misses that field.

    Raises:
        InvalidDataError: as ``read_rows``.
        InvalidFieldError: (``field="id"``) where ids are given twice.
        InvalidOptionError: (``param="columns"``) for unknown fields and names.
    """
    rows = read_rows(data, delimiter)
    if columns and isinstance(data, (str, os.PathLike)) and extension_of(data) in (".csv", ".tsv"):
        rows = map(partial(_with_blank_cells, columns=columns), rows)
    return with_ids(_mapped(rows, columns) if columns else map(to_sample, rows), remembered)


def _with_blank_cells(row: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """A row of a text table whose empty cells are missing or blank by the fields that they are mapped to."""
    blank: dict[str, str | None] = {columns[field]: None for field in NEVER_BLANK if field in columns}
    blank |= {columns["answer"]: ""} if "answer" in columns else {}
    return {**row, **{name: value for name, value in blank.items() if name in row and not row[name]}}


def _mapped(rows: Iterator[Any], columns: Mapping[str, str]) -> Iterator[Sample]:
    first = list(islice(rows, _LOOK_AHEAD))
    names = dict.fromkeys(name for row in first if not isinstance(row, Sample) for name in dict(row))
    if names:
        check_columns(columns, names)
    absent = dict.fromkeys(columns.values())
    for row in chain(first, rows):
        yield row if isinstance(row, Sample) else to_sample({**absent, **row}, columns)


def _raw_rows(data: Any) -> Iterable[Any]:
    frame = getattr(data, "df", None)
    if hasattr(frame, "itertuples"):
        data = frame
    if hasattr(data, "itertuples"):
        return _frame_rows(data)
    if callable(getattr(data, "iter_rows", None)):
        rows: Iterable[Any] = data.iter_rows(named=True)
        return rows
    if callable(getattr(data, "to_batches", None)):
        return (row for batch in data.to_batches() for row in batch.to_pylist())
    if isinstance(data, Iterable) and not isinstance(data, (Mapping, bytes, Sample)):
        return data
    raise InvalidDataError(
        f"The data is {kind_of(data)}, but must be a path, a frame, a table or an iterable of mappings "
        "(one mapping is one row: put it into a list)."
    )


def _frame_rows(frame: Any) -> Iterator[dict[Any, Any]]:
    names = list(frame.columns)
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise InvalidDataError(f"The frame has the column {repeated!r} twice; rename one of them.")
    for values in frame.itertuples(index=False, name=None):
        yield dict(zip(names, values, strict=True))
