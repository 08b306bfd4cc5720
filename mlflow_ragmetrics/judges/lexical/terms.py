"""A text as terms: every word and number with the key under which other spellings of it are found."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, chain, compress, islice
from operator import itemgetter
from typing import Any, Final, NamedTuple

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
from mlflow_ragmetrics.text.terms import ByWord

__all__ = [
    "CANCELLING",
    "CONTENT",
    "IS_CONTENT",
    "NAME",
    "NEGATED",
    "NUMBER",
    "ORS",
    "Term",
    "Terms",
    "canonical_number",
    "holds",
    "is_longer_than",
    "is_negator",
    "spelled_number",
    "stem",
    "terms_of",
]

_LONGEST_STEMMED: Final = 40
_WORDS_KEPT: Final = 50_000
_NUMBERS_KEPT: Final = 5_000
# The first two alternatives are most tokens, and are found there in half the time: plain words, and breaks. At a blank,
# none of the alternatives is tried.
_TOKEN = re.compile(
    r"(?! )([A-Za-z]{2,}(?![^\W\d_]|[\u0300-\u036f'’])|[.!?;:,()\n]"
    r"|\d{4}-\d{1,2}-\d{1,2}(?!\w)|\d{1,2}\.\d{1,2}\.\d{4}(?!\w)|\d{1,3}(?:, \d{3})*, 0\d{2}(?!\w)"
    r"|\d+(?:[.,:]\d+)*|[%$€£₽℃℉]|°(?:[CFcf](?!\w))?"
    r"|[぀-ヿ㐀-䶿一-鿿]|(?:[^\W\d_]\.){2,}|(?:[^\W\d_぀-ヿ㐀-䶿一-鿿][̀-ͯ]*)+(?:['’][^\W\d_]+)?)"
)
CANCELLING = frozenset(("only", "just", "necessarily", "только", "лишь"))
_VERBS = frozenset(("is", "was", "has", "had", "был", "была", "было", "является"))
_ACCENTED = re.compile("([a-z])[\u0300-\u036f]+")
_CYRILLIC = re.compile("[а-яё]")
_OUR = re.compile(r"(?<=[a-z]{3})our")
_ISE = re.compile(r"(?<=[a-z]{3})([iy])s(e|ed|es|er|ers|ing|ation|ations)$")
_RE = re.compile(r"(?<=[a-z]{2})([bt])re(s?)$")
_END: Final = ""  # stands behind the last word and before the first
_BREAKS = frozenset((*".!?;:,()\n", _END))
_OPENING = _BREAKS.difference(",()")  # what a sentence begins behind
_UNSTEMMED = frozenset("abfhjkopquvwxz")  # no suffix of the English stemmer ends in them
ORS = frozenset(("or", "nor", "или", "ни"))
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


class _Stemmers(threading.local):
    """Those of one thread: a Snowball stemmer keeps its word in itself."""

    def __init__(self) -> None:
        self.english, self.russian = map(snowballstemmer.stemmer, ("english", "russian"))


_STEMMERS = _Stemmers()


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
    stemmer = _STEMMERS.russian if _CYRILLIC.search(word) else _STEMMERS.english
    stemmed: str = stemmer.stemWord(_american(word))
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


_Word = tuple[str, str, int]
"""What a token is wherever it stands: its folded form, its key and flags; no key where its neighbours decide."""

CONTENT, NUMBER, NAME, NEGATED = 1, 2, 4, 8  # what a term is
_CAPITAL, _SECOND_CAPITAL, _NEGATES, _CANCELS, _READ, _OR, _VERB = (1 << bit for bit in range(4, 11))  # what else
_JOINS, _STOPS = _NEGATES | _OR, _NEGATES | _CANCELS
_NO_TERM: Final = -1  # a break, or a token that is part of the term before it
_OPENS: Final = -2  # a break behind which a sentence begins


class Terms:
    """The terms of a text in order, as columns: many are compared by their keys, few are looked at.

    Tuples of words or numbers cost the garbage collector nothing, however many texts are kept.
    """

    __slots__ = ("ends", "keys", "kinds", "starts", "text")

    def __init__(
        self, text: str, keys: Iterable[str], starts: Iterable[int], ends: Iterable[int], kinds: Iterable[int]
    ) -> None:
        self.text = text
        self.keys, self.starts, self.ends, self.kinds = tuple(keys), tuple(starts), tuple(ends), bytes(kinds)

    def only(self, places: Sequence[int]) -> Terms:
        """The terms at these places alone."""
        starts, ends = ([column[place] for place in places] for column in (self.starts, self.ends))
        return Terms(self.text, map(self.keys.__getitem__, places), starts, ends, map(self.kinds.__getitem__, places))

    def within(self, places: Sequence[range]) -> Terms:
        """The terms in these ranges of places alone."""
        columns: tuple[Sequence[Any], ...] = (self.keys, self.starts, self.ends, self.kinds)
        kept = (chain.from_iterable([column[each.start : each.stop] for each in places]) for column in columns)
        return Terms(self.text, *kept)

    def part(self, places: range, start: int, end: int) -> Terms:
        """The terms at these places as those of a text of their own, the part from ``start`` to ``end``."""
        first, last = places.start, places.stop
        starts, ends = ([each - start for each in column[first:last]] for column in (self.starts, self.ends))
        return Terms(self.text[start:end], self.keys[first:last], starts, ends, self.kinds[first:last])

    def has(self, kind: int) -> bool:
        """Whether any term is of a kind: ``NUMBER``, ``NEGATED``."""
        return holds(self.kinds, kind)

    def content(self, places: range | None = None) -> list[int]:
        """Which of these places, or of all, are those of content terms."""
        places = range(len(self.kinds)) if places is None else places
        return list(compress(places, self.kinds[places.start : places.stop].translate(IS_CONTENT)))

    def text_at(self, place: int) -> str:
        """The text of a term."""
        return self.text[self.starts[place] : self.ends[place]]

    def at(self, places: Iterable[int] | None = None) -> list[Term]:
        """The terms at these places, or all."""
        text, keys, starts, ends, kinds = self.text, self.keys, self.starts, self.ends, self.kinds
        new_term = tuple.__new__  # several times as fast as calling Term
        return [
            new_term(Term, (keys[i], text[starts[i] : ends[i]], starts[i], ends[i], *_FACTS[kinds[i]]))
            for i in (range(len(keys)) if places is None else places)
        ]


_WITHOUT = {kind: bytes(each for each in range(16) if not each & kind) for kind in (CONTENT, NUMBER, NAME, NEGATED)}
IS_CONTENT = bytes(kind & CONTENT for kind in range(256))
_FACTS = [tuple(bool(kind & each) for each in (CONTENT, NUMBER, NAME, NEGATED)) for kind in range(16)]


def holds(kinds: bytes, kind: int) -> bool:
    """Whether any of ``kinds`` is ``NUMBER``, ``NEGATED`` or whatever ``kind`` says."""
    return bool(kinds.translate(None, _WITHOUT[kind]))


def terms_of(text: str) -> Terms:
    """The terms of ``text`` in order; linear in its length."""
    reading = _Reading(text)
    reading.read()
    reading.negate()
    return reading.terms()


class _Added(NamedTuple):
    """A term besides the one that its token has: the month of a date, the "dollars" of "$5"."""

    place: int
    key: str
    start: int
    end: int
    sign: bool


class _Reading:
    """A text while it is read: columns of its tokens, one row each, that become those of its terms.

    Most tokens are words that mean the same wherever they stand. Only the others are looked at one by one.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        parts = _TOKEN.split(text)  # what lies before each token, and the token, in turn
        borders = list(accumulate(map(len, parts)))
        self._starts, self._ends = borders[::2], [*borders[1::2], len(text)]
        self._found = list(map(_WORDS.__getitem__, [*parts[1::2], _END]))
        self._keys, self._flags = (list(map(itemgetter(field), self._found)) for field in (1, 2))
        self._kinds = self._flags.copy()
        self._gaps = parts[::2]
        self._sign: tuple[str, int, int] | None = None
        self._added: list[_Added] = []
        self._negators: list[int] = []

    def read(self) -> None:
        """Say what each word is that is a name, a number or a unit, or that belongs to a number."""
        kinds, columns = self._kinds, self._flags
        for place in compress(range(len(columns)), map(CONTENT.__lt__, columns)):
            flags = columns[place]
            if kinds[place] < 0:
                continue
            if flags & _JOINS:
                self._negators.append(place)
            if flags & _READ:
                self._read(place, flags)
            elif flags & _CAPITAL and (columns[place - 1] != _OPENS or self._is_name(place + 1, flags)):
                kinds[place] = CONTENT | NAME
            else:
                kinds[place] = flags & CONTENT

    def _is_name(self, following: int, flags: int) -> bool:
        """Whether a capital at the beginning of a sentence is that of a name."""
        return flags & _SECOND_CAPITAL != 0 or (self._flags[following] > 0 and self._flags[following] & _VERB != 0)

    @cached_property
    def _words(self) -> list[str]:
        return list(map(itemgetter(0), self._found))

    def _read(self, place: int, flags: int) -> None:
        words, kinds = self._words, self._kinds
        word = words[place]
        if word in CURRENCY_SIGNS and words[place + 1][:1].isdecimal():
            self._sign = stem(word), self._starts[place], self._ends[place]  # "$5" is read as "5 dollars"
            kinds[place] = _NO_TERM
            return
        keys, taken, number = _read(words, self._gaps, place)
        following = place + taken
        self._keys[place] = keys[0]
        if taken > 1:
            kinds[place + 1 : following] = [_NO_TERM] * (taken - 1)
            self._ends[place] = self._ends[following - 1]
        if len(keys) > 1:
            self._added += [_Added(place, key, self._starts[place], self._ends[place], False) for key in keys[1:]]
        if not number:
            kinds[place] = flags & CONTENT
            if flags & _CAPITAL and (self._flags[place - 1] != _OPENS or self._is_name(following, flags)):
                kinds[place] |= NAME
            return
        kinds[place] = CONTENT | NUMBER
        if self._sign is not None:
            self._added.append(_Added(place, *self._sign, True))
            self._sign = None
        elif words[following] in UNITS_BEHIND_NUMBERS:
            self._keys[following] = stem(UNITS_BEHIND_NUMBERS[words[following]])

    def negate(self) -> None:
        """Mark the first content word behind each negator in its clause, and what "or" joins to it."""
        signed = {each.place for each in self._added if each.sign}
        for place in self._negators:
            if self._flags[place] & _NEGATES or self._follows_negated(place, signed):
                self._negate_behind(place + 1)

    def _follows_negated(self, place: int, signed: set[int]) -> bool:
        """Whether the term before is negated: "no taste or smell"."""
        before = place - 1
        while before >= 0 and self._kinds[before] < 0:
            before -= 1
        return before >= 0 and self._kinds[before] & NEGATED != 0 and before not in signed

    def _negate_behind(self, place: int) -> None:
        while self._flags[place] >= 0:
            kind, flags = self._kinds[place], self._flags[place]
            if kind >= 0:
                if kind & CONTENT:
                    self._kinds[place] |= NEGATED
                if kind & CONTENT or flags & _STOPS:
                    return
            place += 1

    def terms(self) -> Terms:
        """The terms, once all is read."""
        columns: list[list[Any]] = [self._keys, self._starts, self._ends, self._kinds]
        if self._added:
            kinds = [CONTENT if each.sign else self._kinds[each.place] for each in self._added]
            values = [*([each[field] for each in self._added] for field in (1, 2, 3)), kinds]
            columns = list(map(self._with_added, columns, values))
        kept = list(map((0).__le__, columns[-1]))
        return Terms(self._text, *(compress(column, kept) for column in columns))

    def _with_added(self, column: list[Any], values: Iterable[Any]) -> list[Any]:
        """A column with the values of what was added, each behind its place."""
        merged: list[Any] = []
        begin = 0
        for each, value in zip(self._added, values, strict=True):
            merged += column[begin : each.place + 1]
            merged.append(value)
            begin = each.place + 1
        return merged + column[begin:]


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
        return folded, "", _OPENS if folded in _OPENING else _NO_TERM
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
        _OR: folded in ORS,
        _VERB: folded in _VERBS,
    }
    return folded, key, sum(flag for flag, each in holds.items() if each)


