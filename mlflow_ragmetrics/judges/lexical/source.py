"""Passages analysed once for each content, and indexed: which sentence holds which term."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import Final, Generic, NamedTuple, TypeVar

from mlflow_ragmetrics.judges.lexical.claims import sentence_spans
from mlflow_ragmetrics.judges.lexical.terms import Term, terms_of

__all__ = ["Recent", "Sentence", "sentences_of", "MOST_PLACES", "Place", "Source", "places_per_word", "source_of"]

_TEXT_KEPT: Final = 400_000

Key = TypeVar("Key")
Value = TypeVar("Value")


class Sentence(NamedTuple):
    """A sentence: where it stands in its text, and its terms, their places counted in the text."""

    start: int
    end: int
    terms: tuple[Term, ...]


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


def _analyse(text: str) -> tuple[Sentence, ...]:
    terms = terms_of(text)
    sentences: list[Sentence] = []
    place = 0
    for start, end in sentence_spans(text):
        while place < len(terms) and terms[place].start < start:
            place += 1
        first = place
        while place < len(terms) and terms[place].start < end:
            place += 1
        sentences.append(Sentence(start, end, tuple(terms[first:place])))
    return tuple(sentences)


sentences_of = Recent(_analyse, len, _TEXT_KEPT)


_PASSAGES_KEPT: Final = 200_000
_PREFIX: Final = 5
_LONGEST: Final = 60
_NEAR: Final = 4
_FEWEST_PLACES: Final = 5
_WORK: Final = 5_000_000
MOST_PLACES: Final = 500  # of one key: what a claim costs stays bounded however long the passages are


class Place(NamedTuple):
    """One sentence of a passage: the passage's number from 1, the sentence's text and its content terms.

    ``position``: where the first of its terms stands in the row of all terms.
    """

    passage: int
    text: str
    terms: tuple[Term, ...]
    position: int


class Source:
    """Passages, indexed by the keys of their content terms.

    ``places``: their sentences in order; one of more than 60 content terms (a table, a menu) is several places.
    ``postings``: the places that hold a key. ``prefixes``: how longer words begin, for related words with another stem.
    """

    def __init__(self, passages: tuple[str, ...]) -> None:
        self.places: list[Place] = []
        self.postings: dict[str, list[int]] = {}
        self._positions: dict[str, list[int]] = {}
        self._end = 0
        self.prefixes: dict[str, set[str]] = {}
        for number, passage in enumerate(passages, start=1):
            for sentence in sentences_of(passage):
                terms = tuple(term for term in sentence.terms if term.content)
                for first in range(0, len(terms), _LONGEST):
                    piece = terms[first : first + _LONGEST]
                    start = sentence.start if first == 0 else piece[0].start
                    end = sentence.end if first + _LONGEST >= len(terms) else piece[-1].end
                    self._add(Place(number, passage[start:end], piece, self._end))

    def _add(self, place: Place) -> None:
        keys = [term.key for term in place.terms]
        for key in dict.fromkeys(keys):
            if key not in self.postings:
                self.postings[key] = []
                if len(key) > _PREFIX:
                    self.prefixes.setdefault(key[:_PREFIX], set()).add(key)
            if len(self.postings[key]) < MOST_PLACES:
                self.postings[key].append(len(self.places))
        self._end += len(keys) + _NEAR
        self.places.append(place)

    def positions(self, key: str) -> list[int]:
        """Where a key stands in the row of all terms, up to 500 places; found when first asked for."""
        positions = self._positions.get(key)
        if positions is None:
            places = map(self.places.__getitem__, self.postings.get(key, ()))
            found = (
                place.position + offset
                for place in places
                for offset, term in enumerate(place.terms)
                if term.key == key
            )
            positions = self._positions[key] = list(islice(found, MOST_PLACES))
        return positions

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

    def related(self, key: str) -> set[str]:
        """Keys of the passages that begin like ``key``: "development" for "developer"."""
        return self.prefixes.get(key[:_PREFIX], set()) if len(key) > _PREFIX else set()


source_of = Recent(Source, lambda passages: sum(map(len, passages)), _PASSAGES_KEPT)


def places_per_word(characters: int) -> int:
    """How many places of each word claims of so many characters are compared with, 5 to 500.

    Everything up to some ten thousand words of claims; beyond, the work grows with the text and not with its square.
    """
    return min(MOST_PLACES, max(_FEWEST_PLACES, _WORK // max(1, characters)))
