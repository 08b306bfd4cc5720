"""Splits a text into terms: each word and number with a key shared by its other spellings."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from itertools import accumulate, chain, islice
from operator import itemgetter
from typing import Final, NamedTuple

import snowballstemmer

from mlflow_ragmetrics.judges.lexical.numbers import (
    BOUNDS,
    CURRENCY_SIGNS,
    FRACTIONS,
    HALVES,
    MONTHS,
    ORDINALS,
    PERCENT,
    REGNAL,
    SPELLED,
    TIMES,
    UNITS_BEHIND_NUMBERS,
    VAGUE,
    VERSIONS,
    canonical_number,
    hour_of_day,
    magnitude,
    read_date,
    share_of_hundred,
    spelled_number,
)
from mlflow_ragmetrics.text.word_lists import words_of
from mlflow_ragmetrics.text.words import INVISIBLE, MARKS, ROMAN, STOP_WORDS, ByWord, normalised

_LONGEST_STEMMED: Final = 40
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
ABOUT_PASSAGES = words_of("about_passages")
NEGATORS = words_of("negators")
CANCELLING = frozenset(("only", "just", "necessarily", "только", "лишь"))
_NUMBER = re.compile(r"[<>≤≥=-]*\s?\.?\d")
_CODE = re.compile(r"[a-z]{1,2}\d?\+|[a-f]-|[a-z]{1,2}\d[a-z\d]*|\d{1,4}[a-z]|\d+(?:\.\d+)?e[-+]?\d+")
_VERSION = re.compile(r"\d{1,2}\.\d{0,2}0")
_CYRILLIC = re.compile("[а-яё]")
_OUR = re.compile(r"(?<=[a-z]{3})our")
_ISE = re.compile(r"(?<=[a-z]{3})([iy])s(e|ed|es|er|ers|ing|ation|ations)$")
_RE = re.compile(r"(?<=[a-z]{2})([bt])re(s?)$")
_BREAKS = frozenset(".!?;:,()\n")
_UNSTEMMED = frozenset("abfhjkopquvwxz")  # no suffix of the English stemmer has these last letters
_MINUS = frozenset(("minus", "минус"))
_DEGREES = frozenset(("degree", "degrees", "°", "градус", "градуса", "градусов"))
_ONE = frozenset(("a", "one"))
_READ_WITH_NEIGHBOURS = HALVES | TIMES.keys() | FRACTIONS.keys() | MONTHS.keys() | SPELLED | _DEGREES | CURRENCY_SIGNS
_SCALES_OF_DEGREES = dict.fromkeys(("celsius", "c", "цельсия"), "celsius")
_SCALES_OF_DEGREES |= dict.fromkeys(("fahrenheit", "f", "фаренгейта"), "fahrenheit")


class _Stemmers(threading.local):
    """Stemmers per thread, because a Snowball stemmer stores its word."""

    def __init__(self) -> None:
        self.english, self.russian = map(snowballstemmer.stemmer, ("english", "russian"))


_STEMMERS = _Stemmers()


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The Snowball stem of a case-folded word or of its synonym; Russian for Cyrillic, else English."""
    synonyms = _synonyms()
    if word in synonyms:
        return synonyms[word]
    stemmed = _snowball(word)
    return synonyms.get(stemmed, stemmed)


def _snowball(word: str) -> str:
    if len(word) < 3 or (word[-1] in _UNSTEMMED and word.isascii()):
        return word
    stemmer = _STEMMERS.russian if _CYRILLIC.search(word) else _STEMMERS.english
    stemmed: str = stemmer.stemWord(_american(word))
    return stemmed


def _american(word: str) -> str:
    """Convert British to American spelling; may change other words too, but always in the same way."""
    if "our" in word:
        word = _OUR.sub("or", word)
    if "is" in word or "ys" in word:
        word = _ISE.sub(r"\1z\2", word)
    return _RE.sub(r"\1er\2", word) if "re" in word else word


@lru_cache(maxsize=1)
def _synonyms() -> dict[str, str]:
    """Return the stem of each synonym group's first word, by every word and by its own stem."""
    table: dict[str, str] = {}
    for line in files(__package__).joinpath("synonyms.txt").read_text(encoding="utf-8").splitlines():
        words = [] if line.startswith("#") else line.split()
        for word in words:
            table[word] = table[_snowball(word)] = _snowball(words[0])
    return table


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

    def only(self, places: Iterable[int]) -> Terms:
        """Return only the terms at these places."""
        kept = Terms(self.text)
        for place in places:
            kept.add(self.keys[place], self.starts[place], self.ends[place], self.kinds[place])
        return kept

    def text_at(self, place: int) -> str:
        """Return the text of a term."""
        return self.text[self.starts[place] : self.ends[place]]

    def content(self, places: Iterable[int] | None = None) -> list[int]:
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


