"""What a data set is known by: a digest of all its content."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from mlflow_ragmetrics.core.coercion import is_missing

__all__ = ["digest"]

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
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if callable(getattr(value, "tolist", None)):
        return _plain(value.tolist())
    if isinstance(value, (set, frozenset)):
        return sorted(json.dumps(_plain(each), sort_keys=True) for each in value)
    if hasattr(value, "page_content"):
        return [value.page_content, _plain(getattr(value, "metadata", None)), getattr(value, "id", None)]
    return _ADDRESS.sub("", repr(value))
