"""Reads rows from files and folders: JSON, Parquet, Arrow, and the tables of ``rows.tables``; text in any encoding."""

from __future__ import annotations

import codecs
import gzip
import json
import os
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.rows.aliases import accepted_name
from mlflow_ragmetrics.rows.tables import Row, read_delimited, read_excel

_BATCH_ROWS = 16
_PAGE_BYTES = 64 * 2**10
SUITE_SUFFIX = ".suite.json"
"""The ending of the file that describes the suite of a file of rows; both are in the same folder."""
_TREC = (".run", ".qrels", ".trec")
_DELIMITED = {".csv": ",", ".tsv": "\t", ".txt": "\t", **dict.fromkeys(_TREC, "\t")}
"""The usual delimiter of each kind of text table."""
_TEXTS = (*_DELIMITED, ".json", ".jsonl", ".ndjson")
_ACCEPTED = (*_TEXTS, ".xlsx", ".parquet", ".arrow")


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
        for inner in _files_in(file):
            yield from read_file(inner, delimiter)
        return
    if not exists:
        raise InvalidDataError(f"{file} does not exist; check the path (it is relative to {Path.cwd()}).")
    extension = extension_of(file)
    if extension is None:
        raise InvalidDataError(f"{file} has an unsupported extension; use {', '.join(_ACCEPTED)}.")
    has_rows = False
    for row in _rows_of(file, extension, delimiter):
        has_rows = True
        yield row
    if not has_rows:
        raise InvalidDataError(f"{file} has no rows: it is empty or has only a header.")


def extension_of(path: str | os.PathLike[str]) -> str | None:
    """The supported extension of the file, without ``.gz``; ``None`` if it is not supported."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes = [suffix for suffix in suffixes[-2:-1] if suffix in _TEXTS]
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


def _rows_of(file: Path, extension: str, delimiter: str | None) -> Iterator[Row]:
    if extension == ".xlsx":
        yield from read_excel(file)
    elif extension not in _TEXTS:
        yield from _read_columns(file)
    else:
        with _opened(file) as stream:
            if extension in _DELIMITED:
                yield from read_delimited(stream, file, delimiter, _DELIMITED[extension])
            else:
                yield from _read_json(stream, file) if extension == ".json" else _read_json_lines(stream, file)


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


def _read_json_lines(lines: TextIO, file: Path) -> Iterator[Row]:
    """One object per line; blank lines are skipped. A file whose first line is only a part of one is read as JSON."""
    for number, line in enumerate(lines, start=1):
        if number == 1 and _PARTIAL.fullmatch(line):
            lines.seek(0)
            yield from _read_json(lines, file)
            return
        for row in _values(line, place := f"{file}, line {number}"):
            yield _checked(row, place)


def _read_json(stream: TextIO, file: Path) -> Iterator[Row]:
    """A list of objects, an object that holds one, or several objects, one per line or one after the other."""
    rows = _values(stream.read(), str(file))
    for number, row in enumerate(_rows_of_value(rows[0], file) if len(rows) == 1 else rows, start=1):
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


_USUAL_NAMES = ("data", "testCases", "test_cases", "goldens", "results", "examples", "rows", "samples", "records")
_DEEPEST = 3


def _rows_of_value(content: Any, file: Path) -> list[Any]:
    """The rows of a JSON file with one value: a list, MLflow's table (``{"columns": […], "data": [[…], …]}``), a table
    of columns, a single record, or an object with a list of objects, with a warning that names the list.

    Raises:
        InvalidDataError: if there is no list of objects, or several with unusual names.
    """
    if isinstance(content, list):
        return content
    if not isinstance(content, dict):
        raise InvalidDataError(f"{file} is {kind_of(content)}, but must be a list of objects (or a .jsonl file).")
    names, rows = content.get("columns"), content.get("data")
    if isinstance(names, list) and isinstance(rows, list):
        for number, cells in enumerate(rows, start=1):
            if not isinstance(cells, list) or len(cells) != len(names):
                message = f"{file}, row {number}: must be a list of {len(names)} cells, one per column."
                raise InvalidDataError(message)
        return [dict(zip(map(str, names), cells, strict=True)) for cells in rows]
    if any(isinstance(value, str) for name, value in content.items() if accepted_name(name)):
        return [content]
    return rows_of_columns(content) or _records_by_id(content) or _only_list(content, file)


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
    if not any(map(accepted_name, content)) or not are_alike or (len(columns) == 1 and _has_fields(columns[0])):
        return []
    if isinstance(columns[0], dict) and all(column.keys() == columns[0].keys() for column in columns):
        columns = [[*column.values()] for column in columns]
    if not isinstance(columns[0], list) or len({len(column) for column in columns}) != 1:
        return []
    return [dict(zip(content, cells, strict=True)) for cells in zip(*columns, strict=True)]


def _has_fields(rows: Any) -> bool:
    """Whether it is a list of objects with names of fields, such as ``predictions``."""
    return isinstance(rows, list) and all(isinstance(row, dict) and any(map(accepted_name, row)) for row in rows)


def _only_list(content: dict[str, Any], file: Path) -> list[Any]:
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
def _opened(file: Path) -> Iterator[TextIO]:
    """Open a text file, which may be compressed, with its line ends unchanged.

    Raises ``InvalidDataError`` if it cannot be read or decoded.
    """
    open_file: Any = gzip.open if file.suffix.lower() == ".gz" else open
    try:
        with open_file(file, "rb") as content:
            encoding = _encoding_of(content.read(2**20), file)
        with open_file(file, "rt", encoding=encoding, newline="") as stream:
            yield stream
    except UnicodeDecodeError as error:
        message = f"{file} is not UTF-8 text, and no other encoding is clear; save the file as UTF-8."
        raise InvalidDataError(message) from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidDataError(f"{file} cannot be read: {reason}.") from error


def _encoding_of(beginning: bytes, file: Path) -> str:
    """UTF-8, UTF-16 by its mark or first character, or a detected code page, with a warning."""
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if (zero := beginning[:2].find(0)) >= 0:  # the first character of a header or of JSON is ASCII
        return ("utf-16-be", "utf-16-le")[zero]
    try:
        codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        page = code_page_of(beginning)
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
    pieces = [piece for piece in re.split(rb'["\r\n]', content) if not piece.isascii()]
    content = b"\n".join(pieces)[:_MOST_BYTES]
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
    return (len(common) + len(few) / 4) / max(1, len(marks))


def _changes_script(text: str, place: int) -> bool:
    """Whether a letter has a neighbour of another script."""
    around = text[place] + text[max(0, place - 1) : place] + text[place + 1 : place + 2]
    return text[place].isalpha() and len({letter > "\u036f" for letter in around if letter.isalpha()}) > 1
