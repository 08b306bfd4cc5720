"""Reads rows from CSV, TSV, JSON lines, JSON, Parquet and Arrow files, and from folders.

Cells of text tables are not converted.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import os
import struct
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, TextIO, cast

from mlflow_ragmetrics.core.options import kind_of, shown
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError

Row = dict[str, Any]

_BATCH_ROWS = 16
_BATCH_BYTES = 32 * 2**20
_PAGE_BYTES = 64 * 2**10
_VALUE_BYTES, _ELEMENT_BYTES = 64, 256
_USUAL_ROW_BYTES = 32 * 2**10
"""Rows up to this size do not count as expanded, as a file may have very many of them."""
_EXPANSION = 100
"""A large file may expand beyond the limit, to at most this multiple of its size."""
_MIB = 2**20
_LIMITS = {"RAGMETRICS_MAX_LINE_MB": 64, "RAGMETRICS_MAX_CELL_MB": 64, "RAGMETRICS_MAX_EXPANDED_MB": 256}
"""Default limits in MiB for a line, a cell and an expanded part of a compressed file."""
SUITE_SUFFIX = ".suite.json"
"""Ends the name of a file that describes the suite of the file of rows beside it."""
_ACCEPTED = (".tsv", ".csv", ".jsonl", ".json", ".parquet", ".arrow")
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_LOOK_AHEAD_LINES = 20
_LEAST_COHERENCE = 0.3
"""The minimum coherence with a language's letter frequencies for a detected encoding."""


def read_file(path: str | os.PathLike[str], delimiter: str | None = None) -> Iterator[Row]:
    """Stream the rows of a ``.tsv``, ``.csv``, ``.jsonl``, ``.json`` (each also ``.gz``), ``.parquet`` or ``.arrow``.

    Text is UTF-8 with or without a byte order mark; otherwise the encoding is detected, with a warning. A folder's
    files are read in order of their names. If it has ``.arrow`` files (Hugging Face's ``save_to_disk``), only those are
    read. ``delimiter`` separates the cells of a text table; by default it is detected.

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
    rows = expanded = 0
    most = _most_expanded(file)
    for row in _rows_of(file, delimiter):
        rows += 1
        expanded += max(0, _length(row) - _USUAL_ROW_BYTES)
        if expanded > most:
            raise _too_long(str(file), f"the text of its first {rows} rows", "RAGMETRICS_MAX_EXPANDED_MB")
        yield row
    if not rows:
        raise InvalidDataError(f"{file} has no rows: it is empty or has only a header.")


def _rows_of(file: Path, delimiter: str | None) -> Iterator[Row]:
    extension = extension_of(file)
    if extension in _READERS:
        return _READERS[extension](file)
    if extension in (".csv", ".tsv"):
        return _read_delimited(file, delimiter, "," if extension == ".csv" else "\t")
    raise InvalidDataError(f"{file} has an unsupported extension; use {', '.join(_ACCEPTED)}.")


def extension_of(path: str | os.PathLike[str]) -> str | None:
    """The supported extension of the file, without ``.gz``; ``None`` if it is not supported."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes = [each for each in suffixes[:-1] if each not in (".parquet", ".arrow")]
    return suffixes[-1] if suffixes and suffixes[-1] in _ACCEPTED else None


def check_delimiter(delimiter: str | None) -> str | None:
    """``delimiter`` as one character, ``"tab"`` and ``"\\\\t"`` included; ``InvalidOptionError`` for anything else."""
    if delimiter is None:
        return None
    found = "\t" if delimiter in ("tab", "\\t") else delimiter
    if len(found) != 1 or found in '"\r\n ' or found.isalnum():
        message = f"delimiter={shown(delimiter)} must be one character that separates cells, such as ';', or tab"
        raise InvalidOptionError(message, param="delimiter")
    return found


def _files_in(folder: Path) -> list[Path]:
    """The files of rows in ``folder``, sorted by name; ``InvalidDataError`` if there are none."""
    named = (each for each in sorted(folder.iterdir()) if not each.name.endswith(SUITE_SUFFIX))
    files = {each: extension_of(each) for each in named if not each.name.startswith(".")}
    arrow = [each for each, kind in files.items() if kind == ".arrow"]
    found = arrow or [each for each, kind in files.items() if kind]
    if not found:
        raise InvalidDataError(f"{folder} has no file of rows; supported are {', '.join(_ACCEPTED)}.")
    return found


@contextmanager
def _arrow_errors(file: Path, name: str) -> Iterator[None]:
    import pyarrow

    try:
        yield
    except InvalidDataError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:  # also texts that are not UTF-8
        raise InvalidDataError(f"{file} cannot be read as {name}: {error}.") from error


