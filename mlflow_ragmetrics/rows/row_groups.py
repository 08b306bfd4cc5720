"""Unique ids of rows, and groups of rows by conversation, column or field."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Union

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.core.score import Sample
from mlflow_ragmetrics.engine.memory import Recent
from mlflow_ragmetrics.errors import InvalidFieldError, InvalidOptionError
from mlflow_ragmetrics.rows.aliases import FIELD_OF, QUESTION_IDS, accepted_name
from mlflow_ragmetrics.rows.record import content_id
from mlflow_ragmetrics.rows.values import is_missing, mapping_of

if TYPE_CHECKING:
    import pandas as pd


SESSION = "mlflow.trace.session"
"""MLflow's metadata field for the conversation of a trace."""

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
