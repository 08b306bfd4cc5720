"""Limits of size, so that a small file cannot expand to one that fills the memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mlflow_ragmetrics.errors import InvalidDataError

VALUE_BYTES, ELEMENT_BYTES = 64, 256
MIB = 2**20
USUAL_ROW_BYTES = 32 * 2**10
"""Rows up to this size do not count as expanded, as a file may have very many of them."""
EXPANSION = 100
"""A large file may expand beyond the limit, to at most this multiple of its size."""
_LIMITS = {"RAGMETRICS_MAX_LINE_MB": 64, "RAGMETRICS_MAX_CELL_MB": 64, "RAGMETRICS_MAX_EXPANDED_MB": 256}
"""Default limits in MiB for a line, a cell and an expanded part of a compressed file."""


def limit(name: str) -> int:
    """A limit in bytes."""
    given = os.environ.get(name, "")
    return (int(given) if given.isdecimal() else _LIMITS[name]) * MIB


def too_long(place: str, what: str, name: str) -> InvalidDataError:
    """The error for something longer than the limit ``name``."""
    most = limit(name) // MIB
    return InvalidDataError(f"{place}: {what} is longer than {most} MB; set {name} to raise the limit.")


def check_expansion(file: Path, part: str, size: int) -> None:
    """Raise ``InvalidDataError`` if one part of the file, all columns together, would fill the memory."""
    if size > most_expanded(file):
        raise too_long(str(file), part, "RAGMETRICS_MAX_EXPANDED_MB")


def most_expanded(file: Path) -> int:
    """The most bytes that the file may expand to."""
    return max(limit("RAGMETRICS_MAX_EXPANDED_MB"), EXPANSION * file.stat().st_size)


def length_of(value: Any) -> int:
    """About the bytes that a value of a row takes; an element of a list may become a passage."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(length_of, value.values()))
    if isinstance(value, list):
        return ELEMENT_BYTES * len(value) + sum(map(length_of, value))
    return 0
