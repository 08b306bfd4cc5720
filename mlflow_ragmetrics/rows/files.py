"""Files of rows: CSV, TSV, JSON lines, JSON, Parquet and Arrow, and folders of them.

Every cell of a text table stays the text that it is.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO, Union, cast

from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.errors import InvalidDataError, MissingExtraError
from mlflow_ragmetrics.rows.aliases import ALIASES, ALIASES_BY_NATURE
from mlflow_ragmetrics.rows.text_format import delimiter_of, encoding_of

__all__ = ["NEVER_BLANK", "is_delimited", "read_file"]

Row = dict[str, Any]

_BATCH_ROWS = 1024
_BATCH_BYTES = 32 * 2**20
_PAGE_BYTES = 64 * 2**10
_MIB = 2**20
_LIMITS = {"RAGMETRICS_MAX_LINE_MB": 64, "RAGMETRICS_MAX_CELL_MB": 64, "RAGMETRICS_MAX_EXPANDED_MB": 1024}
"""How much one line, one cell, and what a compressed file holds at once may take, unless the environment says so."""
NEVER_BLANK = ("question", "reference", "contexts")
"""Fields whose empty cell in a text table says nothing; empty lists of ids are as good as ``[]``."""
_MISSING_IF_EMPTY = frozenset(
    name for each in NEVER_BLANK for name in (each, *ALIASES[each], *ALIASES_BY_NATURE.get(each, ()))
)


def read_file(path: str | os.PathLike[str], delimiter: str | None = None) -> Iterator[Row]:
    """The rows of a ``.tsv``, ``.csv``, ``.jsonl``, ``.json`` (each also ``.gz``), ``.parquet`` or ``.arrow`` file.

    Streaming. Text is UTF-8, with or without a byte order mark, else what ``text_format`` finds it to be. Of a folder
    the rows of all such files in it are read, by name; of one with ``.arrow`` files, as ``save_to_disk`` of Hugging
    Face writes them, only these. ``delimiter``: what separates the cells of a text table, where that is not found out.

    Raises:
        InvalidDataError: one sentence that names the file, the line or row and what is accepted.
        MissingExtraError: for a Parquet file without pyarrow.
    """
    file = Path(path)
    if _is_folder(file):
        for each in _files_in(file):
            yield from read_file(each, delimiter)
        return
    extension = _extension(file)
    rows = 0
    if extension in (".parquet", ".arrow"):
        read = _read_parquet(file) if extension == ".parquet" else _read_arrow(file)
    else:
        read = _read_text(file, _TEXT_READERS[extension], delimiter)
    for row in read:
        rows += 1
        yield row
    if not rows:
        raise InvalidDataError(f"{file} has no rows: it is empty or holds nothing but a header.")


def _is_folder(file: Path) -> bool:
    try:
        return file.is_dir()
    except (OSError, ValueError):
        return False


def _files_in(folder: Path) -> list[Path]:
    """The files of rows in ``folder``, by name; ``InvalidDataError`` where there is none."""
    named = {each: _named_extension([suffix.lower() for suffix in each.suffixes]) for each in sorted(folder.iterdir())}
    files = {each: kind for each, kind in named.items() if kind in _ACCEPTED and not each.name.startswith(".")}
    arrow = [each for each, kind in files.items() if kind == ".arrow"]
    if not files:
        raise InvalidDataError(f"{folder} is a folder without a file of rows; accepted are {', '.join(_ACCEPTED)}.")
    return arrow or list(files)


def is_delimited(path: str | os.PathLike[str]) -> bool:
    """Whether ``path`` is that of a text table, by its name."""
    return _named_extension([suffix.lower() for suffix in Path(path).suffixes]) in (".csv", ".tsv")


def _named_extension(suffixes: Sequence[str]) -> str:
    return suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else "".join(suffixes[-1:])


def _extension(file: Path) -> str:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    extension = _named_extension(suffixes)
    try:
        exists = file.exists()
    except (OSError, ValueError) as error:  # a name that is too long, or with a NUL: usually the data itself
        raise InvalidDataError(f"{str(file)[:200]!a} is not the name of a file: {type(error).__name__}.") from None
    if not exists:
        raise InvalidDataError(f"{file} does not exist; check the path (it is relative to {Path.cwd()}).")
    if extension not in _ACCEPTED or (extension in (".parquet", ".arrow") and suffixes[-1] == ".gz"):
        message = f"{file} has an extension that is not accepted; accepted are {', '.join(_ACCEPTED)}."
        raise InvalidDataError(message)
    return extension


def _read_parquet(file: Path) -> Iterator[Row]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(f"{file} needs pyarrow to be read: pip install pyarrow.") from error
    try:
        # page by page: by default a row group, which may be the whole file, is first read to its end
        with pyarrow.parquet.ParquetFile(file, buffer_size=_PAGE_BYTES, pre_buffer=False) as table:
            _check_expansion(file, table.metadata)
            first = next(table.iter_batches(batch_size=1, use_threads=False), None)
            size = 0 if first is None else first.nbytes
            if size > _limit("RAGMETRICS_MAX_CELL_MB") * max(1, table.metadata.num_columns):
                raise _too_long(f"{file}, row 1", "a cell", "RAGMETRICS_MAX_CELL_MB")
            # values that are stored once may stand in every row: a batch is sized by what a row takes in memory
            rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, size)))
            for batch in table.iter_batches(batch_size=rows, use_threads=False):  # each thread keeps memory of its own
                yield from batch.to_pylist()
    except InvalidDataError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:  # also texts that are not UTF-8
        raise InvalidDataError(f"{file} cannot be read as Parquet: {error}.") from error


def _read_arrow(file: Path) -> Iterator[Row]:
    """Arrow's IPC format: as a stream, as Hugging Face writes it, or as a file."""
    import pyarrow

    try:
        with pyarrow.memory_map(str(file)) as source:
            is_file = source.read(6) == b"ARROW1"
            source.seek(0)
            if is_file:
                reader = pyarrow.ipc.open_file(source)
                batches: Any = (reader.get_batch(number) for number in range(reader.num_record_batches))
            else:
                batches = pyarrow.ipc.open_stream(source)
            for batch in batches:
                for start in range(0, batch.num_rows, _BATCH_ROWS):
                    yield from batch.slice(start, _BATCH_ROWS).to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise InvalidDataError(f"{file} cannot be read as Arrow: {error}.") from error


