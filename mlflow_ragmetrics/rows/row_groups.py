"""What tells rows apart, and which belong together: ids, fields or columns that they share, their conversations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.core.score import Sample
from mlflow_ragmetrics.errors import InvalidFieldError, InvalidOptionError
from mlflow_ragmetrics.rows.chat_messages import mapping_of
from mlflow_ragmetrics.rows.record import FIELD_OF, content_id
from mlflow_ragmetrics.rows.values import is_missing

if TYPE_CHECKING:
    import pandas as pd


SESSION = "mlflow.trace.session"
"""The metadata field in which MLflow keeps the conversation of a trace."""

SESSION_FIELDS = (SESSION, "session_id", "conversation_id", "thread_id")
"""The columns or metadata fields that name the conversation of a row, in the order in which they are looked for."""

Groups = Union[str, Sequence[Any]]
"""A column or metadata field, or one name per row."""

_NESTED = ("metadata", "inputs", "outputs", "expectations")
_FIELDS = ("id", "question", "answer", "reference")


def sample_groups(samples: Iterable[Sample], name: str) -> list[str]:
    """The group of each sample: what its metadata (``inputs`` and the like included), else its field ``name`` holds.

    A sample without a value is a group of its own. ``InvalidOptionError`` (``param="groups"``) where none has one.
    """
    return _group_names(sample_slices(list(samples), name, param="groups"))


def sample_slices(samples: Sequence[Sample], name: str, *, param: str = "by") -> list[Union[str, None]]:
    """The slice of each sample, by the value that ``sample_groups`` would read; ``None`` where it has none."""
    values = [sample_value(sample, name) for sample in samples]
    fields = [field for field in _FIELDS if any(getattr(sample, field) is not None for sample in samples)]
    return _present(values, name, param, [*fields, *(each for sample in samples for each in sample.metadata)])


def session_field(samples: Sequence[Sample]) -> Union[str, None]:
    """The first of ``SESSION_FIELDS`` that some samples share a value of; ``None`` where none is shared."""
    return _shared_field(lambda name: [sample_value(sample, name) for sample in samples])


def table_session_field(table: pd.DataFrame) -> Union[str, None]:
    """``session_field`` of the rows of a report's table."""
    return _shared_field(lambda name: _table_values(table, name))


def table_slices(table: pd.DataFrame, name: str, *, param: str = "by") -> list[Union[str, None]]:
    """The slice of each row of a report's table; ``None`` where it has none."""
    return _present(_table_values(table, name), name, param, table.columns)


def table_groups(table: pd.DataFrame, groups: Groups) -> list[str]:
    """The group of each row of a report's table, by a column or a list; as ``sample_groups`` otherwise."""
    if isinstance(groups, str):
        return _group_names(table_slices(table, groups, param="groups"))
    if not isinstance(groups, Iterable):
        raise InvalidOptionError(f"groups={shown(groups)} is neither a column nor a name for each row", param="groups")
    names = list(groups)
    if len(names) != len(table):
        message = f"groups: {len(names)} names for {len(table)} rows; give one per row, or a column"
        raise InvalidOptionError(message, param="groups")
    return _group_names(_present(names, "groups", "groups", names))


def sample_value(sample: Sample, name: str) -> Any:
    """The sample's field or metadata field ``name``; ``None`` where it has none."""
    field = FIELD_OF.get(name)
    value = _value_in(sample.metadata, name)
    return getattr(sample, field) if value is None and field in _FIELDS else value


def _table_values(table: pd.DataFrame, name: str) -> list[Any]:
    field = FIELD_OF.get(name)
    columns = [each for each in dict.fromkeys((name, field, *_NESTED)) if each in table.columns]
    records = table[columns].to_dict("records")
    values = [_value_in(record, name) for record in records]
    return [record.get(field) if value is None else value for record, value in zip(records, values, strict=True)]


def _value_in(entries: Mapping[Any, Any], name: str) -> Any:
    """The entry ``name``, or one of that name within the metadata or MLflow's columns."""
    if name in entries:
        return entries[name]
    nested = (mapping_of(entries[each]) for each in _NESTED if each in entries)
    return next((each[name] for each in nested if name in each), None)


def _group_names(present: Sequence[Union[str, None]]) -> list[str]:
    return [f"\0row {row}" if value is None else value for row, value in enumerate(present)]


def _present(values: Sequence[Any], name: str, param: str, there: Iterable[Any]) -> list[Union[str, None]]:
    """The values as text, ``None`` for those that are missing; ``there`` are the names that could have been meant."""
    found = [None if is_missing(value) or not str(value).strip() else str(value) for value in values]
    if found and not any(each is not None for each in found):
        known = ", ".join(dict.fromkeys(map(str, there))) or "none"
        raise InvalidOptionError(f"{param}: no row has {shown(name)}; there are {known}", param=param)
    return found


def _shared_field(values_of: Callable[[str], list[Any]]) -> Union[str, None]:
    for name in SESSION_FIELDS:
        there = [str(value) for value in values_of(name) if not is_missing(value) and str(value).strip()]
        if len(set(there)) < len(there):
            return name
    return None


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
