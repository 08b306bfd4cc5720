"""Detects the code page of a text that is not UTF-8, by the letters of the languages that use it."""

from __future__ import annotations

_PUNCTUATION = "«»“”„‘’‚‹›–—…•·€£¥§©®™№°²³½¼¾×÷±¿¡\xa0\xad"
_LATIN = {
    "cp1252": "äöüß éèêëàâîïôûùçœÿ áéíóúñü áâãàçéêíóôõúü àèéìíîòóùú äöåé æøåéü ëéïèü áðéíóúýþæö ªº",
    "cp1250": "ąćęłńóśźż áčďéěíňóřšťúůýž áäčďéíĺľňóôŕšťúýž áéíóöőúüű čćđšž ăâîşţ",
}
"""The letters of the languages of each code page, one language between two blanks."""
_CYRILLIC = ("cp1251", "koi8-r", "cp866", "iso8859-5")
_FREQUENT = frozenset("оеаинтсрвлкмдпуыіь" + _PUNCTUATION)
_LEAST_SHARE = 0.75
_MOST_BYTES = 50_000


def code_page_of(content: bytes) -> str | None:
    """The code page in which most letters beyond ASCII fit one language; ``None`` if it is not clear.

    >>> code_page_of("Die Größe steht in Köln.".encode("cp1252"))
    'cp1252'
    """
    lines = [line for line in content.splitlines() if not line.isascii()]
    content = b"\n".join(lines)[:_MOST_BYTES]
    shares = {}
    for page in ("cp1252", *_CYRILLIC, "cp1250"):
        try:
            shares[page] = _share(content.decode(page), page)
        except UnicodeDecodeError:
            continue
    best = max(shares, key=lambda page: shares[page], default=None)  # the first of equals
    return best if best is not None and shares[best] >= _LEAST_SHARE else None


def _share(text: str, page: str) -> float:
    """The share of the characters beyond ASCII that are usual in a language of ``page``, where they stand."""
    marks = [place for place, character in enumerate(text) if character > "\x7f"]
    if page in _CYRILLIC:
        usual = sum(text[place].lower() in _FREQUENT and not _is_odd(text, place) for place in marks)
        return usual / len(marks)
    languages = [frozenset(letters + letters.upper() + _PUNCTUATION) for letters in _LATIN[page].split()]
    return max(sum(text[p] in letters and not _is_odd(text, p) for p in marks) for letters in languages) / len(marks)


def _is_odd(text: str, place: int) -> bool:
    """Whether a letter is in another case or script than its neighbours, or a sign stands between two letters."""
    before, mark, after = text[place - 1 : place], text[place], text[place + 1 : place + 2]
    if not mark.isalpha():
        return before.isalpha() and after.isalpha() and mark not in "’·\xad–—"
    neighbours = [letter for letter in (before, after) if letter.isalpha()]
    if any((letter > "\u0400") != (mark > "\u0400") for letter in neighbours):
        return True
    return mark.isupper() and before.islower()
