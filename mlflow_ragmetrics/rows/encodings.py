"""Opens text files in any encoding: a code page is detected by the letters of the languages that use it."""

from __future__ import annotations

import codecs
import gzip
import re
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO, cast

from mlflow_ragmetrics.errors import InvalidDataError

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
        with open_text(file, _encoding_of(file)) as stream:
            yield stream
    except UnicodeDecodeError as error:
        message = f"{file} is not UTF-8 text, and no other encoding is clear; save the file as UTF-8."
        raise InvalidDataError(message) from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidDataError(f"{file} cannot be read: {reason}.") from error


def open_text(file: Path, encoding: str) -> TextIO:
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