def _read_parquet(file: Path) -> Iterator[Row]:
    import pyarrow.parquet

    # page by page: by default a whole row group is read first, which may be the whole file
    options: dict[str, Any] = {"buffer_size": _PAGE_BYTES, "pre_buffer": False}
    with _arrow_errors(file, "Parquet"), pyarrow.parquet.ParquetFile(file, **options) as table:
        groups = map(table.metadata.row_group, range(table.metadata.num_row_groups))
        sizes = [group.total_byte_size for group in groups]  # ``column(n)`` of a damaged file may abort the process
        for number, size in enumerate(sizes, start=1):
            _check_expansion(file, f"its row group {number}", size)
        # a text that is stored once may be copied for each row of a batch
        rows = 1 if max(sizes, default=0) > _EXPANSION * file.stat().st_size else _BATCH_ROWS
        for batch in table.iter_batches(batch_size=rows, use_threads=False):  # each thread would use extra memory
            yield from _unpacked(batch, file)


def _read_arrow(file: Path) -> Iterator[Row]:
    """Arrow's IPC format, as a stream (Hugging Face) or as a file."""
    import pyarrow

    with _arrow_errors(file, "Arrow"), pyarrow.memory_map(str(file)) as source:
        is_file = source.read(6) == b"ARROW1"
        source.seek(8 if is_file else 0)  # a file is a prefix, a stream and a footer
        with suppress(
            pyarrow.ArrowException, OSError, struct.error
        ):  # damage is reported later, after the rows before it
            for number, message in enumerate(pyarrow.ipc.MessageReader.open_stream(source)):
                _check_expansion(file, f"its part {number + 1}", _decompressed_size(message))
        source.seek(0)
        batches: Any = pyarrow.ipc.open_file(source) if is_file else pyarrow.ipc.open_stream(source)
        if is_file:
            batches = map(batches.get_batch, range(batches.num_record_batches))
        for batch in batches:
            _check_expansion(file, "one of its batches", batch.num_rows * _VALUE_BYTES)  # empty rows take no bytes
            batch.validate(full=True)
            yield from _unpacked(batch, file)


