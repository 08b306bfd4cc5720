"""How a text file is written: its encoding and, of a table, what separates its cells; found out from its beginning."""

from __future__ import annotations

import codecs
import csv
import gzip
import re
import warnings
from itertools import islice
from pathlib import Path
from typing import Union

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.errors import InvalidOptionError

__all__ = ["check_delimiter", "delimiter_of", "encoding_of"]

_BEGINNING = 2**20
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_ROWS = 20
_LETTER = re.compile("[А-Яа-яЁё]")
_FREQUENT = frozenset("оеаинтсрвл")
_OUTSIDE_ASCII = re.compile("[^\x00-\x7f]")


def encoding_of(file: Path) -> str:
    """UTF-8, with or without a byte order mark, or what its beginning proves it to be in its place, which is said.

    That is UTF-16, by its mark, and Windows-1251, where nearly all that is not ASCII is Russian in it: its letters, as
    often as Russian has them. Anything else is left to UTF-8, which will say where it cannot be read.
    """
    beginning = _beginning(file)
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        if _is_russian(beginning.decode("cp1251", "replace")):
            _say(f"{file} is not UTF-8 text and was read as Windows-1251 (Russian); save it as UTF-8 if that is wrong")
            return "cp1251"
    return "utf-8-sig"


def _is_russian(text: str) -> bool:
    """Whether what is not ASCII is nearly all Russian letters, lower case mostly, the frequent ones most of all.

    So it is neither another Windows code page, where such letters stand alone or are others, nor KOI8-R, in which case
    upper and lower case would be the wrong way round.
    """
    foreign = _OUTSIDE_ASCII.findall(text)
    letters = [each for each in foreign if _LETTER.match(each)]
    if len(letters) < 0.8 * len(foreign) or not letters:
        return False
    lower = sum(each.islower() for each in letters)
    frequent = sum(each.lower() in _FREQUENT for each in letters)
    return lower > 0.5 * len(letters) and frequent > 0.45 * len(letters)


def delimiter_of(file: Path, usual: str, encoding: str) -> str:
    """What separates the cells of the table: ``usual``, unless the header and the rows say otherwise, which is said.

    They do where the header is one cell by ``usual`` and several by another delimiter, and the first rows are as many.
    """
    lines = _beginning(file).decode(encoding, "replace").removeprefix("\ufeff").splitlines()
    if not lines or len(next(csv.reader(lines, delimiter=usual), [])) != 1:
        return usual
    for delimiter, name in _DELIMITERS.items():
        widths = _widths(lines, delimiter)
        if delimiter != usual and len(widths) == 1 and min(widths) > 1:
            _say(f"the cells of {file} are separated by {name}, not {_DELIMITERS[usual]}, and were read so")
            return delimiter
    return usual


def _widths(lines: list[str], delimiter: str) -> set[int]:
    """How many cells the header and the first rows have; the last of them may be cut off, and is left out."""
    try:
        rows = [row for row in islice(csv.reader(lines, delimiter=delimiter), _ROWS) if row]
    except csv.Error:
        return set()
    return {len(row) for row in (rows[:-1] if len(rows) == _ROWS else rows)}


def _beginning(file: Path) -> bytes:
    with gzip.open(file, "rb") if file.suffix.lower() == ".gz" else open(file, "rb") as stream:
        return bytes(stream.read(_BEGINNING))


def _say(sentence: str) -> None:
    warnings.warn(sentence, UserWarning, stacklevel=2)


def check_delimiter(delimiter: Union[str, None]) -> Union[str, None]:
    """``delimiter`` as one character, ``"tab"`` and ``"\\\\t"`` included; ``InvalidOptionError`` for anything else."""
    if delimiter is None:
        return None
    found = "\t" if delimiter in ("tab", "\\t") else delimiter
    if len(found) != 1 or found in '"\r\n ' or found.isalnum():
        message = f"delimiter={shown(delimiter)} must be one character that separates cells, such as ';', or tab"
        raise InvalidOptionError(message, param="delimiter")
    return found