_WORDS = ByWord(_word_of)


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
    """The keys of the term at ``place``, how many tokens it takes, and whether it is a number.

    Behind the last of the words stands an empty one.
    """
    word = words[place]
    first = word[0]
    if first.isdecimal():
        return _read_digits(words, gaps, place)
    if word in CURRENCY_SIGNS:
        return (stem(word),), 1, False
    if word in _DEGREES:
        scale = _SCALES_OF_DEGREES.get(words[place + 1])
        return ((scale,), 2, False) if scale else ((stem("degree"),), 1, False)
    if word in MONTHS and _is_month(words, place):
        return (f"month:{MONTHS[word]}",), 1, True
    value, taken = spelled_number(words[place : place + 8]) if word in SPELLED else (0, 0)
    if taken > 1 or (taken == 1 and word not in STOP_WORDS):
        return (f"#{value}",), taken, True
    return (stem(word),), 1, False


def _read_digits(words: list[str], gaps: list[str], place: int) -> tuple[tuple[str, ...], int, bool]:
    word = words[place]
    keys = _keys_of_digits(word)
    if len(keys) > 1:
        return keys, 1, True
    following = words[place + 1]
    adjacent = bool(following) and not gaps[place + 1]
    if adjacent and following in ("st", "nd", "rd", "th", "s"):
        near_month = any(near in MONTHS for near in words[max(place - 1, 0) : place + 4])
        ordinal = None if near_month else ORDINALS.get(word + following)
        return ((stem(ordinal),), 2, False) if ordinal else (keys, 2, True)
    scale = SCALES.get(following)
    if scale is not None and (adjacent or len(following) > 1):
        return (f"#{canonical_number(word, scale)}",), 2, True
    return keys, 1, True


@lru_cache(maxsize=_NUMBERS_KEPT)
def _keys_of_digits(word: str) -> tuple[str, ...]:
    """The key of a number, or those of a date: its day, month and year."""
    date = _read_date(word)
    if date is None:
        return (f"#{canonical_number(word)}",)
    day, month, year = date
    return f"#{day}", f"month:{month}", f"#{year}"


def _is_month(words: list[str], place: int) -> bool:
    """Short names and "may", "march" are months only beside a number."""
    if len(words[place]) > 3 and words[place] != "march":
        return True
    beside = words[max(place - 1, 0) : place] + words[place + 1 : place + 2]
    return any(word[:1].isdecimal() or word in ("st", "nd", "rd", "th") for word in beside)


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
