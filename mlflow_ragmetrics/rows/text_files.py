"""Reads the rows of CSV, TSV, JSON lines and JSON files in any encoding. Cells are not converted."""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, TextIO, cast

from mlflow_ragmetrics.core.options import kind_of, shown
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.rows.aliases import accepted_name
from mlflow_ragmetrics.rows.encodings import code_page_of
from mlflow_ragmetrics.rows.json_objects import rows_of_object
from mlflow_ragmetrics.rows.limits import MIB, VALUE_BYTES, check_expansion, limit, too_long
from mlflow_ragmetrics.rows.trec import are_trec_lines, read_trec

Row = dict[str, Any]

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_LOOK_AHEAD_LINES = 20
_MOST_TITLE_LINES = 5
_SEPARATOR_LINE = re.compile(r"\s*\"?sep=(?P<delimiter>.)\"?\s*", re.IGNORECASE)
"""The first line in which Excel names the delimiter."""
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def check_delimiter(delimiter: str | None) -> str | None:
    """``delimiter`` as one character, ``"tab"`` and ``"\\\\t"`` included; ``InvalidOptionError`` for anything else."""
    if delimiter is None:
        return None
    character = "\t" if delimiter in ("tab", "\\t") else delimiter
    if len(character) != 1 or character in '"\r\n ' or character.isalnum():
        message = f"delimiter={shown(delimiter)} must be one character that separates cells, such as ';', or tab"
        raise InvalidOptionError(message, param="delimiter")
    return character


@contextmanager
def _opened(file: Path) -> Iterator[TextIO]:
    """Open the file as text; raises ``InvalidDataError`` if it cannot be read or decoded."""
    try:
        with _open(file, _encoding_of(file)) as stream:
            yield stream
    except UnicodeDecodeError as error:
        message = f"{file} is not UTF-8 text, and no other encoding is clear; save the file as UTF-8."
        raise InvalidDataError(message) from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidDataError(f"{file} cannot be read: {reason}.") from error


def _open(file: Path, encoding: str) -> TextIO:
    if file.suffix.lower() == ".gz":
        return cast(TextIO, gzip.open(file, "rt", encoding=encoding, newline=""))
    return open(file, encoding=encoding, newline="")


def _encoding_of(file: Path) -> str:
    """UTF-8, UTF-16 by its mark or first character, or a detected code page, with a warning."""
    with gzip.open(file, "rb") if file.suffix.lower() == ".gz" else open(file, "rb") as stream:
        beginning = bytes(stream.read(MIB))
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if (zero := beginning[:2].find(0)) >= 0:  # the first character of a header or of JSON is ASCII
        return ("utf-16-be", "utf-16-le")[zero]
    try:
        codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        page = code_page_of(beginning.rpartition(b"\n")[0] or beginning)
        if page is not None:
            sentence = f"{file} is not UTF-8 text and was read as {page}; save it as UTF-8 if that is wrong"
            warnings.warn(sentence, stacklevel=2)
            return page
    return "utf-8-sig"


def _bounded_lines(stream: TextIO, file: Path) -> Iterator[str]:
    """The lines of a file up to the limit: a small file may expand to a line that fills the memory."""
    longest = limit("RAGMETRICS_MAX_LINE_MB")
    for number, line in enumerate(iter(lambda: stream.readline(longest + 1), ""), start=1):
        if len(line) > longest:
            raise too_long(f"{file}, line {number}", "the line", "RAGMETRICS_MAX_LINE_MB")
        yield line