def _unpacked(batch: Any, file: Path) -> Iterator[Row]:
    """The rows of a batch, few at a time: a value stored once may be repeated in each row."""
    size = sum(map(_unpacked_size, batch.columns))
    if size > _BATCH_BYTES and batch.num_rows > 1:
        for half in (batch.slice(0, batch.num_rows // 2), batch.slice(batch.num_rows // 2)):
            yield from _unpacked(half, file)
        return
    _check_expansion(file, "one of its rows", size)
    yield from batch.to_pylist()


def _unpacked_size(array: Any) -> int:
    """The bytes of an array's values, each counted as often as it is repeated."""
    import numpy as np
    import pyarrow
    import pyarrow.compute as pc

    kind, types = array.type, pyarrow.types
    if types.is_dictionary(kind) and not types.is_primitive(kind.value_type):
        lengths = pc.binary_length(array.dictionary.cast(pyarrow.large_binary()))
        return 8 * len(array) + (pc.sum(lengths.take(array.indices)).as_py() or 0)
    if types.is_struct(kind):
        return sum(map(_unpacked_size, array.flatten()))
    if types.is_map(kind):
        lists = (pyarrow.ListArray.from_arrays(array.offsets, each) for each in (array.keys, array.items))
        return sum(map(_unpacked_size, lists))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        values = array.flatten()
        return _ELEMENT_BYTES * len(values) + _unpacked_size(values)
    if types.is_string_view(kind) or types.is_binary_view(kind):  # 16 bytes each, first the length
        views = np.frombuffer(array.buffers()[1], np.int32)
        return int(views[4 * array.offset : 4 * (array.offset + len(array)) : 4].sum(dtype=np.int64))
    if types.is_nested(kind) or types.is_run_end_encoded(kind):
        raise pyarrow.ArrowNotImplementedError(f"values of type {kind}; save them as lists or texts")
    return int(array.nbytes)


def _check_expansion(file: Path, part: str, size: int) -> None:
    """Raise ``InvalidDataError`` if one part of the file, all columns together, would fill the memory."""
    if size > _most_expanded(file):
        raise _too_long(str(file), part, "RAGMETRICS_MAX_EXPANDED_MB")


def _most_expanded(file: Path) -> int:
    return max(_limit("RAGMETRICS_MAX_EXPANDED_MB"), _EXPANSION * file.stat().st_size)


def _length(value: Any) -> int:
    """About the bytes that a value of a row takes; an element of a list may become a passage."""
    if isinstance(value, dict):
        return sum(map(_length, value.values()))
    if isinstance(value, list):
        return _ELEMENT_BYTES * len(value) + sum(map(_length, value))
    return len(value) if isinstance(value, str) else 0


def _decompressed_size(message: Any) -> int:
    """The decompressed bytes of a message's buffers, from its metadata (Arrow's Message.fbs)."""
    data, body = bytes(message.metadata), message.body

    def number(place: int, code: str = "<I") -> int:
        return int(struct.unpack_from(code, data, place)[0])

    def field(table: int, slot: int) -> int:
        """The offset of a table's field, 0 if it is missing."""
        names = table - number(table, "<i")
        entry = 4 + 2 * slot
        start = number(names + entry, "<H") if entry < number(names, "<H") else 0
        return table + start if start else 0

    header = field(number(0), 2)
    batch = header + number(header)
    if message.type == "dictionary":
        batch = field(batch, 1) + number(field(batch, 1))
    if message.type == "schema" or not field(batch, 3):
        return 0
    buffers = field(batch, 2) + number(field(batch, 2))
    parts = [struct.unpack_from("<qq", data, buffers + 4 + 16 * each) for each in range(number(buffers))]
    return sum(int.from_bytes(body[start : start + 8], "little", signed=True) for start, length in parts if length)


def _limit(name: str) -> int:
    """A limit in bytes."""
    given = os.environ.get(name, "")
    return (int(given) if given.isdecimal() else _LIMITS[name]) * _MIB


def _too_long(place: str, what: str, name: str) -> InvalidDataError:
    most = _limit(name) // _MIB
    return InvalidDataError(f"{place}: {what} is longer than {most} MB; set {name} to raise the limit.")


@contextmanager
def _opened(file: Path) -> Iterator[TextIO]:
    """Open the file as text; raises ``InvalidDataError`` if it cannot be read or decoded."""
    try:
        encoding = _encoding_of(file)
        with _open(file, encoding) as stream:
            yield stream
    except UnicodeDecodeError as error:
        raise InvalidDataError(f"{file} is not UTF-8 text ({error.reason}); save it as UTF-8.") from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidDataError(f"{file} cannot be read: {reason}.") from error


def _open(file: Path, encoding: str) -> TextIO:
    if file.suffix.lower() == ".gz":
        return cast(TextIO, gzip.open(file, "rt", encoding=encoding, newline=""))
    return open(file, encoding=encoding, newline="")


def _encoding_of(file: Path) -> str:
    """UTF-8, UTF-16 by its mark or first character, or a detected encoding, with a warning."""
    with gzip.open(file, "rb") if file.suffix.lower() == ".gz" else open(file, "rb") as stream:
        beginning = bytes(stream.read(_MIB))
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if (zero := beginning[:2].find(0)) >= 0:  # the first character of a header or of JSON is ASCII
        return ("utf-16-be", "utf-16-le")[zero]
    try:
        codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        from charset_normalizer import from_bytes

        found = from_bytes(beginning.rpartition(b"\n")[0] or beginning).best()
        if found is not None and found.coherence >= _LEAST_COHERENCE:
            sentence = f"{file} is not UTF-8 text and was read as {found.encoding}; save it as UTF-8 if that is wrong"
            warnings.warn(sentence, stacklevel=2)
            return found.encoding
    return "utf-8-sig"


def _bounded_lines(stream: TextIO, file: Path) -> Iterator[str]:
    """The lines of a file up to the limit: a small file may expand to a line that fills the memory."""
    longest = _limit("RAGMETRICS_MAX_LINE_MB")
    for number, line in enumerate(iter(lambda: stream.readline(longest + 1), ""), start=1):
        if len(line) > longest:
            raise _too_long(f"{file}, line {number}", "the line", "RAGMETRICS_MAX_LINE_MB")
        yield line


def _read_delimited(file: Path, delimiter: str | None, usual: str) -> Iterator[Row]:
    """The rows of a CSV or TSV file with a header; a short row has missing cells, and blank lines are skipped.

    An empty cell is a missing value: a text table cannot distinguish it from a blank answer.
    """
    with _opened(file) as stream:
        if delimiter is None:
            with _open(file, str(stream.encoding)) as beginning:
                delimiter = _delimiter_of(list(islice(_bounded_lines(beginning, file), _LOOK_AHEAD_LINES)), usual, file)
        reader = csv.reader(_bounded_lines(stream, file), delimiter=delimiter, strict=True)
        lines = _cells(reader, file)
        header = next(lines, [])
        repeated = next((name for name, count in Counter(header).items() if count > 1), None)
        if repeated is not None:
            raise InvalidDataError(f"{file} has the column {repeated!r} twice in its header; rename one of them.")
        for cells in lines:
            if len(cells) > len(header):
                raise InvalidDataError(
                    f"{file}, line {reader.line_num}: {len(cells)} cells under a header of {len(header)}; "
                    "quote cells that contain the delimiter."
                )
            yield {name: cell or None for name, cell in zip(header, cells, strict=False)}


def _delimiter_of(lines: list[str], usual: str, file: Path) -> str:
    """``usual``, unless it leaves the header in one cell and another delimiter gives all rows the same width."""
    if len(next(_cells(csv.reader(lines, delimiter=usual), file), [])) != 1:
        return usual
    for delimiter, name in _DELIMITERS.items():
        widths = [len(cells) for cells in _cells(csv.reader(lines, delimiter=delimiter), file)]
        if len(lines) == _LOOK_AHEAD_LINES:  # the last cell may continue on the next line
            del widths[-1]
        if delimiter != usual and len(set(widths)) == 1 and widths[0] > 1:
            sentence = f"the cells of {file} were read as separated by {name}, not {_DELIMITERS[usual]}"
            warnings.warn(sentence, stacklevel=2)
            return delimiter
    return usual


def _cells(reader: Any, file: Path) -> Iterator[list[str]]:
    """The reader's non-blank lines. The ``csv`` module's cell limit is changed only while a line is read."""
    while True:
        limit = csv.field_size_limit(_limit("RAGMETRICS_MAX_CELL_MB"))
        try:
            cells = next(reader, None)
        except csv.Error as error:
            place = f"{file}, line {reader.line_num}"
            if "field limit" in str(error):
                raise _too_long(place, "a cell", "RAGMETRICS_MAX_CELL_MB") from error
            message = f"{place}: {error}; put quotes around a cell that contains quotes, and double those inside."
            raise InvalidDataError(message) from error
        finally:
            csv.field_size_limit(limit)
        if cells is None:
            return
        if cells:
            yield cells


def _read_json_lines(file: Path) -> Iterator[Row]:
    """One object per line; blank lines are skipped."""
    with _opened(file) as stream:
        for number, line in enumerate(_bounded_lines(stream, file), start=1):
            if line.strip():
                place = f"{file}, line {number}"
                _check_values(file, line)
                yield _checked(_parsed(line, place), place)


def _read_json(file: Path) -> Iterator[Row]:
    """A list of objects, also under ``data``, or MLflow's table: ``{"columns": […], "data": [[…], …]}``."""
    most = _limit("RAGMETRICS_MAX_EXPANDED_MB") if file.suffix.lower() == ".gz" else None
    with _opened(file) as stream:
        text = stream.read() if most is None else stream.read(most + 1)
    if most is not None and len(text) > most:
        raise _too_long(str(file), "its expanded text", "RAGMETRICS_MAX_EXPANDED_MB")
    _check_values(file, text)
    content = _parsed(text, str(file)) if text.strip() else []
    if isinstance(content, dict) and isinstance(content.get("data"), list):
        columns, content = content.get("columns"), content["data"]
        content = _table_rows(columns, content, file) if isinstance(columns, list) else content
    if not isinstance(content, list):
        raise InvalidDataError(f"{file} is {kind_of(content)}, but must be a list of objects (or a .jsonl file).")
    for number, row in enumerate(content, start=1):
        yield _checked(row, f"{file}, row {number}")


_READERS = {".parquet": _read_parquet, ".arrow": _read_arrow, ".jsonl": _read_json_lines, ".json": _read_json}


def _check_values(file: Path, text: str) -> None:
    """Raise ``InvalidDataError`` if the values of a compressed JSON text would fill the memory."""
    if file.suffix.lower() == ".gz":
        _check_expansion(file, "a part of it", _VALUE_BYTES * sum(map(text.count, "[{,")))


def _table_rows(columns: list[Any], data: list[Any], file: Path) -> list[Row]:
    names = [str(name) for name in columns]
    for number, cells in enumerate(data, start=1):
        if not isinstance(cells, list) or len(cells) != len(names):
            message = f"{file}, row {number}: must be a list of {len(names)} cells, one per column."
            raise InvalidDataError(message)
    return [dict(zip(names, cells, strict=True)) for cells in data]


def _parsed(text: str, place: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> Row:
        found = dict(pairs)
        if len(found) < len(pairs):
            ((repeated, _),) = Counter(name for name, _ in pairs).most_common(1)
            raise InvalidDataError(f"{place}: an object has {repeated!r} twice; keep one of them.")
        return found

    try:
        return json.loads(text, object_pairs_hook=once)
    except InvalidDataError:
        raise
    except json.JSONDecodeError as error:
        where = f" (line {error.lineno}, column {error.colno})" if "\n" in text.strip() else f" (column {error.colno})"
        raise InvalidDataError(f"{place}: invalid JSON{where}: {error.msg}.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidDataError(f"{place}: unreadable JSON: {error}.") from error


def _checked(row: Any, place: str) -> Row:
    if not isinstance(row, dict):
        raise InvalidDataError(f"{place}: a row is {kind_of(row)}, but must be an object with names and values.")
    return row
