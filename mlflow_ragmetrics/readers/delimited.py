"""CSV and TSV: every cell stays the text that it is, ``N/A``, ``None`` and the empty string included."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from mlflow_ragmetrics.errors import InvalidDataError

__all__ = ["read_delimited"]

_LARGEST_CELL = 2**31 - 1


def read_delimited(stream: TextIO, file: Path, delimiter: str) -> Iterator[dict[str, Any]]:
    """The rows under the header of a CSV or TSV file; a short row misses its last cells, blank lines are skipped.

    Raises:
        InvalidDataError: for a repeated column, a row with more cells than the header, or broken quotes.
    """
    reader = csv.reader(stream, delimiter=delimiter, strict=True)
    lines = _cells(reader, file)
    header = next(lines, None)
    if header is None:
        return
    repeated = next((name for name, count in Counter(header).items() if count > 1), None)
    if repeated is not None:
        raise InvalidDataError(f"{file} has the column {repeated!r} twice in its header; rename one of them.")
    for cells in lines:
        if len(cells) > len(header):
            raise InvalidDataError(
                f"{file}, line {reader.line_num}: {len(cells)} cells under a header of {len(header)}; "
                "quote cells that hold the delimiter."
            )
        yield dict(zip(header, cells, strict=False))


def _cells(reader: Any, file: Path) -> Iterator[list[str]]:
    """The reader's non-blank lines, with cells of any size: the module's limit is lifted only while a line is read."""
    while True:
        limit = csv.field_size_limit(_LARGEST_CELL)
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InvalidDataError(
                f"{file}, line {reader.line_num}: {error}; cells with quotes need quotes around them, doubled inside."
            ) from error
        finally:
            csv.field_size_limit(limit)
        if cells is None:
            return
        if cells:
            yield cells