def read_delimited(file: Path, delimiter: str | None, usual: str) -> Iterator[Row]:
    """The rows of a CSV or TSV file with a header, or of a TREC file.

    A short row has missing cells, and blank lines are skipped. An empty cell is a missing value: a text table cannot
    distinguish it from a blank answer.
    """
    with _opened(file) as stream:
        with _open(file, str(stream.encoding)) as beginning:
            first_lines = list(islice(_bounded_lines(beginning, file), _LOOK_AHEAD_LINES))
        if are_trec_lines(first_lines):
            yield from read_trec(_bounded_lines(stream, file), str(file))
            return
        skipped, delimiter = _layout(first_lines, delimiter, usual, file)
        lines: Iterator[str] = islice(_bounded_lines(stream, file), skipped, None)
        if delimiter == "\t" and _has_lone_quotes(file, str(stream.encoding), skipped):
            lines = map(_with_quotes, lines)
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        rows = _cells(reader, file, skipped)
        header = next(rows, [])
        check_header(header, str(file))
        for cells in rows:
            if len(cells) > len(header) and any(cells[len(header) :]):
                raise InvalidDataError(
                    f"{file}, line {reader.line_num + skipped}: {len(cells)} cells under a header of {len(header)}; "
                    "quote cells that contain the delimiter."
                )
            yield {name: cell or None for name, cell in zip(header, cells, strict=False) if name}


def check_header(names: list[Any], file: str) -> None:
    """Raise ``InvalidDataError`` if a column occurs twice."""
    repeated = next((name for name, count in Counter(names).items() if count > 1 and name), None)
    if repeated is not None:
        raise InvalidDataError(f"{file} has the column {repeated!r} twice in its header; rename one of them.")


def lines_above_header(rows: Iterable[list[Any]]) -> int:
    """The number of title lines above a header; 0 if the first line is the header or no header is found."""
    for place, cells in enumerate(islice(rows, _MOST_TITLE_LINES)):
        filled = [cell for cell in cells if cell]
        if len(filled) > 1:
            return place if any(accepted_name(cell) for cell in filled) else 0
    return 0


def warn_of_title(file: Path, lines: int) -> None:
    """Say that the lines above the header were skipped."""
    if lines:
        place = "the first line" if lines == 1 else f"the first {lines} lines"
        warnings.warn(f"{place} of {file} is above the header and was skipped", stacklevel=2)


def _layout(lines: list[str], delimiter: str | None, usual: str, file: Path) -> tuple[int, str]:
    """The number of lines above the header, and the delimiter: given, named by Excel, or detected."""
    if lines and (separator := _SEPARATOR_LINE.fullmatch(lines[0])):
        return 1, delimiter or separator["delimiter"]
    for candidate in [delimiter] if delimiter else dict.fromkeys((usual, *_DELIMITERS)):
        if title := lines_above_header([cell.strip(' "\r\n') for cell in line.split(candidate)] for line in lines):
            warn_of_title(file, title)
            return title, candidate
    return 0, delimiter or _delimiter_of(lines, usual, file)


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


def _has_lone_quotes(file: Path, encoding: str, skipped: int) -> bool:
    """Whether a table without quoting has cells that begin with a quote mark.

    Without quoting, each line has as many tabs as the header. Otherwise a quoted cell may contain tabs and line ends.
    """
    with _open(file, encoding) as stream:
        lines = islice(_bounded_lines(stream, file), skipped, None)
        header = next(lines, "")
        has_lone = False
        for line in lines if header[:1] != '"' else ():
            if line.count("\t") != header.count("\t") and ('"' in line or line.count("\t") > header.count("\t")):
                return False
            has_lone = has_lone or ('"' in line and _with_quotes(line) != line)
    return has_lone


def _with_quotes(line: str) -> str:
    """A line of a table without quoting, with quotes around the cells that begin with a lone quote mark."""
    if '"' not in line:
        return line
    text = line.rstrip("\r\n")
    cells = [
        f'"{cell.replace(chr(34), chr(34) * 2)}"' if cell[:1] == '"' and not _QUOTED.fullmatch(cell) else cell
        for cell in text.split("\t")
    ]
    return "\t".join(cells) + line[len(text) :]


