"""Reads text tables (CSV, TSV), Excel workbooks, and TREC's runs and judgements. Cells are not converted."""

from __future__ import annotations

import csv
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError, MissingExtraError
from mlflow_ragmetrics.rows.aliases import accepted_name

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


def _with_long_cells(reader: Iterator[list[str]]) -> Iterator[list[str]]:
    """The lines, of which a cell may hold a whole document; the limit of the module ``csv`` is kept for other code."""
    while True:
        usual = csv.field_size_limit(2**31 - 1)
        try:
            line = next(reader, None)
        finally:
            csv.field_size_limit(usual)
        if line is None:
            return
        yield line


def read_delimited(stream: TextIO, file: Path, delimiter: str | None, usual: str) -> Iterator[Row]:
    """The rows of a CSV or TSV file with a header, or of a TREC file.

    A short row has missing cells, and blank lines are skipped. An empty cell is a missing value: a text table cannot
    distinguish it from a blank answer.
    """
    first_lines = list(islice(stream, _LOOK_AHEAD_LINES))
    stream.seek(0)
    if (form := _trec_form(first_lines)) is not None:
        yield from _read_trec(stream, file, form)
        return
    skipped, delimiter = _layout(first_lines, delimiter, usual, file)
    has_lone_quotes = delimiter == "\t" and _has_lone_quotes(islice(stream, skipped, None))
    stream.seek(0)
    lines = islice(stream, skipped, None)
    reader = csv.reader(map(_with_quotes, lines) if has_lone_quotes else lines, delimiter=delimiter, strict=True)
    filled = filter(None, _with_long_cells(reader))
    try:
        header = next(filled, [])
        _check_header(header, file)
        for cells in filled:
            if len(cells) > len(header) and any(cells[len(header) :]):
                raise csv.Error(f"{len(cells)} cells under a header of {len(header)}")
            yield {name: cell or None for name, cell in zip(header, cells, strict=False) if name}
    except csv.Error as error:
        place, reason = f"{file}, line {reader.line_num + skipped}", str(error).replace("\t", "tab")
        advice = "put quotes around a cell that contains quotes or the delimiter, and double the quotes inside"
        raise InvalidDataError(f"{place}: {reason}; {advice}.") from error


def _check_header(names: list[Any], file: Path) -> None:
    """Raise ``InvalidDataError`` if a column occurs twice."""
    repeated = next((name for name, count in Counter(names).items() if count > 1 and name), None)
    if repeated is not None:
        raise InvalidDataError(f"{file} has the column {repeated!r} twice in its header; rename one of them.")


def _title_lines(rows: Iterable[list[Any]], file: Path) -> int:
    """The number of title lines above a header, with a warning; 0 if the first line or no line is the header."""
    for place, cells in enumerate(islice(rows, _MOST_TITLE_LINES)):
        filled = [cell for cell in cells if cell]
        if len(filled) > 1:
            if not place or not any(map(accepted_name, filled)):
                return 0
            lines = "the first line" if place == 1 else f"the first {place} lines"
            warnings.warn(f"{lines} of {file} is above the header and was skipped", stacklevel=2)
            return place
    return 0


def _layout(lines: list[str], delimiter: str | None, usual: str, file: Path) -> tuple[int, str]:
    """The number of lines above the header, and the delimiter: given, named by Excel, or detected."""
    if lines and (separator := _SEPARATOR_LINE.fullmatch(lines[0])):
        return 1, delimiter or separator["delimiter"]
    for candidate in [delimiter] if delimiter else dict.fromkeys((usual, *_DELIMITERS)):
        if title := _title_lines(([cell.strip(' "\r\n') for cell in line.split(candidate)] for line in lines), file):
            return title, candidate
    return 0, delimiter or _delimiter_of(lines, usual, file)


def _delimiter_of(lines: list[str], usual: str, file: Path) -> str:
    """``usual``, unless it leaves the header in one cell and another delimiter gives all rows the same width."""
    with suppress(csv.Error):
        if len(next(csv.reader(lines, delimiter=usual), [])) != 1:
            return usual
        for delimiter, name in _DELIMITERS.items():
            widths = [len(cells) for cells in csv.reader(lines, delimiter=delimiter) if cells]
            if len(lines) == _LOOK_AHEAD_LINES:  # the last cell may continue on the next line
                del widths[-1]
            if delimiter != usual and len(set(widths)) == 1 and widths[0] > 1:
                sentence = f"the cells of {file} were read as separated by {name}, not {_DELIMITERS[usual]}"
                warnings.warn(sentence, stacklevel=2)
                return delimiter
    return usual


def _has_lone_quotes(lines: Iterator[str]) -> bool:
    """Whether a table without quoting has cells that begin with a quote mark.

    Without quoting, each line has as many tabs as the header. Otherwise a quoted cell may contain tabs and line ends.
    """
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


_RUN = re.compile(r"\s*(?P<query>\S+)\s+Q0\s+(?P<document>\S+)\s+\d+\s+(?P<number>[-+.\deE]+)\s+\S+\s*")
_BEIR = re.compile(r"(?P<query>[^\t]+)\t(?P<document>[^\t]+)\t(?P<number>[-+]?\d+)\s*")
_BEIR_HEADER = ["query-id", "corpus-id", "score"]
_JUDGEMENT = re.compile(r"\s*(?P<query>\S+)\s+(?:0|Q0)\s+(?P<document>\S+)\s+(?P<number>[-+]?\d+)\s*")


def _trec_form(lines: Iterable[str]) -> re.Pattern[str] | None:
    """The form of a run (``q1 Q0 d7 1 9.2 bm25``), of judgements (``q1 0 d7 1``) or of BEIR's table, or ``None``."""
    filled = [line for line in lines if line.strip()]
    if not filled or filled[0].split() == _BEIR_HEADER:
        return _BEIR if filled else None
    return next((form for form in (_RUN, _JUDGEMENT) if all(map(form.fullmatch, filled))), None)


def _read_trec(lines: Iterable[str], file: Path, form: re.Pattern[str]) -> Iterator[Row]:
    """The documents of each query: those of a run by falling score, those judged with grade 1 or more as gold.

    Raises:
        InvalidDataError: for a line of another form.
    """
    queries: dict[str, list[tuple[float, str]]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or (form is _BEIR and line.split() == _BEIR_HEADER):
            continue
        cells = form.fullmatch(line)
        if cells is None:
            message = "a TREC run has query, Q0, document, rank, score, name; judgements have query, 0, document, grade"
            raise InvalidDataError(f"{file}, line {number}: {message}.")
        queries.setdefault(cells["query"], []).append((float(cells["number"]), cells["document"]))
    field = "retrieved_doc_ids" if form is _RUN else "gold_doc_ids"
    for query, documents in queries.items():
        if form is _RUN:
            documents.sort(key=lambda scored: -scored[0])
        ids = [document for value, document in documents if form is _RUN or value >= 1]
        yield {"id": query, field: list(dict.fromkeys(ids))}


def read_excel(file: Path) -> Iterator[Row]:
    """The rows of the first sheet; a warning names the others."""
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
    title = _title_lines(filled, file)
    header = [str(name) for name in filled[title]] if filled else []
    _check_header(header, file)
    for row in filled[title + 1 :]:
        yield {name: None if cell == "" else cell for name, cell in zip(header, row, strict=True) if name}
