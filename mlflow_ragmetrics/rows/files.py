"""Reads rows from files (text tables, JSON, Parquet, Arrow, Excel, TREC) and from folders.

Reads rows from JSON lines and JSON: a list, a list under a name, columns of equal length, or records by id.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.errors import InvalidDataError, MissingExtraError
from mlflow_ragmetrics.rows.aliases import accepted_name
from mlflow_ragmetrics.rows.text_files import (
    Row,
    check_header,
    lines_above_header,
    opened,
    read_delimited,
    warn_of_title,
)

_USUAL_NAMES = ("data", "testCases", "test_cases", "goldens", "results", "examples", "rows", "samples", "records")
_DEEPEST = 3


def rows_of_object(content: Any, file: str) -> list[Any]:
    """The rows of a JSON file whose content is no list.

    Read are MLflow's table (``{"columns": […], "data": [[…], …]}``), a table of columns, records by id, a single
    record, and the list of objects in an object, with a warning that names it.

    Raises:
        InvalidDataError: if there is no list of objects, or several with unusual names.
    """
    if not isinstance(content, dict):
        raise InvalidDataError(f"{file} is {kind_of(content)}, but must be a list of objects (or a .jsonl file).")
    if isinstance(content.get("columns"), list) and isinstance(content.get("data"), list):
        names = [str(name) for name in content["columns"]]
        for number, cells in enumerate(content["data"], start=1):
            if not isinstance(cells, list) or len(cells) != len(names):
                message = f"{file}, row {number}: must be a list of {len(names)} cells, one per column."
                raise InvalidDataError(message)
        return [dict(zip(names, cells, strict=True)) for cells in content["data"]]
    fields = {name: value for name, value in content.items() if accepted_name(name)}
    if any(isinstance(value, str) for value in fields.values()):
        return [content]
    if columns := rows_of_columns(content):
        return columns
    return _records_by_id(content) or _only_list(content, file)


def _records_by_id(content: Mapping[Any, Any], depth: int = 1) -> list[dict[Any, Any]]:
    """The records that an object holds by id, directly or in inner objects; ``[]`` if most entries hold none."""
    if depth > _DEEPEST or not all(isinstance(value, dict) for value in content.values()):
        return []
    inner = [
        [{"id": key, **record}] if any(map(accepted_name, record)) else _records_by_id(record, depth + 1)
        for key, record in content.items()
    ]
    left_out = [str(key) for key, records in zip(content, inner, strict=True) if not records]
    if 2 * len(left_out) >= len(content):
        return []
    if left_out:
        warnings.warn(f"entries without a field's name were left out: {', '.join(left_out[:5])}", stacklevel=2)
    return [record for records in inner for record in records]


def rows_of_columns(content: Mapping[Any, Any]) -> list[dict[Any, Any]]:
    """The rows of a table of columns: lists of equal length, or mappings from row to cell (pandas); else ``[]``."""
    columns = [*content.values()]
    are_alike = all(isinstance(column, type(columns[0])) for column in columns)
    if not any(map(accepted_name, content)) or not are_alike or _holds_objects(content):
        return []
    if isinstance(columns[0], dict) and all(column.keys() == columns[0].keys() for column in columns):
        columns = [[*column.values()] for column in columns]
    if not isinstance(columns[0], list) or len({len(column) for column in columns}) != 1:
        return []
    return [dict(zip(content, cells, strict=True)) for cells in zip(*columns, strict=True)]


def _holds_objects(content: Mapping[Any, Any]) -> bool:
    """Whether it is a single list of objects with names of fields, such as ``predictions``."""
    rows = next(iter(content.values())) if len(content) == 1 else None
    return isinstance(rows, list) and all(isinstance(row, dict) and any(map(accepted_name, row)) for row in rows)


def _only_list(content: dict[str, Any], file: str) -> list[Any]:
    lists = dict(_lists_of_objects(content))
    telling = [name for name, rows in lists.items() if any(map(accepted_name, rows[0]))]
    usual = [name for name in lists if name.rpartition(".")[2] in _USUAL_NAMES]
    only = ["data"] if "data" in lists else next((names for names in (telling, usual, [*lists]) if len(names) == 1), [])
    if not only:
        keys = ", ".join(f"`{name}`" for name in lists or list(content)[:5]) or "none"
        has_several = f"has several lists of objects ({keys}); save the one with the rows"
        problem = has_several if lists else f"is a dict, but must be a list of objects or hold one (its keys: {keys})"
        raise InvalidDataError(f"{file} {problem}.")
    if only != ["data"]:
        warnings.warn(f"the rows of {file} were read from its list {only[0]!r}", stacklevel=2)
    return lists[only[0]]


def _lists_of_objects(content: dict[str, Any], path: str = "", depth: int = 1) -> Iterator[tuple[str, list[Any]]]:
    """The lists of objects of the highest level that has one, by their path."""
    lists = {name: value for name, value in content.items() if isinstance(value, list) and value}
    lists = {name: value for name, value in lists.items() if all(isinstance(row, dict) for row in value)}
    if lists or depth == _DEEPEST:
        yield from ((f"{path}{name}", value) for name, value in lists.items())
        return
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _lists_of_objects(value, f"{path}{name}.", depth + 1)


def read_json_lines(file: Path) -> Iterator[Row]:
    """One object per line; blank lines are skipped. A file whose first line is only a part of one is read as JSON."""
    with opened(file) as stream:
        for number, line in enumerate(stream, start=1):
            if number == 1 and _PARTIAL.fullmatch(line):
                yield from read_json(file)
                return
            for row in _values(line, place := f"{file}, line {number}"):
                yield _checked(row, place)


def read_json(file: Path) -> Iterator[Row]:
    """A list of objects, an object that holds one, or several objects, one per line or one after the other."""
    with opened(file) as stream:
        rows = _values(stream.read(), str(file))
    if len(rows) == 1:
        rows = rows[0] if isinstance(rows[0], list) else rows_of_object(rows[0], str(file))
    for number, row in enumerate(rows, start=1):
        yield _checked(row, f"{file}, row {number}")


def _once(pairs: list[tuple[str, Any]]) -> Row:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        ((repeated, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise InvalidDataError(f"an object has {repeated!r} twice; keep one of them.")
    return entries


_DECODER = json.JSONDecoder(object_pairs_hook=_once)
_BETWEEN = re.compile(r"[\s,]*")
_PARTIAL = re.compile(r"\s*(?:\{|\[\s*(?:\{.*)?)\s*")
"""A line of JSON with a part of an object, or with a list of objects."""


def _values(text: str, place: str) -> list[Any]:
    """The JSON values in ``text``, which may follow each other."""
    values, end = [], len(text) - len(text.lstrip())
    try:
        while end < len(text):
            value, end = _DECODER.raw_decode(text, end)
            values.append(value)
            end = _BETWEEN.match(text, end).end()  # type: ignore[union-attr]
    except InvalidDataError as error:
        raise InvalidDataError(f"{place}: {error}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}" if "\n" in text.strip() else f"column {error.colno}"
        raise InvalidDataError(f"{place}: invalid JSON ({where}): {error.msg}.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidDataError(f"{place}: unreadable JSON: {error}.") from error
    return values


def _checked(row: Any, place: str) -> Row:
    if not isinstance(row, dict):
        raise InvalidDataError(f"{place}: a row is {kind_of(row)}, but must be an object with names and values.")
    return row


_BATCH_ROWS = 16
_PAGE_BYTES = 64 * 2**10
SUITE_SUFFIX = ".suite.json"
"""The ending of the file that describes the suite of a file of rows; both are in the same folder."""
_TREC = (".run", ".qrels", ".trec")
_DELIMITED = {".csv": ",", ".tsv": "\t", ".txt": "\t", **dict.fromkeys(_TREC, "\t")}
"""The usual delimiter of each kind of text table."""


def read_file(path: str | os.PathLike[str], delimiter: str | None = None) -> Iterator[Row]:
    """Stream the rows of a ``.tsv``, ``.csv``, ``.txt``, ``.jsonl``, ``.json`` (each also ``.gz``), ``.parquet``,
    ``.arrow`` or ``.xlsx`` file, or of a run or judgements of TREC.

    Text is UTF-8 or UTF-16, or in a detected code page, with a warning. A folder's files are read in order of their
    names. If it has ``.arrow`` files (Hugging Face's ``save_to_disk``), only those are read. ``delimiter`` separates
    the cells of a text table; by default it is detected.

    Raises:
        InvalidDataError: names the file, the line or row, and the accepted values.
    """
    file = Path(path)
    try:
        is_folder, exists = file.is_dir(), file.exists()
    except (OSError, ValueError) as error:  # too long, or has a NUL: usually the data itself
        raise InvalidDataError(f"{str(file)[:200]!a} is not the name of a file: {type(error).__name__}.") from None
    if is_folder:
        for each in _files_in(file):
            yield from read_file(each, delimiter)
        return
    if not exists:
        raise InvalidDataError(f"{file} does not exist; check the path (it is relative to {Path.cwd()}).")
    has_rows = False
    extension = extension_of(file)
    if extension is None:
        raise InvalidDataError(f"{file} has an unsupported extension; use {', '.join(_ACCEPTED)}.")
    usual = _DELIMITED.get(extension)
    for row in read_delimited(file, delimiter, usual) if usual else _READERS[extension](file):
        has_rows = True
        yield row
    if not has_rows:
        raise InvalidDataError(f"{file} has no rows: it is empty or has only a header.")


def extension_of(path: str | os.PathLike[str]) -> str | None:
    """The supported extension of the file, without ``.gz``; ``None`` if it is not supported."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes = [suffix for suffix in suffixes[:-1] if suffix not in (".parquet", ".arrow")]
    return suffixes[-1] if suffixes and suffixes[-1] in _ACCEPTED else None


def _files_in(folder: Path) -> list[Path]:
    """The files of rows in ``folder``, sorted by name; ``InvalidDataError`` if there are none."""
    named = (entry for entry in sorted(folder.iterdir()) if not entry.name.endswith(SUITE_SUFFIX))
    files = {entry: extension_of(entry) for entry in named if not entry.name.startswith(".")}
    arrow = [entry for entry, kind in files.items() if kind == ".arrow"]
    chosen = arrow or [entry for entry, kind in files.items() if kind not in (None, ".txt", *_TREC)]
    if not chosen:
        raise InvalidDataError(f"{folder} has no file of rows; supported are {', '.join(_ACCEPTED)}.")
    return chosen


def _read_columns(file: Path) -> Iterator[Row]:
    """Parquet, or Arrow's IPC format as a stream (Hugging Face) or as a file, few rows at a time."""
    import pyarrow.parquet

    try:
        with pyarrow.memory_map(str(file)) as source:
            start = source.read(6)
            source.seek(0)
            if extension_of(file) == ".parquet":
                # by default a whole row group is read first, which may be the whole file
                table = pyarrow.parquet.ParquetFile(file, buffer_size=_PAGE_BYTES, pre_buffer=False)
                batches = table.iter_batches(batch_size=_BATCH_ROWS, use_threads=False)  # threads take more memory
            elif start == b"ARROW1":
                stored = pyarrow.ipc.open_file(source)
                batches = map(stored.get_batch, range(stored.num_record_batches))
            else:
                batches = pyarrow.ipc.open_stream(source)
            for batch in batches:
                batch.validate(full=True)  # a damaged batch may end the process
                yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:  # also texts that are not UTF-8
        raise InvalidDataError(f"{file} cannot be read: {error}.") from error


def _read_excel(file: Path) -> Iterator[Row]:
    """The rows of the first sheet; a warning names the others."""
    import zipfile

    import pandas as pd

    try:
        with pd.ExcelFile(file, engine="openpyxl") as book:
            first, *others = map(str, book.sheet_names)
            frame = pd.read_excel(book, sheet_name=first, header=None, dtype=object, keep_default_na=False)
    except ImportError as error:
        message = f"{file}: Excel files need pip install 'mlflow_ragmetrics[excel]'; or save the file as CSV"
        raise MissingExtraError(message) from error
    except (zipfile.BadZipFile, OSError, KeyError, ValueError) as error:
        raise InvalidDataError(f"{file} cannot be read as an Excel workbook: {error}.") from error
    if others:
        names = ", ".join(map(repr, others))
        warnings.warn(f"{file}: only the first sheet {first!r} was read, not {names}", stacklevel=2)
    filled = [row for row in frame.to_numpy().tolist() if any(cell != "" for cell in row)]
    title = lines_above_header(filled)
    warn_of_title(file, title)
    header = [str(name) for name in filled[title]] if filled else []
    check_header(header, str(file))
    for row in filled[title + 1 :]:
        yield {name: None if cell == "" else cell for name, cell in zip(header, row, strict=True) if name}


_READERS = {
    **dict.fromkeys((".parquet", ".arrow"), _read_columns),
    ".xlsx": _read_excel,
    **dict.fromkeys((".jsonl", ".ndjson"), read_json_lines),
    ".json": read_json,
}
_ACCEPTED = (*_DELIMITED, *reversed(_READERS))
