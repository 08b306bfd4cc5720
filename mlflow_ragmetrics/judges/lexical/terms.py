"""A text as terms: every word and number with the key under which other spellings of it are found."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, chain, islice
from typing import Final, NamedTuple

import snowballstemmer

from mlflow_ragmetrics.judges.lexical.words import (
    CURRENCY_SIGNS,
    MONTHS,
    NEGATORS,
    ORDINALS,
    SCALES,
    SPELLED,
    SPELLED_NUMBERS,
    STOP_WORDS,
    SYNONYMS,
    UNITS_BEHIND_NUMBERS,
)

__all__ = [
    "CANCELLING",
    "NEGATED",
    "Term",
    "Terms",
    "canonical_number",
    "is_longer_than",
    "is_negator",
    "spelled_number",
    "stem",
    "terms_of",
]

_LONGEST_STEMMED: Final = 40
_WORDS_KEPT: Final = 50_000
# The first two alternatives are most tokens, and are found there in half the time: plain words, and breaks.
_TOKEN = re.compile(
    r"([A-Za-z]{2,}(?![^\W\d_]|[\u0300-\u036f'’])|[.!?;:,()\n]"
    r"|\d{4}-\d{1,2}-\d{1,2}(?!\w)|\d{1,2}\.\d{1,2}\.\d{4}(?!\w)|\d{1,3}(?:, \d{3})*, 0\d{2}(?!\w)"
    r"|\d+(?:[.,:]\d+)*|[%$€£₽℃℉]|°(?:[CFcf](?!\w))?"
    r"|[぀-ヿ㐀-䶿一-鿿]|(?:[^\W\d_]\.){2,}|(?:[^\W\d_぀-ヿ㐀-䶿一-鿿][̀-ͯ]*)+(?:['’][^\W\d_]+)?)"
)
CANCELLING = frozenset(("only", "just", "necessarily", "только", "лишь"))
_VERBS = (["is"], ["was"], ["has"], ["had"], ["был"], ["была"], ["было"], ["является"])
_ACCENTED = re.compile("([a-z])[\u0300-\u036f]+")
_CYRILLIC = re.compile("[а-яё]")
_OUR = re.compile(r"(?<=[a-z]{3})our")
_ISE = re.compile(r"(?<=[a-z]{3})([iy])s(e|ed|es|er|ers|ing|ation|ations)$")
_RE = re.compile(r"(?<=[a-z]{2})([bt])re(s?)$")
_BREAKS = frozenset(".!?;:,()\n")
_UNSTEMMED = frozenset("abfhjkopquvwxz")  # no suffix of the English stemmer ends in them
_ORS = frozenset(("or", "nor", "или", "ни"))
_DEGREES = frozenset(("degree", "degrees", "°", "градус", "градуса", "градусов"))
_SCALES_OF_DEGREES = {
    "celsius": "celsius",
    "c": "celsius",
    "fahrenheit": "fahrenheit",
    "f": "fahrenheit",
    "цельсия": "celsius",
    "фаренгейта": "fahrenheit",
}
_DATE = re.compile(r"(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})|(?P<d2>\d{1,2})\.(?P<m2>\d{1,2})\.(?P<y2>\d{4})")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_LOCK = threading.Lock()


class Term(NamedTuple):
    """One word or number: its key, its text and place, and what kind of word it is.

    ``key`` is the stem, or "#" and the value of a number, or "month:" and its place in the year. ``content`` is false
    for function words; ``negated`` says that it is the first content word after a negator in its clause.
    """

    key: str
    text: str
    start: int
    end: int
    content: bool
    number: bool
    name: bool
    negated: bool


@lru_cache(maxsize=1)
def _stemmers() -> tuple[snowballstemmer.stemmer, snowballstemmer.stemmer]:
    return snowballstemmer.stemmer("english"), snowballstemmer.stemmer("russian")


def stem(word: str) -> str:
    """The Snowball stem of a case-folded word, Russian for Cyrillic and English else; long runs stay as they are."""
    return word if len(word) > _LONGEST_STEMMED else _stem_short(word)


@lru_cache(maxsize=_WORDS_KEPT)
def _stem_short(word: str) -> str:
    synonyms = _synonyms()
    if word in synonyms:
        return synonyms[word]
    stemmed = _snowball(word)
    return synonyms.get(stemmed, stemmed)


def _snowball(word: str) -> str:
    if len(word) < 3 or (word[-1] in _UNSTEMMED and word.isascii()):
        return word
    english, russian = _stemmers()
    with _LOCK:  # a Snowball stemmer keeps its word in itself
        stemmed: str = (russian if _CYRILLIC.search(word) else english).stemWord(_american(word))
    return stemmed


def _american(word: str) -> str:
    """British spellings as American ones; words that are spelled alike everywhere may change too, but all alike."""
    if "our" in word:
        word = _OUR.sub("or", word)
    if "is" in word or "ys" in word:
        word = _ISE.sub(r"\1z\2", word)
    return _RE.sub(r"\1er\2", word) if "re" in word else word


@lru_cache(maxsize=1)
def _synonyms() -> dict[str, str]:
    """The stem that stands for each word of a group of synonyms, by the word and by its own stem."""
    table: dict[str, str] = {}
    for first, *others in SYNONYMS:
        chosen = _snowball(first)
        for word in (first, *others):
            table[word] = table[_snowball(word)] = chosen
    return table


class _Word(NamedTuple):
    """What a token is wherever it stands: its folded form, its key and flags; no key where its neighbours decide."""

    folded: str
    key: str
    flags: int


CONTENT, NUMBER, NAME, NEGATED = 1, 2, 4, 8  # what a term is
_CAPITAL, _SECOND_CAPITAL, _NEGATES, _CANCELS, _BREAK, _READ, _TAKEN, _OR = (1 << bit for bit in range(4, 12))  # a word


class Terms:
    """The terms of a text in order, as columns: many are compared by their keys, few are looked at."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.keys: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.kinds: list[int] = []

    def add(self, key: str, start: int, end: int, kind: int) -> None:
        """Append a term."""
        self.keys.append(key)
        self.starts.append(start)
        self.ends.append(end)
        self.kinds.append(kind)

    def keep(self, ranges: Sequence[range]) -> None:
        """Leave out what stands in none of these ranges of places."""
        self.keys[:] = [key for each in ranges for key in self.keys[each.start : each.stop]]
        for column in (self.starts, self.ends, self.kinds):
            column[:] = [number for each in ranges for number in column[each.start : each.stop]]

    def content(self, places: range | None = None) -> list[int]:
        """Which of these places, or of all, are those of content terms."""
        first, last = (places.start, places.stop) if places is not None else (0, None)
        return [place for place, kind in enumerate(self.kinds[first:last], first) if kind & CONTENT]

    def at(self, places: Iterable[int] | None = None) -> list[Term]:
        """The terms at these places, or all."""
        text, keys, starts, ends, kinds = self.text, self.keys, self.starts, self.ends, self.kinds
        new_term = tuple.__new__  # several times as fast as calling Term
        return [
            new_term(Term, (keys[i], text[starts[i] : ends[i]], starts[i], ends[i], *_FACTS[kinds[i]]))
            for i in (range(len(keys)) if places is None else places)
        ]


