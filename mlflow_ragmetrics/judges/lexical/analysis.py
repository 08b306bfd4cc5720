"""Texts taken apart once: sentences, claims that are pieces of an answer, and passages as an index of terms."""

from __future__ import annotations

import re
import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Final, Generic, NamedTuple, TypeVar

from mlflow_ragmetrics.core.text import has_content
from mlflow_ragmetrics.judges.lexical.terms import NEGATED, Term, Terms, terms_of
from mlflow_ragmetrics.judges.lexical.words import (
    ABBREVIATIONS,
    CLOSING_ABBREVIATIONS,
    CURRENCY_SIGNS,
    STOP_WORDS,
    SUBJECTS,
)

__all__ = [
    "CLAUSE_END",
    "MARKER",
    "sentence_spans",
    "split_claims",
    "Recent",
    "Analysis",
    "analysed",
    "MOST_PLACES",
    "Place",
    "Source",
    "places_per_word",
    "source_of",
]

Span = tuple[int, int]

MARKER = re.compile(r"[ \t]*(?:#{1,6}(?=\s)|[-*•‣◦–—·](?=\s)|\(?(?:\d{1,2}|[A-Za-zа-я])[.)](?=\s))[ \t]*")
# A run of stops is tried from its first one only: tried from each, a long run would take quadratic time.
_STOP = re.compile(
    r"(?=[.!?…。！？])"
    r"(?:(?<![.!?…])[.!?…]+[\"'”’»)\]]*(?=\s|$)|(?<=[a-zа-яё]{3})[.!?](?=[A-ZА-ЯЁ][a-zа-яё])|[。！？]+[」』”）]*)"
)
_WORD_BREAK = re.compile(r"[\s\"'“”«»(\[]")
_WORD_AFTER = re.compile(r"\s*[\"'“«(\[]*([^\W_]+)")
_WRAPPED_LINE = 50


def sentence_spans(text: str) -> list[Span]:
    """The sentences of ``text`` as (start, end), without the white space and list markers around them."""
    spans: list[Span] = []
    for line_start, line_end in _line_spans(text):
        marker = MARKER.match(text, line_start, line_end)
        start = marker.end() if marker else line_start
        for stop in _STOP.finditer(text, start, line_end):
            if _ends_sentence(text, start, stop):
                _append(spans, text, start, stop.end())
                start = stop.end()
        _append(spans, text, start, line_end)
    return spans