def _check_expansion(file: Path, metadata: Any) -> None:
    """Refuse a file of which one part, read as a whole, would fill the memory."""
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if max((group.column(n).total_uncompressed_size for n in range(group.num_columns)), default=0) > _limit(
            "RAGMETRICS_MAX_EXPANDED_MB"
        ):
            raise _too_long(str(file), f"a column of its row group {number + 1}", "RAGMETRICS_MAX_EXPANDED_MB")


def _limit(name: str) -> int:
    """A limit in bytes."""
    given = os.environ.get(name, "")
    return (int(given) if given.isdecimal() else _LIMITS[name]) * _MIB


def _too_long(place: str, what: str, name: str) -> InvalidDataError:
    return InvalidDataError(
        f"{place}: {what} is longer than {_limit(name) // _MIB} MB; {name} in the environment sets it."
    )


def _bounded_lines(stream: TextIO, file: Path) -> Iterator[str]:
    """The lines of a file, none of them longer than the limit: a small file may expand to one that fills the memory."""
    longest, number = _limit("RAGMETRICS_MAX_LINE_MB"), 1
    while line := stream.readline(longest + 1):
        if len(line) > longest:
            raise _too_long(f"{file}, line {number}", "the line", "RAGMETRICS_MAX_LINE_MB")
        yield line
        number += 1


def _read_text(file: Path, read: TextReader, delimiter: str | None) -> Iterator[Row]:
    try:
        encoding = encoding_of(file)
        if isinstance(read, str):
            separator = delimiter or delimiter_of(file, read, encoding)
            read = partial(_read_delimited, delimiter=separator)
        with _open(file, encoding) as stream:
            yield from read(stream, file)
    except UnicodeDecodeError as error:
        raise InvalidDataError(f"{file} is not UTF-8 text ({error.reason}); save it as UTF-8.") from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidDataError(f"{file} cannot be read: {reason}.") from error