_FACTS = [tuple(bool(kind & each) for each in (CONTENT, NUMBER, NAME, NEGATED)) for kind in range(16)]


def terms_of(text: str) -> Terms:
    """The terms of ``text`` in order; linear in its length."""
    reading = _Reading(text)
    terms, borders = reading.terms, reading.borders
    keys, starts, ends, kinds = terms.keys, terms.starts, terms.ends, terms.kinds
    for place, (_, key, flags) in enumerate(reading.found):
        if flags <= CONTENT and not reading.negating:  # a word that means the same wherever it stands: nearly all are
            keys.append(key)
            starts.append(borders[2 * place])
            ends.append(borders[2 * place + 1])
            kinds.append(flags)
            reading.opening = False
        else:
            reading.take(place)
    return terms


class _Reading:
    """A text while it is read: ``found`` are its tokens, in the order in which they are to be taken.

    ``negating``: a negator stands before, with no content word between. ``opening``: a sentence begins here.
    """

    def __init__(self, text: str) -> None:
        self.terms = Terms(text)
        parts = _TOKEN.split(text)  # what lies before each token, and the token, in turn
        self.borders = list(accumulate(map(len, parts)))
        self.found = list(map(_WORDS.__getitem__, parts[1::2]))
        self.negating, self.opening = False, True
        self._gaps = parts[::2]
        self._words = [folded for folded, _, _ in self.found]
        self._sign: tuple[str, int, int] | None = None

    def take(self, place: int) -> None:
        """Read the token at ``place``, and what belongs to it behind it, which is then taken already."""
        word, key, flags = self.found[place]
        if flags & _BREAK:
            self.negating, self.opening = False, word not in ",()"
        elif flags & _READ:
            self._read(place, word, flags)
        elif not flags & _TAKEN:
            self._add((key,), place, 1, flags, flags & CONTENT)

    def _read(self, place: int, word: str, flags: int) -> None:
        if word in CURRENCY_SIGNS and place + 1 < len(self.found) and self._words[place + 1][0].isdecimal():
            self._sign = stem(word), self.borders[2 * place], self.borders[2 * place + 1]  # "$5" is read as "5 dollars"
            return
        keys, taken, number = _read(self._words, self._gaps, place)
        self.found[place + 1 : place + taken] = [_TAKEN_WORD] * (taken - 1)
        if not number:
            self._add(keys, place, taken, flags, flags & CONTENT)
            return
        self._add(keys, place, taken, flags & ~_CAPITAL, CONTENT | NUMBER)
        following = self._words[place + taken] if place + taken < len(self.found) else ""
        if self._sign is not None:
            self.terms.add(*self._sign, CONTENT)
            self._sign = None
        elif following in UNITS_BEHIND_NUMBERS:
            flags = (self.found[place + taken].flags | CONTENT) & ~_READ
            self.found[place + taken] = _Word(following, stem(UNITS_BEHIND_NUMBERS[following]), flags)

    def _add(self, keys: tuple[str, ...], place: int, taken: int, flags: int, kind: int) -> None:
        following = place + taken
        verb = self._words[following : following + 1] in _VERBS
        if flags & _CAPITAL and (not self.opening or flags & _SECOND_CAPITAL or verb):
            kind |= NAME
        if self.negating and kind & CONTENT:
            kind |= NEGATED
        for key in keys:
            self.terms.add(key, self.borders[2 * place], self.borders[2 * following - 1], kind)
        if flags & _NEGATES:
            self.negating = True
        elif kind & CONTENT or flags & _CANCELS:
            self.negating = False
        elif flags & _OR and any(each & NEGATED for each in self.terms.kinds[-2:]):
            self.negating = True  # "no taste or smell"
        self.opening = False


