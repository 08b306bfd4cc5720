"""Reads the rows of CSV and TSV files, and of TREC's runs and judgements. Cells are not converted."""

from __future__ import annotations

import csv
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.rows.aliases import accepted_name
from mlflow_ragmetrics.rows.encodings import open_text, opened

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


def read_delimited(file: Path, delimiter: str | None, usual: str) -> Iterator[Row]:
    """The rows of a CSV or TSV file with a header, or of a TREC file.

    A short row has missing cells, and blank lines are skipped. An empty cell is a missing value: a text table cannot
    distinguish it from a blank answer.
    """
    csv.field_size_limit(2**31 - 1)  # a cell may hold a whole document
    with opened(file) as stream:
        with open_text(file, str(stream.encoding)) as beginning:
            first_lines = list(islice(beginning, _LOOK_AHEAD_LINES))
        if are_trec_lines(first_lines):
            yield from read_trec(stream, str(file))
            return
        skipped, delimiter = _layout(first_lines, delimiter, usual, file)
        lines: Iterator[str] = islice(stream, skipped, None)
        if delimiter == "\t" and _has_lone_quotes(file, str(stream.encoding), skipped):
            lines = map(_with_quotes, lines)
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        try:
            header = next(filter(None, reader), [])
            check_header(header, str(file))
            for cells in filter(None, reader):
                if len(cells) > len(header) and any(cells[len(header) :]):
                    raise csv.Error(f"{len(cells)} cells under a header of {len(header)}")
                yield {name: cell or None for name, cell in zip(header, cells, strict=False) if name}
        except csv.Error as error:
            place, reason = f"{file}, line {reader.line_num + skipped}", str(error).replace("\t", "tab")
            advice = "put quotes around a cell that contains quotes or the delimiter, and double the quotes inside"
            raise InvalidDataError(f"{place}: {reason}; {advice}.") from error


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


def _has_lone_quotes(file: Path, encoding: str, skipped: int) -> bool:
    """Whether a table without quoting has cells that begin with a quote mark.

    Without quoting, each line has as many tabs as the header. Otherwise a quoted cell may contain tabs and line ends.
    """
    with open_text(file, encoding) as stream:
        lines = islice(stream, skipped, None)
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


def are_trec_lines(lines: Iterable[str]) -> bool:
    """Whether all are lines of a run (``q1 Q0 d7 1 9.2 bm25``), of judgements (``q1 0 d7 1``) or of BEIR's table."""
    filled = [line for line in lines if line.strip()]
    if filled and filled[0].split() == _BEIR_HEADER:
        return True
    return bool(filled) and any(all(map(form.fullmatch, filled)) for form in (_RUN, _JUDGEMENT))


def read_trec(lines: Iterable[str], file: str) -> Iterator[dict[str, Any]]:
    """The documents of each query: those of a run by falling score, those judged with grade 1 or more as gold.

    Raises:
        InvalidDataError: for a line of another form.
    """
    form, field = None, ""
    queries: dict[str, list[tuple[float, str]]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if form is None and line.split() == _BEIR_HEADER:
            form, field = _BEIR, "gold_doc_ids"
            continue
        if form is None:
            form, field = (_RUN, "retrieved_doc_ids") if _RUN.fullmatch(line) else (_JUDGEMENT, "gold_doc_ids")
        cells = form.fullmatch(line)
        if cells is None:
            message = "a TREC run has query, Q0, document, rank, score, name; judgements have query, 0, document, grade"
            raise InvalidDataError(f"{file}, line {number}: {message}.")
        queries.setdefault(cells["query"], []).append((float(cells["number"]), cells["document"]))
    for query, documents in queries.items():
        if form is _RUN:
            documents.sort(key=lambda scored: -scored[0])
        ids = [document for value, document in documents if form is _RUN or value >= 1]
        yield {"id": query, field: list(dict.fromkeys(ids))}