def _append(spans: list[Span], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    stripped = piece.strip()
    if has_content(stripped):
        start += piece.index(stripped)
        spans.append((start, start + len(stripped)))


def _line_spans(text: str) -> list[Span]:
    """Lines, with a hard-wrapped paragraph as one: a long line that a lower-case letter continues."""
    spans: list[Span] = []
    start = line = 0
    while line < len(text):
        end = text.find("\n", line)
        end = len(text) if end < 0 else end
        following = text[end + 1 : end + 2]
        if not (end - line >= _WRAPPED_LINE and following.islower()) or end == len(text):
            spans.append((start, end))
            start = end + 1
        line = end + 1
    return spans


def _ends_sentence(text: str, start: int, stop: re.Match[str]) -> bool:
    """Whether this stop ends a sentence, and not an abbreviation, an initial or a list number."""
    if stop.group()[0] != "." or len(stop.group()) > 1:
        return True
    word = _WORD_BREAK.split(text[max(start, stop.start() - 30) : stop.start()])[-1]
    after = _WORD_AFTER.match(text, stop.end(), stop.end() + 60)
    if not word or after is None:
        return True
    folded, following = word.casefold(), after.group(1)
    if following.islower() and text[stop.end() : stop.end() + 1].isspace():
        return False
    if folded in ABBREVIATIONS:
        return False
    if folded in CLOSING_ABBREVIATIONS:
        return following.casefold() in STOP_WORDS
    before = stop.start() - len(word)
    if len(folded) == 1 and word.isupper():
        earlier = text[max(start, before - 60) : before].split()
        return bool(earlier) and earlier[-1].islower()
    return not (folded.isdecimal() and before == start)


_FEWEST_WORDS: Final = 3
_AHEAD: Final = 100
# Blanks before a citation go with it; they are tried from the first one only, as the stops above are.
_CITATION = re.compile(r"(?<!\s)\s*(?:\[\^?\d+(?:\s*[,–-]\s*\d+)*\]|【[^【】]*】)")
_EMPHASIS = re.compile(r"\*\*|__|`")
_REMARK = re.compile(
    r"^(?:(?:please )?(?:let me know|feel free)|i hope|good luck|you['’]re welcome|happy to help|sure[,!.]"
    r"|надеюсь|удачи|обращайтесь|дайте знать)"
    r"|\b(?=[iwptcdsnотк])(?:"  # so that the others are tried at few words
    r"(?:i|we)(?: am| are|['’]m|['’]re)? (?:unable|cannot|can['’]t|can not) (?:to )?(?:answer|determine|say|tell)\b"
    r"|it(?: is|['’]s) (?:unable|impossible|not possible|difficult) to (?:answer|determine|provide|say|tell)\b"
    r"|(?:passages?|texts?|contexts?|documents?|sources?|information)\b[^.]{0,40}"
    r"\b(?:do|does|did|is|are)(?:n['’]t| not) (?:\w+ )?"
    r"(?:mention|provid|say|specif|contain|state|include|sufficient|enough|give|address)"
    r"|no (?:\w+ )?(?:information|mention)\b[^.]{0,60}\b(?:passages?|texts?|contexts?|provided|given)\b"
    r"|(?:отрывк|текст|контекст)\w*[^.]{0,40}\bне (?:\w+ )?(?:упомин|указ|содерж|говор|сообщ)"
    r"|(?:отрывк|текст|контекст)\w*[^.]{0,40}\bнет (?:\w+ )?(?:информации|сведений|данных))",
    re.IGNORECASE,
)
CLAUSE_END = re.compile(r";\s+|,\s+(?:and|but|while|whereas|а|но|и)\s+")
_CLAUSE = re.compile(rf"{CLAUSE_END.pattern}(?=(\w+)\s)")


def split_claims(text: str) -> tuple[str, ...]:
    """The claims of ``text``: sentences and list items, and clauses that have a subject of their own.

    Citations such as "[2]" and emphasis marks are removed. Questions and lead-ins ("Here are the steps:") state
    nothing and are left out, as are courtesies ("Let me know if …") and remarks that the passages do not say it, unless
    there is nothing else. No letter or digit: no claim.
    """
    pieces = [_clean(text[start:end]) for start, end in sentence_spans(text)]
    stated = [piece for piece in pieces if piece and not _states_nothing(piece)]
    return tuple(claim for piece in stated or pieces if piece for claim in _clauses(piece))


def _clean(piece: str) -> str:
    return _EMPHASIS.sub("", _CITATION.sub("", piece)).strip()


def _states_nothing(piece: str) -> bool:
    return piece.endswith(("?", ":", "？", "：")) or _REMARK.search(piece) is not None


def _clauses(sentence: str) -> list[str]:
    """Cut at a semicolon, or at ", and" and its like where a pronoun or article opens the next clause."""
    clauses: list[str] = []
    start = 0
    for cut in _CLAUSE.finditer(sentence):
        subject = cut.group(1)
        if subject is not None and subject.casefold() not in SUBJECTS:
            continue
        if not (_has_words(sentence[start : cut.start()]) and _has_words(sentence[cut.end() : cut.end() + _AHEAD])):
            continue
        clauses.append(sentence[start : cut.start()])
        start = cut.end()
    return [*clauses, sentence[start:]]


def _has_words(piece: str) -> bool:
    return len(piece.split(maxsplit=_FEWEST_WORDS)) >= _FEWEST_WORDS


_TEXT_KEPT: Final = 400_000

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """The values made for the most recently asked keys, kept while their sizes sum to ``capacity`` at most."""

    def __init__(self, make: Callable[[Key], Value], size: Callable[[Key], int], capacity: int) -> None:
        self._make, self._size, self._capacity = make, size, capacity
        self._kept: OrderedDict[Key, Value] = OrderedDict()
        self._total = 0
        self._lock = threading.Lock()

    def __call__(self, key: Key) -> Value:
        """The value of ``key``, made now or kept from before."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        value = self._make(key)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = value
                self._total += self._size(key)
            while self._total > self._capacity and len(self._kept) > 1:
                oldest, _ = self._kept.popitem(last=False)
                self._total -= self._size(oldest)
        return value


class Sentence(NamedTuple):
    """A sentence: where it stands in its text, and the places of its terms."""

    start: int
    end: int
    terms: range


class Analysis:
    """The sentences of a text and the terms in them; what stands in no sentence, such as a list marker, is left out."""

    def __init__(self, text: str) -> None:
        self.terms = terms = terms_of(text)
        spans = sentence_spans(text)
        starts = terms.starts
        if any(sign in text for sign in CURRENCY_SIGNS):
            starts = list(accumulate(starts, max))  # a currency sign comes behind its number
        found, place = [], 0
        for start, end in spans:
            first = bisect_left(starts, start, place)
            place = bisect_left(starts, end, first)
            found.append(range(first, place))
        borders = [0, *accumulate(map(len, found))]
        if borders[-1] < len(terms.keys):
            terms.keep(found)
        self.sentences = [Sentence(*span, range(*each)) for span, each in zip(spans, pairwise(borders), strict=True)]


analysed = Recent(Analysis, len, _TEXT_KEPT)


_PASSAGES_KEPT: Final = 200_000
_PREFIX: Final = 5
_LONGEST: Final = 60
_NEAR: Final = 4
_FEWEST_PLACES: Final = 5
_WORK: Final = 5_000_000
MOST_PLACES: Final = 500  # of one key: what a claim costs stays bounded however long the passages are


class Place:
    """One sentence of a passage: the passage's number from 1, its content terms and their keys."""

    def __init__(self, passage: int, within: Terms, start: int, end: int, content: list[int]) -> None:
        self.passage = passage
        self._within, self._start, self._end, self._content = within, start, end, content
        self.keys = list(map(within.keys.__getitem__, content))

    @property
    def text(self) -> str:
        """The sentence."""
        return self._within.text[self._start : self._end]

    @cached_property
    def terms(self) -> list[Term]:
        """Its content terms."""
        return self._within.at(self._content)

    @cached_property
    def negates(self) -> bool:
        """Whether any of its terms is negated."""
        kinds = self._within.kinds
        return any(map(NEGATED.__and__, map(kinds.__getitem__, self._content)))


class Source:
    """Passages, indexed by the keys of their content terms.

    ``places``: their sentences in order; one of more than 60 content terms (a table, a menu) is several places.
    All content terms stand in one row. Where a key stands there is found when it is asked for: each term knows where
    its key stood last before it.
    """

    def __init__(self, passages: tuple[str, ...]) -> None:
        self.places: list[Place] = []
        self._starts: list[int] = []  # of the places, in the row
        self._last: dict[str, int] = {}
        self._before: list[int] = []
        self._positions: dict[str, list[int]] = {}
        self._postings: dict[str, list[int]] = {}
        for number, passage in enumerate(passages, start=1):
            analysis = analysed(passage)
            for sentence in analysis.sentences:
                content = analysis.terms.content(sentence.terms)
                if len(content) > _LONGEST:
                    self._cut(number, analysis.terms, sentence, content)
                elif content:
                    self._add(Place(number, analysis.terms, sentence.start, sentence.end, content))

    def _cut(self, number: int, terms: Terms, sentence: Sentence, content: list[int]) -> None:
        for first in range(0, len(content), _LONGEST):
            piece = content[first : first + _LONGEST]
            start = sentence.start if first == 0 else terms.starts[piece[0]]
            end = sentence.end if first + _LONGEST >= len(content) else terms.ends[piece[-1]]
            self._add(Place(number, terms, start, end, piece))

    def _add(self, place: Place) -> None:
        last, before = self._last, self._before
        self.places.append(place)
        self._starts.append(len(before))
        for position, key in enumerate(place.keys, len(before)):
            before.append(last.get(key, -1))
            last[key] = position

    def __contains__(self, key: str) -> bool:
        return key in self._last

    def _index(self, key: str) -> None:
        row, position = [], self._last.get(key, -1)
        while position >= 0:
            row.append(position)
            position = self._before[position]
        row.reverse()
        places = [bisect_right(self._starts, position) - 1 for position in row]
        self._postings[key] = list(dict.fromkeys(places))[:MOST_PLACES]
        apart = [position + _NEAR * place for position, place in zip(row, places, strict=True)]
        self._positions[key] = apart[:MOST_PLACES]

    def postings(self, key: str) -> list[int]:
        """The places that hold a key, the first 500 of them."""
        if key not in self._postings:
            self._index(key)
        return self._postings[key]

    def positions(self, key: str) -> list[int]:
        """Where a key stands in the row of all terms, up to 500 times; between two sentences, the row has a gap."""
        if key not in self._positions:
            self._index(key)
        return self._positions[key]

    def nearness(self, left: str, right: str, most: int = MOST_PLACES) -> float:
        """1 where ``right`` follows ``left`` at once, 0.5 where they stand at most four apart, else 0.

        Of ``left``, the first ``most`` places are looked at.
        """
        rights = self.positions(right)
        if not rights:
            return 0.0
        best, last = 0.0, rights[-1]
        for position in self.positions(left)[:most]:
            if position - _NEAR > last:
                break
            place = bisect_left(rights, position - _NEAR)
            while place < len(rights) and (distance := rights[place] - position) <= _NEAR:
                if distance == 1:
                    return 1.0
                if distance:
                    best = 0.5
                place += 1
        return best

    @cached_property
    def _prefixes(self) -> dict[str, list[str]]:
        prefixes: dict[str, list[str]] = {}
        for key in self._last:
            if len(key) > _PREFIX:
                prefixes.setdefault(key[:_PREFIX], []).append(key)
        return prefixes

    def related(self, key: str) -> Sequence[str]:
        """Keys of the passages that begin like ``key``: "development" for "developer"."""
        return self._prefixes.get(key[:_PREFIX], ()) if len(key) > _PREFIX else ()


source_of = Recent(Source, lambda passages: sum(map(len, passages)), _PASSAGES_KEPT)


def places_per_word(characters: int) -> int:
    """How many places of each word claims of so many characters are compared with, 5 to 500.

    Everything up to some ten thousand words of claims; beyond, the work grows with the text and not with its square.
    """
    return min(MOST_PLACES, max(_FEWEST_PLACES, _WORK // max(1, characters)))