def _cells(reader: Any, file: Path, skipped: int = 0) -> Iterator[list[str]]:
    """The reader's non-blank lines. The ``csv`` module's cell limit is changed only while a line is read."""
    longest = limit("RAGMETRICS_MAX_CELL_MB")
    while True:
        usual_limit = csv.field_size_limit(longest)
        try:
            cells = next(reader, None)
        except csv.Error as error:
            place = f"{file}, line {reader.line_num + skipped}"
            if "field limit" in str(error):
                raise too_long(place, "a cell", "RAGMETRICS_MAX_CELL_MB") from error
            reason = str(error).replace("\t", "tab")
            message = f"{place}: {reason}; put quotes around a cell that contains quotes, and double those inside."
            raise InvalidDataError(message) from error
        finally:
            csv.field_size_limit(usual_limit)
        if cells is None:
            return
        if cells:
            yield cells


def read_json_lines(file: Path) -> Iterator[Row]:
    """One object per line; blank lines are skipped. A file whose first line is only a part of one is read as JSON."""
    with _opened(file) as stream:
        for number, line in enumerate(_bounded_lines(stream, file), start=1):
            if number == 1 and _PARTIAL.fullmatch(line):
                yield from read_json(file)
                return
            if line.strip():
                place = f"{file}, line {number}"
                _check_values(file, line)
                yield _checked(_parsed(line, place), place)


def read_json(file: Path) -> Iterator[Row]:
    """A list of objects, an object that holds one, or several objects, one per line or one after the other."""
    most = limit("RAGMETRICS_MAX_EXPANDED_MB") if file.suffix.lower() == ".gz" else None
    with _opened(file) as stream:
        text = stream.read() if most is None else stream.read(most + 1)
    if most is not None and len(text) > most:
        raise too_long(str(file), "its expanded text", "RAGMETRICS_MAX_EXPANDED_MB")
    _check_values(file, text)
    if _has_one_object_a_line(text):
        yield from read_json_lines(file)
        return
    content = _one_or_several(text, str(file)) if text.strip() else []
    for number, row in enumerate(content if isinstance(content, list) else rows_of_object(content, str(file)), start=1):
        yield _checked(row, f"{file}, row {number}")


def _one_or_several(text: str, place: str) -> Any:
    """The JSON value of a file, or the list of the objects that follow each other in it."""
    text, objects, end = text.strip(), [], 0
    with suppress(ValueError, RecursionError):
        while text[end : end + 1] == "{":
            content, end = _DECODER.raw_decode(text, end)
            end += len(text[end:]) - len(text[end:].lstrip(" \t\r\n,"))
            objects.append(content)
    return objects if len(objects) > 1 and end == len(text) else _parsed(text, place)


def _has_one_object_a_line(text: str) -> bool:
    first, _, rest = text.strip().partition("\n")
    try:
        return bool(rest) and isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def _check_values(file: Path, text: str) -> None:
    """Raise ``InvalidDataError`` if the values of a compressed JSON text would fill the memory."""
    if file.suffix.lower() == ".gz":
        check_expansion(file, "a part of it", VALUE_BYTES * sum(map(text.count, "[{,")))


def _once(pairs: list[tuple[str, Any]]) -> Row:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        ((repeated, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise InvalidDataError(f"an object has {repeated!r} twice; keep one of them.")
    return entries


_DECODER = json.JSONDecoder(object_pairs_hook=_once)
_PARTIAL = re.compile(r"\s*(?:\{|\[\s*(?:\{.*)?)\s*")
"""A line of JSON with a part of an object, or with a list of objects."""


def _parsed(text: str, place: str) -> Any:
    try:
        return _DECODER.decode(text)
    except InvalidDataError as error:
        raise InvalidDataError(f"{place}: {error}") from None
    except json.JSONDecodeError as error:
        where = f" (line {error.lineno}, column {error.colno})" if "\n" in text.strip() else f" (column {error.colno})"
        raise InvalidDataError(f"{place}: invalid JSON{where}: {error.msg}.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidDataError(f"{place}: unreadable JSON: {error}.") from error


def _checked(row: Any, place: str) -> Row:
    if not isinstance(row, dict):
        raise InvalidDataError(f"{place}: a row is {kind_of(row)}, but must be an object with names and values.")
    return row
