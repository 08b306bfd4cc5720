"""Reads rows from files (text tables, JSON, Parquet, Arrow, Excel, TREC) and from folders."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from mlflow_ragmetrics.errors import InvalidDataError, MissingExtraError
from mlflow_ragmetrics.rows.json_files import read_json, read_json_lines
from mlflow_ragmetrics.rows.text_files import Row, check_header, lines_above_header, read_delimited, warn_of_title

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
