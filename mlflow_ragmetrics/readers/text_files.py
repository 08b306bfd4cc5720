"""CSV, TSV, JSON lines and JSON: every cell of a table stays the text that it is."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.errors import InvalidDataError

__all__ = ["read_delimited", "read_json", "read_json_lines"]

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


def read_json_lines(stream: TextIO, file: Path) -> Iterator[dict[str, Any]]:
    """One object a line; blank lines are skipped.

    Raises:
        InvalidDataError: naming the line that is no JSON object.
    """
    for number, line in enumerate(stream, start=1):
        if line.strip():
            row = _parsed(line, f"{file}, line {number}")
            yield _checked(row, f"{file}, line {number}")


def read_json(stream: TextIO, file: Path) -> Iterator[dict[str, Any]]:
    """A list of objects, or a table as MLflow logs it: ``{"columns": […], "data": [[…], …]}``.

    Raises:
        InvalidDataError: where the file is neither, naming the row at fault.
    """
    text = stream.read()
    if not text.strip():
        return
    content = _parsed(text, str(file))
    if isinstance(content, dict) and isinstance(content.get("columns"), list) and isinstance(content.get("data"), list):
        content = [
            _table_row(content["columns"], cells, file, number) for number, cells in enumerate(content["data"], 1)
        ]
    if not isinstance(content, list):
        raise InvalidDataError(f"{file} holds {kind_of(content)}, but must hold a list of objects (or be .jsonl).")
    for number, row in enumerate(content, start=1):
        yield _checked(row, f"{file}, row {number}")


def _table_row(columns: list[Any], cells: Any, file: Path, number: int) -> dict[Any, Any]:
    if not isinstance(cells, list) or len(cells) != len(columns):
        raise InvalidDataError(f"{file}, row {number}: it must be a list of {len(columns)} cells, one a column.")
    return {str(name): cell for name, cell in zip(columns, cells, strict=True)}


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f" (line {error.lineno}, column {error.colno})" if "\n" in text.strip() else f" (column {error.colno})"
        raise InvalidDataError(f"{place}: invalid JSON{where}: {error.msg}.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidDataError(f"{place}: JSON that cannot be read: {error}.") from error


def _checked(row: Any, place: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise InvalidDataError(f"{place}: a row is {kind_of(row)}, but must be an object with names and values.")
    return row