def terms_of(text: str) -> Terms:
    """The terms of ``text`` in order; linear in its length."""
    parts = _TOKEN.split(text)  # alternates gaps and tokens
    gaps, tokens = parts[::2], parts[1::2]
    borders = list(accumulate(map(len, parts)))
    starts, ends = borders[::2], borders[1::2]
    read = list(map(_WORDS.__getitem__, tokens))
    words = [*map(itemgetter(0), read), ""]
    terms = Terms(text)
    add_key, add_kind = terms.keys.append, terms.kinds.append
    add_start, add_end = terms.starts.append, terms.ends.append
    following, negated, opening = 0, 0, True
    in_capitals = text.isupper() and " " in text  # capitals that mark no names
    sign: tuple[str, int, int] | None = None
    unit = ""
    for place, ((word, key, kind, capital, plain), start, end) in enumerate(zip(read, starts, ends, strict=False)):
        if place < following:
            continue
        if plain and not unit:
            add_key(key)  # faster than ``add``
            add_start(start)
            add_end(end)
            add_kind(kind | negated if kind else 0)
            negated = 0 if kind else negated
            opening = False
            continue
        if word in _BREAKS:
            negated, opening = 0, word not in ",()"
            continue
        following = place + 1
        keys: tuple[str, ...] = (unit or key,)
        unit = ""
        if tokens[place] in REGNAL and _has_name_before(read, place, gaps[place]) and not (in_capitals and word == "i"):
            keys, kind, capital = (f"#{REGNAL[tokens[place]]}",), CONTENT | NUMBER, False
        if not keys[0]:
            if word in CURRENCY_SIGNS and words[following][:1].isdecimal():
                sign = stem(word), starts[place], ends[place]  # "$5" is read as "5 dollars"
                continue
            negated = 0 if _bind(terms, words, place, start) else negated
            is_label = words[place - 1] in VERSIONS or (place > 0 and read[place - 1].capital)
            keys, taken, is_number = _read(words, gaps, place, is_label)
            following = place + taken
            kind = CONTENT | NUMBER if is_number else kind
        if capital and not (opening or in_capitals or kind & NUMBER):
            kind |= NAME
        for each in keys:
            terms.add(each, starts[place], ends[following - 1], kind | negated if kind else 0)
        if kind & NUMBER and sign is not None:
            terms.add(*sign, CONTENT)
            sign = None
        elif kind & NUMBER and words[following] in UNITS_BEHIND_NUMBERS:
            unit = stem(UNITS_BEHIND_NUMBERS[words[following]])
        negated = NEGATED if is_negator(word) else 0 if kind or word in CANCELLING else negated
        opening = False
    return terms


def _has_name_before(read: list[_Word], place: int, gap: str) -> bool:
    """Whether the token at ``place`` follows a name as a number does: "World War II", "Henry the Eighth"."""
    is_roman = len(read[place].folded) < 5 and read[place].folded.upper() in ROMAN
    name = place - 1 if is_roman else place - 2
    return name >= 0 and read[name].capital and not gap.strip() and (is_roman or read[place - 1].folded == "the")


def _bind(terms: Terms, words: list[str], place: int, start: int) -> bool:
    """Add the bound of the number at ``place``, or make the last terms one: "≥5", "at least 5", "no more than $5".

    Return whether a negator before the words is part of the bound.
    """
    if words[place][0] in BOUNDS:
        terms.add(BOUNDS[words[place][0]], start, start + 1, CONTENT)
        words[place] = words[place].lstrip("<>≤≥= ")
    place -= words[place - 1] in CURRENCY_SIGNS
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


def is_negator(word: str) -> bool:
    """Whether a lower-case word negates the words after it: "not", "never", "doesn't"."""
    return word in NEGATORS or word.endswith(("n't", "n’t"))


def _word_of(token: str) -> _Word:
    folded = _fold(token)
    key = _plain_key(folded)
    content = folded not in STOP_WORDS and not folded.endswith("n't")
    capital = content and token != token.lower()
    if _CODE.fullmatch(folded):
        return _Word(folded, f"#{folded}", CONTENT | NUMBER, False, False)
    special = folded in _BREAKS or folded in CANCELLING or is_negator(folded)
    return _Word(
        folded, key, CONTENT if content else 0, capital, bool(key) and not (capital or special or token in ROMAN)
    )


_WORDS = ByWord(_word_of)


def _plain_key(word: str) -> str:
    """Return the key of a word that does not depend on its neighbours; empty for numbers, months and number words."""
    if len(word) > _LONGEST_STEMMED:
        return word
    if _NUMBER.match(word) or word in _READ_WITH_NEIGHBOURS:
        return ""
    return word if word in STOP_WORDS else stem(word)


