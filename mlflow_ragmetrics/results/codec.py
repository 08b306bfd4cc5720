"""The one serialisable form of a scored row: JSON for the outbox, and, score by score, metadata of traces.

``record_of`` converts a ``Row`` or a ``Score`` to JSON values; ``value_of`` converts them back. A record
has only the fields that differ from their defaults.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar, Union

from pydantic import TypeAdapter

from mlflow_ragmetrics.core.safe_text import as_json, plain
from mlflow_ragmetrics.core.score import Item, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidDataError

T = TypeVar("T")


@cache
def _adapters() -> dict[type, TypeAdapter[Any]]:
    return {kind: TypeAdapter(kind) for kind in (Row, Score, Item)}


def record_of(value: Union[Row, Score]) -> dict[str, Any]:
    """The fields as JSON values, without defaults; metadata that JSON lacks, such as dates, becomes text."""
    record: dict[str, Any] = plain(_adapters()[type(value)].dump_python(value, exclude_defaults=True, warnings=False))
    return record


def value_of(kind: type[T], record: Mapping[str, Any]) -> T:
    """The row, score or item of a record; raises a ``ValueError`` for any other mapping."""
    value: T = _adapters()[kind].validate_python(record)
    return value


def row_of(record: Mapping[str, Any]) -> Row:
    """The row of a record; raises a ``ValueError`` for any other mapping."""
    return value_of(Row, record)


_PREFIX = "ragmetrics."
KEY = f"{_PREFIX}key"
"""The metadata entry with the key of a score's metric."""
_TEXTS = ("status", "reason", "judge", "error")


def metadata_of(key: str, score: Score) -> dict[str, str]:
    """The score of the metric ``key`` as metadata of an assessment: ``ragmetrics.<field>`` -> text or JSON."""
    entries = {"key": key, **record_of(score)}
    return {_PREFIX + name: each if isinstance(each, str) else as_json(each) for name, each in entries.items()}


def score_in(metadata: Mapping[str, str]) -> Score:
    """The score in the metadata of an assessment, which have a ``KEY``; ``InvalidDataError`` for another form."""
    entries = {name.removeprefix(_PREFIX): text for name, text in metadata.items() if name.startswith(_PREFIX)}
    try:
        return value_of(Score, {name: each if name in _TEXTS else _value(each) for name, each in entries.items()})
    except ValueError:
        message = f"the score of {entries['key']} on a trace was written by another version and cannot be read"
        raise InvalidDataError(f"{message}; evaluate the trace again") from None


def _value(text: str) -> Any:
    with suppress(json.JSONDecodeError):
        return json.loads(text)
    return text
