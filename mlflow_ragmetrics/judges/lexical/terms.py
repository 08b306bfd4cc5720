"""Splits a text into terms: each word and number with a key shared by its other spellings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate, chain, islice
from typing import NamedTuple

from mlflow_ragmetrics.judges.lexical.keys import (
    BOUNDS,
    BREAKS,
    CANCELLING,
    NUMBERS,
    fold,
    is_negator,
    read_with_neighbours,
    word_key,
)
from mlflow_ragmetrics.text.word_lists import words_of
from mlflow_ragmetrics.text.words import INVISIBLE, MARKS, ROMAN, STOP_WORDS, ByWord

# The first alternative, plain words, matches most tokens and halves the time. No alternative is tried at a blank.
_TOKEN = re.compile(
    rf"(?! )([A-Za-z]{{2,}}(?![^\W\d]|[{MARKS}{INVISIBLE}'’₀-₉+⁺]|[1-9](?!\w)|-\r?\n)"
    r"|(?<![\w.])\.(?:[A-Z]{2,}|\d+)(?!\w)|[.!?;:,()\n]"
    r"|[A-Z](?:[a-z]?[\d²³]?[+⁺](?!\w)| ?& ?[A-Z](?!\w))|[A-Za-z]{2}[1-9₁-₉](?![\w₀-₉])"
    r"|[A-Za-z][a-z]?[\d₀-₉][A-Za-z\d₀-₉]*|[A-Za-z](?:\+\+|[#♯])(?!\w)|[A-F][+-](?=[\s.,;:)]|\Z)"
    r"|(?<![$€£₽\w.])\d{1,4}[ABDEHNPQRSTUXYZ](?!\w)|\d+(?:\.\d+)?[eE][-+]?\d+(?!\w)|[¼½¾⅓⅔]"
    r"|\d{4}-\d{1,2}-\d{1,2}(?!\w)|\d{1,2}\.\d{1,2}\.\d{4}(?!\w)|\d{1,3}(?:, \d{3})*, 0\d{2}(?!\w)"
    r"|(?:(?:(?<=[\s(぀-ヿ㐀-䶿一-鿿])|^)[-−–](?=[\d.])|[<>≤≥]=?\s?(?=\d))?"
    r"(?:\d{1,3}(?:[ \u00a0\u2007\u2009\u202f'’]\d{3})+(?!\d)(?:[.,]\d+)?|\d{1,2}/\d{1,2}(?![\d/])|\d+(?:[.,:]\d+)*)"
    r"|[%$€£₽℃℉]|°(?:[CFcf](?!\w))?"
    rf"|[぀-ヿ㐀-䶿一-鿿]|(?:[^\W\d_]\.){{2,}}"
    rf"|(?:[^\W\d_぀-ヿ㐀-䶿一-鿿][{MARKS}{INVISIBLE}]*(?:-\r?\n[ \t]*(?=[^\W\d_]))?)+(?:['’][^\W\d_]+)?)"
)
_CODE = re.compile(r"[a-z]{1,2}\d?\+|[a-f]-|[a-z]{1,2}\d[a-z\d]*|\d{1,4}[a-z]|\d+(?:\.\d+)?e[-+]?\d+")
ABOUT_PASSAGES = words_of("about_passages")
CONTENT, NUMBER, NAME, NEGATED = 1, 2, 4, 8  # bits of a term's kind


class Terms:
    """The terms of a text in order, in columns.

    ``keys``: stems, "#" with a number's value, or "month:" with its number. ``kinds``: sums of ``CONTENT`` (no function
    word), ``NUMBER``, ``NAME`` and ``NEGATED`` (the first content word after a negator in its clause). ``starts`` and
    ``ends``: positions in the text.
    """

    __slots__ = ("ends", "keys", "kinds", "starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.keys: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.kinds: list[int] = []

    def add(self, key: str, start: int, end: int, kind: int) -> None:
        """Add a term at the end."""
        self.keys.append(key)
        self.starts.append(start)
        self.ends.append(end)
        self.kinds.append(kind)

    def drop_last(self) -> None:
        """Remove the last term."""
        for column in (self.keys, self.starts, self.ends, self.kinds):
            del column[-1:]

    def text_at(self, place: int) -> str:
        """Return the text of a term."""
        return self.text[self.starts[place] : self.ends[place]]

    def content(self, places: range | None = None) -> list[int]:
        """Return the places of content terms, among ``places`` or all."""
        kinds = self.kinds
        return [place for place in (range(len(kinds)) if places is None else places) if kinds[place] & CONTENT]


class _Word(NamedTuple):
    """A token without its neighbours: its kind (``CONTENT`` or 0) and whether it is capitalized.

    ``key`` is empty if the neighbours decide. ``plain``: no break, name or negator, so the neighbours do not matter.
    """

    folded: str
    key: str
    kind: int
    capital: bool
    plain: bool


def _word_of(token: str) -> _Word:
    folded = fold(token)
    if _CODE.fullmatch(folded):
        return _Word(folded, f"#{folded}", CONTENT, False, False)
    key = word_key(folded)
    content = folded not in STOP_WORDS and not folded.endswith("n't")
    capital = content and token != token.lower()
    special = capital or token in ROMAN or folded in BREAKS or folded in CANCELLING or is_negator(folded)
    return _Word(folded, key, CONTENT if content else 0, capital, bool(key) and not special)


_WORDS = ByWord(_word_of)


def terms_of(text: str) -> Terms:
    """The terms of ``text`` in order; linear in its length."""
    terms = Terms(text)
    parts = _TOKEN.split(text)  # alternates gaps and tokens
    gaps, tokens = parts[::2], parts[1::2]
    if not tokens:
        return terms
    borders = list(accumulate(map(len, parts)))
    starts, ends = borders[::2], borders[1::2]
    folded, keys, kinds, capitals, plains = zip(*map(_WORDS.__getitem__, tokens), strict=True)
    words = [*folded, ""]
    following, negated, opening = 0, 0, True
    in_capitals = text.isupper() and " " in text  # capitals that mark no names
    for place in [*[place for place, plain in enumerate(plains) if not plain], len(tokens)]:
        if place > following:  # a run of plain words
            terms.keys += keys[following:place]
            terms.starts += starts[following:place]
            terms.ends += ends[following:place]
            terms.kinds += kinds[following:place]
            opening = False
            if negated and any(kinds[following:place]):
                terms.kinds[kinds.index(CONTENT, following) - place] |= negated
                negated = 0
        if place < following or place == len(tokens):
            continue
        word, word_keys, kind, following = words[place], keys[place : place + 1], kinds[place], place + 1
        if word in BREAKS:
            negated, opening = 0, word not in ",()"
            continue
        if not keys[place] or tokens[place] in ROMAN:
            negated = 0 if _bind(terms, words, place, starts[place]) else negated
            is_behind_name = place > 0 and capitals[place - 1] and not (in_capitals and word == "i")
            word_keys, taken = read_with_neighbours(words, tokens, gaps, place, is_behind_name)
            following = place + taken
            kind = CONTENT if word_keys[0].startswith(NUMBERS) else kind
        if capitals[place] and not (opening or in_capitals):
            kind |= NAME
        for key in word_keys:
            of_number = NUMBER if key.startswith(NUMBERS) else 0
            terms.add(key, starts[place], ends[following - 1], of_number | kind | negated if kind else 0)
        negated = NEGATED if is_negator(word) else 0 if kind or word in CANCELLING else negated
        opening = False
    return terms


def _bind(terms: Terms, words: list[str], place: int, start: int) -> bool:
    """Add the bound of the number at ``place``, or make the last terms one: "≥5", "at least 5", "no more than $5".

    Return whether a negator before the words is part of the bound.
    """
    if words[place][0] in BOUNDS:
        terms.add(BOUNDS[words[place][0]], start, start + 1, CONTENT)
        words[place] = words[place].lstrip("<>≤≥= ")
    for count in (2, 1):
        bound = BOUNDS.get(" ".join(words[max(0, place - count) : place]))
        if bound is not None and len(terms.keys) >= count:
            is_denied = place > count and is_negator(words[place - count - 1])
            terms.keys[-1] = "≥≤".replace(bound, "") if is_denied else bound
            terms.kinds[-1] |= CONTENT
            terms.starts[-1] = terms.starts[-count]
            for column in (terms.keys, terms.starts, terms.ends, terms.kinds):
                del column[-count:-1]
            return is_denied
    return False


def is_longer_than(most: int, texts: Iterable[str]) -> bool:
    """Whether ``texts`` together have more than ``most`` words, numbers and marks; stops reading there."""
    texts = list(texts)
    if sum(map(len, texts)) <= most or sum(len(text) - text.count(" ") for text in texts) <= most:
        return False
    tokens = chain.from_iterable(map(_TOKEN.finditer, texts))
    return next(islice(tokens, most, None), None) is not None