def _open(file: Path, encoding: str) -> TextIO:
    if file.suffix.lower() == ".gz":
        return cast(TextIO, gzip.open(file, "rt", encoding=encoding, newline=""))
    return open(file, encoding=encoding, newline="")


def _read_delimited(stream: TextIO, file: Path, delimiter: str) -> Iterator[Row]:
    """The rows under the header of a CSV or TSV file; a short row misses its last cells, blank lines are skipped.

    An empty question, reference or contexts is missing; an empty answer is what the chain answered.
    """
    reader = csv.reader(_bounded_lines(stream, file), delimiter=delimiter, strict=True)
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
                "quote cells that contain the delimiter."
            )
        row: Row = dict(zip(header, cells, strict=False))
        yield {name: None if cell == "" and name in _MISSING_IF_EMPTY else cell for name, cell in row.items()}


def _cells(reader: Any, file: Path) -> Iterator[list[str]]:
    """The reader's non-blank lines, with cells up to our limit, which is the module's only while a line is read."""
    while True:
        limit = csv.field_size_limit(_limit("RAGMETRICS_MAX_CELL_MB"))
        try:
            cells = next(reader, None)
        except csv.Error as error:
            if "field limit" in str(error):
                place = f"{file}, line {reader.line_num}"
                raise _too_long(place, "a cell", "RAGMETRICS_MAX_CELL_MB") from error
            raise InvalidDataError(
                f"{file}, line {reader.line_num}: {error}; cells with quotes need quotes around them, doubled inside."
            ) from error
        finally:
            csv.field_size_limit(limit)
        if cells is None:
            return
        if cells:
            yield cells


def _read_json_lines(stream: TextIO, file: Path) -> Iterator[Row]:
    """One object per line; blank lines are skipped."""
    for number, line in enumerate(_bounded_lines(stream, file), start=1):
        if line.strip():
            place = f"{file}, line {number}"
            yield _checked(_parsed(line, place), place)


def _read_json(stream: TextIO, file: Path) -> Iterator[Row]:
    """A list of objects, or a table as MLflow logs it: ``{"columns": […], "data": [[…], …]}``."""
    most = _limit("RAGMETRICS_MAX_EXPANDED_MB") if file.suffix.lower() == ".gz" else -1
    text = stream.read(most + 1 if most >= 0 else -1)
    if 0 <= most < len(text):
        raise _too_long(str(file), "what it expands to", "RAGMETRICS_MAX_EXPANDED_MB")
    if not text.strip():
        return
    content = _parsed(text, str(file))
    if isinstance(content, dict) and isinstance(content.get("columns"), list) and isinstance(content.get("data"), list):
        content = _table_rows(content["columns"], content["data"], file)
    if not isinstance(content, list):
        raise InvalidDataError(f"{file} holds {kind_of(content)}, but must hold a list of objects (or be .jsonl).")
    for number, row in enumerate(content, start=1):
        yield _checked(row, f"{file}, row {number}")


def _table_rows(columns: list[Any], data: list[Any], file: Path) -> list[Row]:
    names = [str(name) for name in columns]
    for number, cells in enumerate(data, start=1):
        if not isinstance(cells, list) or len(cells) != len(names):
            message = f"{file}, row {number}: it must be a list of {len(names)} cells, one per column."
            raise InvalidDataError(message)
    return [dict(zip(names, cells, strict=True)) for cells in data]


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f" (line {error.lineno}, column {error.colno})" if "\n" in text.strip() else f" (column {error.colno})"
        raise InvalidDataError(f"{place}: invalid JSON{where}: {error.msg}.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidDataError(f"{place}: JSON that cannot be read: {error}.") from error


def _checked(row: Any, place: str) -> Row:
    if not isinstance(row, dict):
        raise InvalidDataError(f"{place}: a row is {kind_of(row)}, but must be an object with names and values.")
    return row


TextReader = Union[str, Callable[[TextIO, Path], Iterator[Row]]]
"""How a text file is read; of a table, what usually separates its cells."""

_TEXT_READERS: Mapping[str, TextReader] = {
    ".tsv": "\t",
    ".csv": ",",
    ".jsonl": _read_json_lines,
    ".json": _read_json,
}
_ACCEPTED = (*_TEXT_READERS, ".parquet", ".arrow")
