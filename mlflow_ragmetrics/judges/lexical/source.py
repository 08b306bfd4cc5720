"""Analyses texts: their terms by sentence, an index of passages by term, and how passages cover a claim."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from functools import cached_property, partial
from itertools import pairwise
from typing import Final, NamedTuple

from mlflow_ragmetrics.judges.lexical.claims import terms_of_claim
from mlflow_ragmetrics.judges.lexical.terms import ABOUT_PASSAGES, NAME, NUMBER, Terms, terms_of
from mlflow_ragmetrics.text.sentences import blanked, read_sentences
from mlflow_ragmetrics.text.words import kept, normalised

_LONGEST: Final = 60
_NEAR: Final = 4
_FEWEST_PLACES: Final = 5
_MOST_KEPT: Final = 500
_WORK: Final = 10**7  # characters of the passages × sentences compared per word; the square of a length takes minutes
_ANYWHERE: Final = 0.30
_SENTENCE: Final = 0.15
_WINDOW: Final = 0.25
_TOGETHER: Final = 0.30
_MISSING: Final = 0.10
_MIDDLE: Final = 0.45
_STEEPNESS: Final = 12.0
_BESIDE: Final = 2
_NEIGHBOURS: Final = 0.5
_COMPARED: Final = 6
_NEARLY: Final = 0.8
_SPOKEN: Final = re.compile(r"[^\s.,;:!?…()\[\]\"']+")


class Analysis(NamedTuple):
    """The terms of a text, and its sentences as (start, end, range of terms)."""

    terms: Terms
    sentences: list[tuple[int, int, range]]

    def content(self) -> list[int]:
        """The content terms of all sentences."""
        return [place for *_, places in self.sentences for place in self.terms.content(places)]


@partial(kept, entries=512)
def analysed(text: str) -> Analysis:
    """The terms and sentences of ``text``."""
    terms = terms_of(blanked(text))
    terms.text = text
    sentences = []
    last = 0
    for start, end, _ in read_sentences(text):
        first = bisect_left(terms.starts, start, last)
        last = bisect_left(terms.starts, end, first)
        sentences.append((start, end, range(first, last)))
    return Analysis(terms, sentences)


class Place(NamedTuple):
    """One sentence of a passage, with the passage's number from 1, and its content terms: indices and keys."""

    passage: int
    terms: Terms
    start: int
    end: int
    content: list[int]
    keys: list[str]

    @property
    def text(self) -> str:
        """The sentence."""
        return self.terms.text[self.start : self.end]

    def word(self, number: int) -> str:
        """Return the text of a content term."""
        return self.terms.text_at(self.content[number])

    def kind(self, number: int) -> int:
        """Return the kind of a content term."""
        return self.terms.kinds[self.content[number]]


def _spoken(text: str) -> str:
    """The words of a text and their signs, without case and punctuation, with blanks around each."""
    return f" {' '.join(_SPOKEN.findall(normalised(blanked(text)).casefold()))} "