def is_longer_than(most: int, texts: Iterable[str]) -> bool:
    """Whether ``texts`` together hold more than ``most`` words, numbers and marks; reads no further than that."""
    texts = list(texts)
    if sum(map(len, texts)) <= most or sum(len(text) - text.count(" ") for text in texts) <= most:
        return False
    tokens = chain.from_iterable(map(_TOKEN.finditer, texts))
    return next(islice(tokens, most, None), None) is not None


def is_negator(word: str) -> bool:
    """Whether a word in lower case negates what follows it: "not", "never", "doesn't"."""
    return word in NEGATORS or word.endswith(("n't", "n’t"))


def _word_of(token: str) -> _Word:
    folded = _fold(token)
    if folded in _BREAKS:
        return _Word(folded, "", _BREAK)
    key = _plain_key(folded)
    contracted = folded.endswith("n't")
    content = folded not in STOP_WORDS and not contracted
    holds = {
        CONTENT: content,
        _CAPITAL: content and token[0].isupper(),
        _SECOND_CAPITAL: content and token[0].isupper() and token[1:2].isupper(),
        _NEGATES: contracted or folded in NEGATORS,
        _CANCELS: folded in CANCELLING,
        _READ: not key,
        _OR: folded in _ORS,
    }
    return _Word(folded, key, sum(flag for flag, each in holds.items() if each))


class _Words(dict[str, _Word]):
    """The words of tokens, each made when it is first asked for; all are forgotten when they have become many."""

    def __missing__(self, token: str) -> _Word:
        word = _word_of(token)
        if len(token) <= _LONGEST_STEMMED:
            if len(self) >= _WORDS_KEPT:
                self.clear()
            self[token] = word
        return word


_WORDS = _Words()
_TAKEN_WORD = _Word("", "", _TAKEN)


def _plain_key(word: str) -> str:
    """The key of a word that needs no look at its neighbours; empty for numbers, months and number words."""
    if len(word) > _LONGEST_STEMMED:
        return word
    if word[0].isdecimal() or word in MONTHS or word in SPELLED or word in _DEGREES or word in CURRENCY_SIGNS:
        return ""
    return word if word in STOP_WORDS else stem(word)


def _fold(token: str) -> str:
    """Case and compatibility forms away; "John's" is "john", "can’t" is "can't"."""
    # Normalising a long run of combining marks would take quadratic time, and keeping long tokens much memory.
    return token.casefold() if len(token) > _LONGEST_STEMMED else _fold_short(token)


def _fold_short(token: str) -> str:
    if token.isascii():
        word = token.lower()
    else:
        word = unicodedata.normalize("NFKC", token).replace("’", "'").casefold().replace("ё", "е")
        word = _without_accents(word)
    stump, apostrophe, ending = word.rpartition("'")
    if apostrophe and ending in ("s", "re", "ve", "ll", "m", "d"):
        return stump
    return word[:-1] if len(word) > 2 and word.endswith(".") else word