def _fold(token: str) -> str:
    """Normalize case and compatibility forms; "John's" becomes "john", "can’t" becomes "can't"."""
    if len(token) > _LONGEST_STEMMED:  # normalizing a long run of combining marks takes quadratic time
        return token.casefold()
    if token in _BREAKS or (token.isascii() and "\n" not in token):
        word = token.lower().replace(" & ", "&")
    else:
        word = normalised(token).casefold().replace("ё", "е").replace("♯", "#")
    stump, apostrophe, ending = word.rpartition("'")
    if apostrophe and ending in ("s", "re", "ve", "ll", "m", "d"):
        return stump
    return word[:-1] if len(word) > 2 and word.endswith(".") else word


def _read(words: list[str], gaps: list[str], place: int, is_label: bool) -> tuple[tuple[str, ...], int, bool]:
    """Return the keys of the term at ``place``, its number of tokens, and whether it is a number.

    ``words`` ends with an empty word.
    """
    word = words[place]
    if _NUMBER.match(word) is not None:
        return _read_digits(words, gaps, place, is_label)
    if word in HALVES:
        return ("#50%",), 1, True
    if word in TIMES:
        return (f"#{TIMES[word]}", stem("time")), 1, True
    if word in FRACTIONS:
        share = share_of_hundred(FRACTIONS[word]) if words[place + 1] == "of" and words[place - 1] in _ONE else None
        return (f"#{share}" if share else stem(word),), 1, share is not None
    if word in CURRENCY_SIGNS:
        return (stem(word),), 1, False
    if word in _DEGREES:
        scale = _SCALES_OF_DEGREES.get(words[place + 1])
        return ((scale,), 2, False) if scale else ((stem("degree"),), 1, False)
    if word in MONTHS and _is_month(words, place):
        return (f"month:{MONTHS[word]}",), 1, True
    value, taken = spelled_number(words[place : place + 8]) if word in SPELLED else (0, 0)
    if value > 1 and (part := FRACTIONS.get(words[place + taken].removesuffix("s"))) is not None:  # "three quarters"
        share = share_of_hundred(f"{value}{part[1:]}")
        if share is not None:
            return (f"#{share}",), taken + 1, True
    if VAGUE.isdisjoint(words[max(place - 1, 0) : place + 1]) and (
        taken > 1 or (taken == 1 and word not in STOP_WORDS)
    ):
        return (f"#{value}",), taken, True
    return (stem(word),), 1, False


def _read_digits(words: list[str], gaps: list[str], place: int, is_label: bool) -> tuple[tuple[str, ...], int, bool]:
    word, following = words[place], words[place + 1]
    date = read_date(word)
    if date is not None:
        day, month, year = date
        return (f"#{day}", f"month:{month}", f"#{year}"), 1, True
    if gaps[place + 1] in ("-", "–") and _is_score(word, following):
        return (f"#{word}:{following}",), 2, True
    adjacent = bool(following) and not gaps[place + 1]
    if adjacent and following in ("st", "nd", "rd", "th", "s"):
        near_month = any(near in MONTHS for near in words[max(place - 1, 0) : place + 4])
        ordinal = None if near_month or following == "s" else ORDINALS.get(word)
        return ((stem(ordinal),), 2, True) if ordinal else ((f"#{canonical_number(word)}",), 2, True)
    if (time := hour_of_day(word, following)) is not None:
        return (f"#{time}",), 2, True
    if word.isdecimal() and (share := share_of_hundred(following)) is not None:  # "2 1/2"
        return (f"#{canonical_number(f'{int(word) + float(share[:-1]) / 100:g}')}",), 2, True
    if (share := share_of_hundred(word)) is not None:
        return (f"#{share}",), 1, True
    if following in PERCENT:
        return (f"#{canonical_number(word)}%",), 2, True
    if following == "per" and words[place + 2] == "cent":
        return (f"#{canonical_number(word)}%",), 3, True
    if words[place - 1] in _MINUS:
        word = f"-{word}"
    scale = magnitude(following, words[place - 1])
    if scale is not None and (adjacent or len(following) > 1):
        return (f"#{canonical_number(word, scale)}",), 2, True
    is_label = is_label or not following or following in _BREAKS  # a version, or a number alone
    is_written = is_label and _VERSION.fullmatch(word) is not None and words[place - 1] not in CURRENCY_SIGNS
    return (f"#{word}" if is_written else f"#{canonical_number(word)}",), 1, True


def _is_score(first: str, second: str) -> bool:
    """Whether two numbers, joined by a dash, are a score: those of a range would rise."""
    return first.isdecimal() and second.isdecimal() and len(first) <= 2 and int(first) > int(second)


def _is_month(words: list[str], place: int) -> bool:
    """Whether the word is a month; short names, "may" and "march" are months only next to a number."""
    if len(words[place]) > 3 and words[place] != "march":
        return True
    beside = words[max(place - 1, 0) : place] + words[place + 1 : place + 2]
    return any(word[:1].isdecimal() or word in ("st", "nd", "rd", "th") for word in beside)
