"""Columns that no field was read from, and which of them may be the one that is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from mlflow_ragmetrics.core.score import Sample
from mlflow_ragmetrics.rows.fields import MLFLOW_COLUMNS
from mlflow_ragmetrics.rows.values import are_texts, is_missing
from mlflow_ragmetrics.text.messages import Text, say

LOOKED_AT = 100
"""How many rows say what columns there are."""
_MOST_NAMED = 12
_OURS = frozenset({*MLFLOW_COLUMNS, "trace_id", "chain_run", "seconds"})
_WORDS = ("context", "passage", "chunk", "retriev", "document", "doc", "evidence", "snippet", "source", "search", "hit")


def likely_contexts(samples: Iterable[Sample]) -> str | None:
    """The unused column that most likely holds what was retrieved: lists of texts, or texts under a telling name."""
    best, found = 1, None
    for name, values in _unused_columns(samples).items():
        if not values or not all(map(are_texts, values)):
            continue
        is_named = any(word in name.lower() for word in _WORDS)
        are_lists = not any(isinstance(value, str) and not value.lstrip().startswith("[") for value in values)
        likelihood = 1 + 2 * are_lists + 4 * is_named
        if likelihood > best:
            best, found = likelihood, name
    return found


def way_out(field: str, samples: Sequence[Sample]) -> Text:
    """What to do where no row has ``field``, as the end of a sentence: the likely column, and those that are unused."""
    unused = list(_unused_columns(samples))
    shown, more = ", ".join(unused[:_MOST_NAMED]), len(unused) - _MOST_NAMED
    there = say("way.many_unused" if more > 0 else "way.unused", names=shown, n=more) if unused else ""
    name = likely_contexts(samples) if field == "contexts" else None
    mapping = f"columns={{{field!r}: {'…' if name is None else repr(name)}}}"
    if name is None:
        return say("way.add", mapping=mapping, field=field, there=there)
    return say("way.likely", mapping=mapping, field=field, column=name, there=there)


def _unused_columns(samples: Iterable[Sample]) -> dict[str, list[Any]]:
    """The columns that no field was read from, in order, with their values in the first rows."""
    columns: dict[str, list[Any]] = {}
    for sample in islice(samples, LOOKED_AT):
        for name, value in sample.metadata.items():
            values = columns.setdefault(name, []) if name not in _OURS else []
            if not is_missing(value):
                values.append(value)
    return columns
