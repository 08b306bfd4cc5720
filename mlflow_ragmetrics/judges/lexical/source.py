"""Texts taken apart: their terms by sentence, the claims in them, and passages as an index of terms."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from mlflow_ragmetrics.judges.lexical.terms import Terms, terms_of
from mlflow_ragmetrics.text.non_answers import is_bare_courtesy, is_courtesy
from mlflow_ragmetrics.text.sentences import read_sentences, word_set
from mlflow_ragmetrics.text.word_lists import pattern_of

_LONGEST_KEPT: Final = 8_000  # characters of a text of which many are kept
_PREFIX: Final = 5
_LONGEST: Final = 60
_NEAR: Final = 4
_FEWEST_PLACES: Final = 5
_WORK: Final = 5_000_000
MOST_PLACES: Final = 500  # of one key: what a claim costs stays bounded however long the passages are


class Analysis(NamedTuple):
    """The terms of a text, and its sentences: where each begins and ends, and which of the terms are in it."""

    terms: Terms
    sentences: list[tuple[int, int, range]]

    def content(self) -> list[int]:
        """The content terms of all sentences."""
        return [place for *_, places in self.sentences for place in self.terms.content(places)]


def _analyse(text: str) -> Analysis:
    terms = terms_of(text)
    sentences = []
    last = 0
    for start, end, _ in read_sentences(text):
        first = bisect_left(terms.starts, start, last)
        last = bisect_left(terms.starts, end, first)
        sentences.append((start, end, range(first, last)))
    return Analysis(terms, sentences)


_many_analyses, _few_analyses = lru_cache(maxsize=512)(_analyse), lru_cache(maxsize=4)(_analyse)


def analysed(text: str) -> Analysis:
    """The analysis of ``text``, made now or kept from before; of long texts the last few are kept."""
    return (_many_analyses if len(text) <= _LONGEST_KEPT else _few_analyses)(text)


class Place(NamedTuple):
    """One sentence of a passage: the passage's number from 1, and the sentence's content terms.

    ``keys`` are those of the terms, which stand at ``content`` among the ``terms`` of the passage; ``position`` says
    where the first of them stands in the row of all content terms.
    """

    passage: int
    terms: Terms
    start: int
    end: int
    content: list[int]
    keys: list[str]
    position: int

    @property
    def text(self) -> str:
        """The sentence."""
        return self.terms.text[self.start : self.end]

    @property
    def kinds(self) -> list[int]:
        """What the content terms are."""
        return [self.terms.kinds[each] for each in self.content]

    def word(self, number: int) -> str:
        """The text of one of the content terms."""
        return self.terms.text_at(self.content[number])


class Source:
    """Passages, indexed by the keys of their content terms.

    ``places``: their sentences in order; one of more than 60 content terms (a table, a menu) is several places.
    ``postings``: the places that hold a key, among the first 500 times that it stands anywhere.
    """

    def __init__(self, passages: tuple[str, ...]) -> None:
        self.places: list[Place] = []
        self.postings: dict[str, list[int]] = {}
        self._positions: dict[str, list[int]] = {}
        self._prefixes: dict[str, list[str]] = {}
        position = 0
        for number, passage in enumerate(passages, start=1):
            terms, sentences = analysed(passage)
            for start, end, places in sentences:
                content = terms.content(places)
                for first in range(0, len(content), _LONGEST):
                    piece = content[first : first + _LONGEST]
                    begin = start if first == 0 else terms.starts[piece[0]]
                    stop = end if first + _LONGEST >= len(content) else terms.ends[piece[-1]]
                    keys = [terms.keys[each] for each in piece]
                    self._add(Place(number, terms, begin, stop, piece, keys, position))
                    position += len(keys) + _NEAR

    def _add(self, place: Place) -> None:
        number = len(self.places)
        self.places.append(place)
        for position, key in enumerate(place.keys, place.position):
            positions, postings = self._positions.get(key), self.postings.get(key)
            if positions is None or postings is None:
                self._positions[key], self.postings[key] = [position], [number]
                if len(key) > _PREFIX:
                    self._prefixes.setdefault(key[:_PREFIX], []).append(key)
            elif len(positions) < MOST_PLACES:
                positions.append(position)
                if postings[-1] != number:
                    postings.append(number)

    def nearness(self, left: str, right: str, most: int) -> float:
        """1 where ``right`` follows ``left`` at once, 0.5 where they stand at most four apart, else 0.

        Of ``left``, the first ``most`` places are looked at.
        """
        rights = self._positions.get(right, [])
        best = 0.0
        for position in self._positions.get(left, ())[:most] if rights else ():
            place = bisect_left(rights, position - _NEAR)
            while place < len(rights) and (distance := rights[place] - position) <= _NEAR:
                if distance == 1:
                    return 1.0
                if distance:
                    best = 0.5
                place += 1
        return best

    def related(self, key: str) -> list[str]:
        """Keys of the passages that begin like ``key``: "development" for "developer"."""
        return self._prefixes.get(key[:_PREFIX], []) if len(key) > _PREFIX else []


_many_sources, _few_sources = lru_cache(maxsize=200)(Source), lru_cache(maxsize=2)(Source)


def source_of(passages: tuple[str, ...]) -> Source:
    """The index of ``passages``, made now or kept from before; of long ones the last are kept."""
    return (_many_sources if sum(map(len, passages)) <= _LONGEST_KEPT else _few_sources)(passages)


def places_per_word(characters: int) -> int:
    """How many places of each word claims of so many characters are compared with, 5 to 500.

    Everything up to some ten thousand words of claims; beyond, the work grows with the text and not with its square.
    """
    return min(MOST_PLACES, max(_FEWEST_PLACES, _WORK // max(1, characters)))


_FEWEST_WORDS: Final = 3
_AHEAD: Final = 100
# Blanks before a citation go with it; they are tried from the first one only: tried from each, it takes quadratic time.
_CITATION = re.compile(r"(?<!\s)\s*(?:\[\^?\d+(?:\s*[,–-]\s*\d+)*\]|【[^【】]*】)")
_EMPHASIS = re.compile(r"\*\*|__|`")
_SUBJECTS: Final = word_set(
    """he she it they we you i this that these those there the his her its their он она оно они это этот эта эти
    мы вы его её их"""
)
_REMARK = pattern_of("remarks_on_passages", before=r"\b(?=[iwptcdsnотк])")  # so that it is tried at few words
CLAUSE_END = re.compile(r";\s+|,\s+(?:and|but|while|whereas|а|но|и)\s+")
_CLAUSE = re.compile(rf"{CLAUSE_END.pattern}(?=(\w+)\s)")


def split_claims(text: str) -> tuple[str, ...]:
    """The claims of ``text``: sentences and list items, and clauses that have a subject of their own.

    Citations such as "[2]" and emphasis marks are removed. Questions and lead-ins ("Here are the steps:") state
    nothing and are left out, as are courtesies ("Let me know if …") and remarks that the passages do not say it, unless
    there is nothing else. No letter or digit: no claim.
    """
    pieces = [_EMPHASIS.sub("", _CITATION.sub("", text[start:end])).strip() for start, end, _ in read_sentences(text)]
    stated = [piece for piece in pieces if piece and not _states_nothing(piece)]
    others = (piece for piece in pieces if piece and not is_bare_courtesy(piece))
    return tuple(claim for piece in stated or others for claim in _clauses(piece))


def _states_nothing(piece: str) -> bool:
    piece = " ".join(piece.split())
    return piece.endswith(("?", ":", "？", "：")) or is_courtesy(piece) or _REMARK.search(piece) is not None


def _clauses(sentence: str) -> Iterator[str]:
    """Cut at a semicolon, or at ", and" and its like where a pronoun or article opens the next clause."""
    start = 0
    for cut in _CLAUSE.finditer(sentence):
        subject = cut[1]
        if subject is not None and subject.casefold() not in _SUBJECTS:
            continue
        if _has_words(sentence[start : cut.start()]) and _has_words(sentence[cut.end() : cut.end() + _AHEAD]):
            yield sentence[start : cut.start()]
            start = cut.end()
    yield sentence[start:]


def _has_words(piece: str) -> bool:
    return len(piece.split(maxsplit=_FEWEST_WORDS)) >= _FEWEST_WORDS