def _without_accents(word: str) -> str:
    """Latin letters without their accents: "beyoncé" is "beyonce"; other scripts keep their marks."""
    decomposed = unicodedata.normalize("NFD", word)
    return _ACCENTED.sub(r"\1", decomposed) if decomposed[0] < "\u0250" else word


def _read(words: list[str], gaps: list[str], place: int) -> tuple[tuple[str, ...], int, bool]:
    """The keys of the term at ``place``, how many tokens it takes, and whether it is a number."""
    word = words[place]
    first = word[0]
    if first.isdecimal():
        return _read_digits(words, gaps, place)
    if word in CURRENCY_SIGNS:
        return (stem(word),), 1, False
    if word in _DEGREES:
        scale = _SCALES_OF_DEGREES.get(words[place + 1] if place + 1 < len(words) else "")
        return ((scale,), 2, False) if scale else ((stem("degree"),), 1, False)
    if word in MONTHS and _is_month(words, place):
        return (f"month:{MONTHS[word]}",), 1, True
    value, taken = spelled_number(words[place : place + 8]) if word in SPELLED else (0, 0)
    if taken > 1 or (taken == 1 and word not in STOP_WORDS):
        return (f"#{value}",), taken, True
    return (stem(word),), 1, False


def _read_digits(words: list[str], gaps: list[str], place: int) -> tuple[tuple[str, ...], int, bool]:
    word = words[place]
    date = _read_date(word)
    if date is not None:
        day, month, year = date
        return (f"#{day}", f"month:{month}", f"#{year}"), 1, True
    following = words[place + 1] if place + 1 < len(words) else ""
    adjacent = bool(following) and not gaps[place + 1]
    if adjacent and following in ("st", "nd", "rd", "th", "s"):
        near_month = any(near in MONTHS for near in words[max(place - 1, 0) : place + 4])
        ordinal = None if near_month else ORDINALS.get(word + following)
        return ((stem(ordinal),), 2, False) if ordinal else ((f"#{canonical_number(word)}",), 2, True)
    scale = SCALES.get(following)
    if scale is not None and (adjacent or len(following) > 1):
        return (f"#{canonical_number(word, scale)}",), 2, True
    return (f"#{canonical_number(word)}",), 1, True


def _is_month(words: list[str], place: int) -> bool:
    """Short names and "may", "march" are months only beside a number."""
    if len(words[place]) > 3 and words[place] != "march":
        return True
    beside = words[max(place - 1, 0) : place] + words[place + 1 : place + 2]
    return any(word[0].isdecimal() or word in ("st", "nd", "rd", "th") for word in beside)


def canonical_number(digits: str, scale: int = 1) -> str:
    """The value of ``digits`` times ``scale`` in one spelling: "1,200.50" is "1200.5", "1.5" million "1500000".

    A comma groups thousands or, in any other place, is a decimal sign. Times and versions ("10:30", "1.2.3") stay.
    """
    digits = digits.replace(" ", "")
    text = digits.replace(",", "") if _GROUPED.fullmatch(digits) else digits.replace(",", ".")
    whole, dot, decimals = text.partition(".")
    if not whole.isdecimal() or not (decimals.isdecimal() or not dot):
        return text
    if len(whole) > 15:
        return text
    if scale == 1 and not decimals.strip("0"):
        return str(int(whole))
    value = round(float(text) * scale, 9)
    return str(int(value)) if value == int(value) else f"{value:.9f}".rstrip("0")


def _read_date(text: str) -> tuple[str, str, str] | None:
    """Day, month and year of "2018-05-19" or "19.05.2018", else ``None``."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    day, month, year = match["d"] or match["d2"], match["m"] or match["m2"], match["y"] or match["y2"]
    return (str(int(day)), str(int(month)), year) if 1 <= int(month) <= 12 else None


def spelled_number(words: Sequence[str]) -> tuple[int, int]:
    """The number that the first words spell, and how many words it takes: ("two", "hundred", "men") is (200, 2).

    Nothing spelled is (0, 0). "one" alone is a pronoun as often as a number and is left to the caller.
    """
    total = current = taken = 0
    previous = 0
    for place, word in enumerate(words):
        unit, scale = SPELLED_NUMBERS.get(word), SCALES.get(word)
        if unit is not None:
            if previous and not (previous > unit and previous >= 20):
                break
            current, previous, taken = current + unit, unit or 1, place + 1
        elif scale is not None and (taken or scale > 100):
            if scale == 100:
                current, previous = max(current, 1) * 100, 100
            else:
                total, current, previous = total + max(current, 1) * scale, 0, scale
            taken = place + 1
        elif word == "and" and previous >= 100:
            continue
        else:
            break
    return total + current, taken