class Source:
    """Passages, indexed by the keys of their content terms.

    ``places``: their sentences by number; one with more than 60 content terms (a table, a menu) is split, and numbers
    are left out between passages, so that sentences with adjacent numbers are adjacent. ``postings``: the places of
    each key.
    """

    def __init__(self, passages: tuple[str, ...]) -> None:
        self.passages = passages
        self.places: dict[int, Place] = {}
        self.postings: dict[str, list[int]] = {}
        self._pairs: set[tuple[str, str]] = set()
        self._near_pairs: set[tuple[str, str]] = set()
        self._coverages: dict[str, Coverage] = {}
        number, most = 0, max(_FEWEST_PLACES, _WORK // max(1, sum(map(len, passages))))
        for passage, text in enumerate(passages, start=1):
            terms, sentences = analysed(text)
            for start, end, places in sentences:
                content = terms.content(places)
                for first in range(0, len(content), _LONGEST):
                    piece = content[first : first + _LONGEST]
                    begin = start if first == 0 else terms.starts[piece[0]]
                    stop = end if first + _LONGEST >= len(content) else terms.ends[piece[-1]]
                    keys = [terms.keys[place] for place in piece]
                    self.places[number] = Place(passage, terms, begin, stop, piece, keys)
                    for key in set(keys):
                        if len(postings := self.postings.setdefault(key, [])) < most:
                            postings.append(number)
                    self._pairs.update(pairwise(keys))
                    for distance in range(2, _NEAR + 1):
                        self._near_pairs.update(zip(keys, keys[distance:], strict=False))
                    number += 1
            number += 2

    def coverage(self, claim: str) -> Coverage:
        """How the passages cover the claim."""
        coverage = self._coverages.get(claim) or Coverage(terms_of_claim(claim), self)
        if len(self._coverages) < _MOST_KEPT:
            self._coverages[claim] = coverage
        return coverage

    def says(self, claim: str) -> bool:
        """Whether a passage contains the claim word for word."""
        return any(_spoken(claim) in passage for passage in self._spoken)

    @cached_property
    def _spoken(self) -> list[str]:
        return list(map(_spoken, self.passages))

    def nearness(self, left: str, right: str) -> float:
        """Return 1 if ``right`` directly follows ``left``, 0.5 if they are at most four terms apart, else 0."""
        if (left, right) in self._pairs:
            return 1.0
        near = self._near_pairs
        return 0.5 * ((left, right) in near or (right, left) in near or (right, left) in self._pairs)


class Coverage:
    """How the passages cover a claim.

    ``content``: indices of the claim's content terms; ``found`` and ``missing``: the same without repeats. ``masks``:
    for each sentence that shares a term, a bit per term of ``found``.
    """

    def __init__(self, terms: Terms, source: Source) -> None:
        self.terms, self.source = terms, source
        keys, content = terms.keys, terms.content()
        # words about the passages ("according to the text") do not count, unless the passages have them
        informative = [each for each in content if keys[each] not in ABOUT_PASSAGES or keys[each] in source.postings]
        self.content = informative or content
        self.found: list[int] = []
        self.missing: list[int] = []
        self.masks = masks = dict[int, int]()
        for key, place in {keys[place]: place for place in self.content}.items():
            numbers = source.postings.get(key, ())
            bit = 1 << len(self.found)
            for number in numbers:
                masks[number] = masks.get(number, 0) | bit
            (self.found if numbers else self.missing).append(place)

    @cached_property
    def windows(self) -> dict[int, int]:
        """The masks of each sentence that shares a term and of the next two, together."""
        masks = self.masks
        return {place: mask | masks.get(place + 1, 0) | masks.get(place + 2, 0) for place, mask in masks.items()}

    @cached_property
    def fullest(self) -> int:
        """The number of terms in the fullest window."""
        return max(map(int.bit_count, self.windows.values()), default=0)

    @cached_property
    def nearest(self) -> list[int]:
        """The sentences that share most with the claim, nearest first.

        Shared content words are weighted by inverse document frequency. Each adjacent pair that is adjacent in the
        sentence too adds half a word.
        """
        keys, places, postings = self.terms.keys, self.source.places, self.source.postings
        weights = dict.fromkeys(self.masks, 0.0)
        for numbers in [postings[keys[place]] for place in self.found]:
            weight = math.log(1 + len(places) / len(numbers))
            for number in numbers:
                weights[number] += weight
        pairs = set(pairwise([keys[place] for place in self.content]))
        ranked = sorted(weights, key=lambda place: (-weights[place], place))
        for place in ranked[:_COMPARED]:
            weights[place] += _NEIGHBOURS * len(pairs.intersection(pairwise(places[place].keys)))
        return sorted(ranked, key=lambda place: (-weights[place], place))

    @property
    def passage(self) -> int:
        """The passage of the nearest sentence, from 1; 0 if no sentence shares a term."""
        return self.source.places[self.nearest[0]].passage if self.masks else 0

    @cached_property
    def support(self) -> float:
        """0 to 1; 0 for a claim without content words."""
        total = len(self.found) + len(self.missing)
        if not total:
            return 0.0
        keys, kinds, source = self.terms.keys, self.terms.kinds, self.source
        pairs = list(pairwise([keys[place] for place in self.content]))  # how many are adjacent in a passage too?
        near = sum(source.nearness(left, right) for left, right in pairs)
        together = near / len(pairs) if pairs else len(self.found) / total
        in_sentence = max(map(int.bit_count, self.masks.values()), default=0)
        weighed = _ANYWHERE * len(self.found) + _SENTENCE * in_sentence + _WINDOW * self.fullest
        share = weighed / total + _TOGETHER * together
        for kind in (NUMBER, NAME):
            lacking = sum(bool(kinds[place] & kind) for place in self.missing)
            if lacking:
                share -= _MISSING * lacking / sum(bool(kinds[place] & kind) for place in (*self.found, *self.missing))
        return 1 / (1 + math.exp(-_STEEPNESS * (share - _MIDDLE)))

    @property
    def stray_number(self) -> int | None:
        """The first number without two other words of the claim in the same or an adjacent sentence."""
        keys, masks = self.terms.keys, self.masks
        needed = 1 + min(_BESIDE, len(self.found) - 1)
        for number in self.content:
            if self.terms.kinds[number] & NUMBER:
                near = [
                    masks.get(place - 1, 0) | masks[place] | masks.get(place + 1, 0)
                    for place in self.source.postings.get(keys[number], ())
                ]
                if not any(window.bit_count() >= needed for window in near):
                    return number
        return None

    @property
    def backing(self) -> list[int]:
        """The nearest sentence of each passage with nearly as much of the claim as the best one, and its numbers."""
        kinds, best = self.terms.kinds, dict[int, int]()
        numbers = sum(1 << bit for bit, term in enumerate(self.found) if kinds[term] & NUMBER)
        for place in self.nearest:
            window = self.windows[place]
            if window.bit_count() >= _NEARLY * self.fullest and window & numbers == numbers:
                best.setdefault(self.source.places[place].passage, place)
        return [place for _, place in sorted(best.items())]


@partial(kept, entries=200)
def source_of(passages: tuple[str, ...]) -> Source:
    """Index ``passages``."""
    return Source(passages)
