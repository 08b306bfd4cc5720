"""Opens text files in any encoding, and reads CSV, TSV, and TREC's runs and judgements. Cells are not converted."""

from __future__ import annotations

import codecs
import csv
import gzip
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, TextIO, cast

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.rows.aliases import accepted_name

Row = dict[str, Any]

_SIGNS = "«»“”„‘’‚‹›–—…•·€£¥§©®™°²³½¼¾×÷±¿¡\xa0\xad"
_RUSSIAN = "[оеаинтсрвлкмдпуыьі]", "[бгжзйфхцчшщъэюяёїєґ]"
_GREEK = "(?:[α-ρτ-ωϊϋ]|σ(?!\\b))*"
_LANGUAGES = (
    ("cp1252", "[äöüß]"),
    ("cp1252", "[éèêàâîôûùœ]|ç(?=[aou])|(?<=[aeiou])[ëïü]"),
    ("cp1252", "[éèê]|(?<=[aeiou])[ëïöü]"),
    ("cp1252", "[áéíóúñüªº]"),
    ("cp1252", r"[áâàéêíóôúüªº]|ç(?=[aouãâáéêíóôú])|ã(?=[oes]|\b)|õ(?=e)"),
    ("cp1252", r"[àèéìíîòóùú]\b"),
    ("cp1252", "[äöåé]"),
    ("cp1252", "[æøåéü]"),
    ("cp1252", "[àáèéíïòóúüç]"),
    ("cp1250", "[ąćęłńóśźż]"),
    ("cp1250", r"[áčďéěíňóšťúůýž]|ř(?!\b)|(?<=[aá])ř"),
    ("cp1250", "[áäčďéíĺľňóôšťúýž]"),
    ("cp1250", "[áéíóöőúüű]"),
    ("cp1250", "[čćšž]|đ(?=[aeiou])"),
    ("cp1250", "[ăâîşţ]"),
    ("cp1251", *_RUSSIAN),
    ("cp1253", rf"\b(?:{_GREEK}[άέήίόύώ]{_GREEK}ς?)\b", r"\b[α-ω]{1,3}\b"),
    ("cp1255", r"[אבגדהוזחטילסעקרשת]|[ךםןףץ]\b|[כמנפצ](?!\b)"),
    ("koi8-r", *_RUSSIAN),
    ("cp866", *_RUSSIAN),
    ("iso8859-5", *_RUSSIAN),
    ("cp1254", "[çğıöşüâİ]"),
    ("cp1257", "[ąčęėįšųūž]"),
    ("cp1257", "[āčēģīķļņšūž]"),
    ("cp1257", "[õäöü]", "[šž]"),
    ("cp1252", "[áðéíóúýþæö]"),
)
"""Code page, the usual letters of a language in their places, and its rare letters, which count a quarter.

The first fifteen are preferred to others that fit as well."""
_PREFERRED = 15
_ODD = re.compile(
    r"[^\x00-\x7fºª‘’“”„«»·…°\xad–—\w](?=[^\W\d_])"  # a sign before a letter
    r"|(?<=[^\W\d_])[^\x00-\x7f’·\xad–—\w](?=[^\W\d_])"
    r"|(?<![^\W\d_])[\x80-\u024f]{3,}(?![^\W\d_])"  # a Latin word without a letter of ASCII
)
_LEAST_SHARE, _MARGIN = 0.75, 0.05
_MOST_BYTES = 20_000


@contextmanager
def opened(file: Path) -> Iterator[TextIO]:
    """Open the file as text; raises ``InvalidDataError`` if it cannot be read or decoded."""
    try:
        with _open_text(file, _encoding_of(file)) as stream:
            yield stream
    except UnicodeDecodeError as error:
        message = f"{file} is not UTF-8 text, and no other encoding is clear; save the file as UTF-8."
        raise InvalidDataError(message) from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidDataError(f"{file} cannot be read: {reason}.") from error


def _open_text(file: Path, encoding: str) -> TextIO:
    """Open a text file, which may be compressed, with its line ends unchanged."""
    if file.suffix.lower() == ".gz":
        return cast(TextIO, gzip.open(file, "rt", encoding=encoding, newline=""))
    return open(file, encoding=encoding, newline="")


def _encoding_of(file: Path) -> str:
    """UTF-8, UTF-16 by its mark or first character, or a detected code page, with a warning."""
    with gzip.open(file, "rb") if file.suffix.lower() == ".gz" else open(file, "rb") as stream:
        beginning = bytes(stream.read(2**20))
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


def code_page_of(content: bytes) -> str | None:
    """The code page in which most letters beyond ASCII fit one language; ``None`` if it is not clear.

    >>> code_page_of("Die Größe steht in Köln.".encode("cp1252"))
    'cp1252'
    """
    lines = [line for line in content.splitlines() if not line.isascii()]
    content = b"\n".join(lines)[:_MOST_BYTES]
    readings: list[tuple[float, int, str]] = []
    for place, (page, *letters) in enumerate(_LANGUAGES):
        with suppress(UnicodeDecodeError):
            text = content.decode(page)
            readings.append((_share(text, *letters), -place, text))
    share, place, _ = max(readings, default=(0.0, 0, ""))
    rivals = {text for value, _, text in readings if value > share - _MARGIN}
    is_clear = share >= _LEAST_SHARE and (-place < _PREFERRED or len(rivals) == 1)
    return _LANGUAGES[-place][0] if is_clear else None


def _share(text: str, usual: str, rare: str = r"(?!)") -> float:
    """The share of the characters beyond ASCII that are usual where they stand."""
    marks = {place for place, character in enumerate(text) if character > "\x7f"}
    odd = {place for match in _ODD.finditer(text) for place in range(*match.span())}
    odd |= {place for place in marks if text[place].isupper() and text[place - 1 : place].islower()}
    odd |= {place for place in marks if _changes_script(text, place)}
    common, few = (
        {place for match in re.finditer(pattern, text, re.IGNORECASE) for place in range(*match.span())} & marks - odd
        for pattern in (f"{usual}|[{_SIGNS}]", rare)
    )
    return (len(common) + len(few) / 4) / len(marks)


def _changes_script(text: str, place: int) -> bool:
    """Whether a letter has a neighbour of another script."""
    around = text[place] + text[max(0, place - 1) : place] + text[place + 1 : place + 2]
    return text[place].isalpha() and len({letter > "\u036f" for letter in around if letter.isalpha()}) > 1


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


def read_delimited(file: Path, delimiter: str | None, usual: str) -> Iterator[Row]:
    """The rows of a CSV or TSV file with a header, or of a TREC file.

    A short row has missing cells, and blank lines are skipped. An empty cell is a missing value: a text table cannot
    distinguish it from a blank answer.
    """
    with opened(file) as stream:
        with _open_text(file, str(stream.encoding)) as beginning:
            first_lines = list(islice(beginning, _LOOK_AHEAD_LINES))
        if are_trec_lines(first_lines):
            yield from read_trec(stream, str(file))
            return
        skipped, delimiter = _layout(first_lines, delimiter, usual, file)
        lines: Iterator[str] = islice(stream, skipped, None)
        if delimiter == "\t" and _has_lone_quotes(file, str(stream.encoding), skipped):
            lines = map(_with_quotes, lines)
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        filled = filter(None, _with_long_cells(reader))
        try:
            header = next(filled, [])
            check_header(header, str(file))
            for cells in filled:
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
    with _open_text(file, encoding) as stream:
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
