"""Measures how well passages cover a claim, decides the verdict and finds unsupported words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from mlflow_ragmetrics.core.score import Item
from mlflow_ragmetrics.judges.lexical.difference import Difference, find_difference
from mlflow_ragmetrics.judges.lexical.source import MOST_PLACES, Source, source_of
from mlflow_ragmetrics.judges.lexical.terms import ABOUT_PASSAGES, CONTENT, NAME, NUMBER, Terms, terms_of
from mlflow_ragmetrics.text.word_lists import pattern_of, words_of
from mlflow_ragmetrics.text.words import has_content

THRESHOLD: Final = 0.65

_ANYWHERE: Final = 0.30
_SENTENCE: Final = 0.15
_WINDOW: Final = 0.25
_TOGETHER: Final = 0.30
_MISSING_NUMBERS: Final = 0.10
_MISSING_NAMES: Final = 0.10
_RELATED: Final = 0.6
_LONGEST_CLAIM: Final = 200
_WIDTH: Final = 3
_BESIDE: Final = 2
_NEAREST: Final = 2
_NEIGHBOURS: Final = 0.5
_COMPARED: Final = 3
_MIDDLE: Final = 0.45
_STEEPNESS: Final = 12.0
_NEARLY: Final = 0.8


class Coverage:
    """How the passages cover a claim, considering the first ``most`` places of each term.

    ``content``: indices of the claim's content terms; ``found`` and ``missing``: the same without repeats. ``masks``:
    for each sentence that shares a term, a bit per term of ``found``. ``most_together``: most terms in one sentence.
    """

    def __init__(self, terms: Terms, source: Source, most: int = MOST_PLACES) -> None:
        self.terms, self.source, self._most = terms, source, most
        keys, content = terms.keys, terms.content()[:_LONGEST_CLAIM]
        # words about the passages ("according to the text") do not count, unless the passages have them
        informative = [each for each in content if keys[each] not in ABOUT_PASSAGES or keys[each] in source.postings]
        self.content = informative or content
        self.found: list[int] = []
        self.missing: list[int] = []
        self.masks = masks = dict[int, int]()
        for key, place in {keys[place]: place for place in self.content}.items():
            numbers = source.postings.get(key, ())[:most]
            bit = 1 << len(self.found)
            for number in numbers:
                masks[number] = masks.get(number, 0) | bit
            (self.found if numbers else self.missing).append(place)
        self.most_together = max(map(int.bit_count, self.masks.values()), default=0)

    @cached_property
    def windows(self) -> dict[int, int]:
        """For each sentence that shares a term, the terms found in it and in the next two of its passage."""
        windows = {}
        for place, mask in self.masks.items():
            passage = self.source.places[place].passage
            for near in range(place + 1, place + _WIDTH):
                if near in self.masks and self.source.places[near].passage == passage:
                    mask |= self.masks[near]
            windows[place] = mask
        return windows

    @cached_property
    def places(self) -> list[int]:
        """The sentences of the first of the fullest windows that share a term, the fullest first."""
        first = max(self.windows, key=lambda place: self.windows[place].bit_count(), default=0)
        window = [place for place in range(first, first + _WIDTH) if place in self.masks]
        return sorted(window, key=lambda place: -self.masks[place].bit_count())

    @property
    def passage(self) -> int:
        """The passage of the best sentence, from 1; 0 if no sentence shares a term."""
        return self.source.places[self.places[0]].passage if self.places else 0

    @cached_property
    def support(self) -> float:
        """0 to 1; 0 for a claim without content words."""
        total = len(self.found) + len(self.missing)
        if not total:
            return 0.0
        keys, kinds, source = self.terms.keys, self.terms.kinds, self.source
        related = sum(_RELATED for place in self.missing if source.related(keys[place]))
        fullest = max(map(int.bit_count, self.windows.values()), default=0)
        pairs = list(pairwise([keys[place] for place in self.content]))  # how many are adjacent in a passage too?
        near = sum(source.nearness(left, right, self._most) for left, right in pairs)
        together = near / len(pairs) if pairs else len(self.found) / total
        share = (
            _ANYWHERE * (len(self.found) + related) / total
            + _SENTENCE * self.most_together / total
            + _WINDOW * fullest / total
            + _TOGETHER * together
        )
        for kind, weight in ((NUMBER, _MISSING_NUMBERS), (NAME, _MISSING_NAMES)):
            lacking = sum(bool(kinds[place] & kind) for place in self.missing)
            if lacking:
                share -= weight * lacking / sum(bool(kinds[place] & kind) for place in (*self.found, *self.missing))
        return 1 / (1 + math.exp(-_STEEPNESS * (share - _MIDDLE)))

    @cached_property
    def stray_number(self) -> int | None:
        """The first number without two other words of the claim in the same or an adjacent sentence."""
        needed = 1 + min(_BESIDE, len(self.found) - 1)
        for number in self.content:
            if self.terms.kinds[number] & NUMBER and not self._has_near(number, needed):
                return number
        return None

    def _has_near(self, number: int, needed: int) -> bool:
        places, masks = self.source.places, self.masks
        for place in self.source.postings.get(self.terms.keys[number], ())[: self._most]:
            passage, union = places[place].passage, 0
            for each in (place - 1, place, place + 1):
                if each in masks and places[each].passage == passage:
                    union |= masks[each]
            if union.bit_count() >= needed:
                return True
        return False


def nearest_places(coverage: Coverage, wanted: int = _NEAREST) -> list[int]:
    """Return at most ``wanted`` sentences that share most with a claim, nearest first.

    Shared content words are weighted by inverse document frequency. Each adjacent pair that is adjacent in the sentence
    too adds half a word.
    """
    keys, source, masks = coverage.terms.keys, coverage.source, coverage.masks
    total = len(source.places)
    weights = [math.log(1 + total / len(source.postings[keys[place]])) for place in coverage.found]
    scores = {
        place: sum(weight for bit, weight in enumerate(weights) if mask >> bit & 1) for place, mask in masks.items()
    }
    pairs = set(pairwise([keys[place] for place in coverage.content]))
    ranked = sorted(scores, key=lambda place: (-scores[place], place))[: _COMPARED * wanted]
    for place in ranked:
        scores[place] += _NEIGHBOURS * len(pairs.intersection(pairwise(source.places[place].keys)))
    return sorted(ranked, key=lambda place: (-scores[place], place))[:wanted]


_LABEL_REACH: Final = 5  # from "passage" to its number, and from one number to the next in "passages 1, 2 and 3"
_NUMBERED: Final = words_of("numbered")
_LEAD = pattern_of("leads", before=r"\W*", after=r"\s*")


@lru_cache(maxsize=2048)  # a claim is compared with the passages and with the reference
def terms_of_claim(claim: str) -> Terms:
    """Return the terms of a claim without a leading remark on its source and without labels of passages.

    "Passage 1 states that bread is cheap", "According to the text, bread is cheap (passages 1 and 3)" and "Step 6:
    bread is cheap" are all the claim that bread is cheap.
    """
    lead = _LEAD.match(claim)
    rest = claim[lead.end() :] if lead else ""
    terms = terms_of(rest if has_content(rest) else claim)
    if _NUMBERED.isdisjoint(terms.keys):
        return terms
    kept: list[int] = []
    label_end = -_LABEL_REACH - 1
    for place, key in enumerate(terms.keys):
        if terms.kinds[place] & NUMBER and terms.starts[place] - label_end <= _LABEL_REACH:
            if kept and terms.keys[kept[-1]] in _NUMBERED:
                kept.pop()
            label_end = terms.ends[place]
            continue
        if key in _NUMBERED:
            label_end = terms.ends[place]
        kept.append(place)
    return terms.only(kept)


_DOUBTED: Final = 0.5


class Judgement(NamedTuple):
    """A verdict by wording; ``support`` is lower than the coverage if something speaks against the claim.

    ``quoted``: the supporting sentences of all passages, or the one from which the claim differs. ``difference``: the
    only word in which the claim differs from that sentence. ``stray_number``: a number that is not near other words.
    """

    verdict: Literal["SUPPORTED", "NEUTRAL"]
    support: float
    coverage: Coverage
    quoted: Sequence[int] = ()
    difference: Difference | None = None
    stray_number: str = ""


def judge_claim(claim: str, source: Source, threshold: float, most: int) -> Judgement:
    """SUPPORTED at ``threshold`` or above, or if a passage contains the claim word for word; else NEUTRAL.

    Considers the first ``most`` places of each word.
    """
    terms = terms_of_claim(claim)
    coverage = Coverage(terms, source, most)
    support, places = coverage.support, coverage.places
    difference = _difference(coverage, places[0]) if places else None
    stray = coverage.stray_number
    doubted = _DOUBTED * support if difference is not None or stray is not None else support
    if doubted >= threshold:
        home = [place for place in places[1:] if source.places[place].passage == coverage.passage]
        others = [*home, *_elsewhere(coverage)]
        agreeing = [place for place in others if _difference(coverage, place) is None]
        return Judgement("SUPPORTED", support, coverage, [*places[:1], *agreeing])
    if difference is None and len(coverage.missing) < 2 and source.says(claim):
        return Judgement("SUPPORTED", 1.0, coverage, places[:1])
    if difference is not None:
        return Judgement("NEUTRAL", doubted, coverage, places[:1], difference)
    return Judgement("NEUTRAL", doubted, coverage, stray_number="" if stray is None else terms.text_at(stray))


def difference_from(terms: Terms, source: Source, most: int) -> Difference | None:
    """Return the word in which alone a claim differs from its best sentence in ``source``."""
    if len({terms.keys[place] for place in terms.content()} - source.postings.keys()) > 1:
        return None
    coverage = Coverage(terms, source, most)
    return _difference(coverage, coverage.places[0]) if coverage.places else None


def _difference(coverage: Coverage, place: int) -> Difference | None:
    if (
        coverage.masks[place].bit_count() < len(coverage.found) + len(coverage.missing) - 1
    ):  # more than one word differs
        return None
    return find_difference(coverage.terms, coverage.content, coverage.source.places[place])


def _elsewhere(coverage: Coverage) -> list[int]:
    """Return the best sentence of each other passage with nearly as much of the claim and all of its numbers."""
    places, masks, kinds = coverage.source.places, coverage.masks, coverage.terms.kinds
    numbers = sum(1 << bit for bit, term in enumerate(coverage.found) if kinds[term] & NUMBER)
    best: dict[int, tuple[int, int]] = {}
    for place, window in coverage.windows.items():
        if window & numbers == numbers:
            passage = places[place].passage
            best[passage] = max(best.get(passage, (0, 0)), (window.bit_count(), -place))
    enough = _NEARLY * max((count for count, _ in best.values()), default=0)
    best.pop(coverage.passage, None)
    found = []
    for passage, (count, first) in sorted(best.items()):
        if count >= enough:
            near = [place for place in range(-first, _WIDTH - first) if place in masks]
            within = [place for place in near if places[place].passage == passage]
            found.append(max(within, key=lambda place: masks[place].bit_count()))
    return found


_ELSEWHERE: Final = 0.5
_RELATED_BACKS: Final = 0.7
_FADING: Final = math.exp(-1)
_UNBACKED: Final = 0.5


def doubted_words(claim: str, passages: Sequence[str]) -> list[tuple[int, int, float]]:
    """Return the words of ``claim`` as (start, end, doubt): 0 if the nearest two sentences have it, 1 if no text does.

    A word found only elsewhere in the passages counts 0.5, one with only a related word there 0.7. The doubt is a mean
    over the word and its neighbours, weighted less by a factor of e per word of distance. Words without content ("of",
    "the") get the mean of their neighbours. A leading remark on the source is left out.
    """
    source = source_of(tuple(passages))
    terms = terms_of_claim(claim)
    near = {key for place in nearest_places(Coverage(terms, source)) for key in source.places[place].keys}
    own: list[float | None] = []
    for key, kind in zip(terms.keys, terms.kinds, strict=True):
        known = 0.0 if key in near else _ELSEWHERE if key in source.postings else 1.0
        backed = _RELATED_BACKS if known == 1.0 and source.related(key) else known
        own.append(backed if kind & CONTENT else None)
    lead = len(claim) - len(terms.text)
    words = []
    for place, (left, right) in enumerate(zip(_fading(own), _fading(own[::-1])[::-1], strict=True)):
        doubt = own[place]
        weight = left[1] + right[1] - (doubt is not None)
        total = left[0] + right[0] - (doubt or 0.0)
        words.append((lead + terms.starts[place], lead + terms.ends[place], total / weight if weight else 0.0))
    return words


def _fading(own: Sequence[float | None]) -> list[tuple[float, float]]:
    """Return, for each word, running sums of doubts and weights, decayed at each step."""
    sums, total, weight = [], 0.0, 0.0
    for doubt in own:
        total, weight = total * _FADING + (doubt or 0.0), weight * _FADING + (doubt is not None)
        sums.append((total, weight))
    return sums


def unbacked_spans(claim: str, passages: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Return the unsupported parts of ``claim`` as (start, end): adjacent words with a doubt of 0.5 or more.

    >>> claim = "The tower of Paris was painted green in 1968."
    >>> [claim[start:end] for start, end in unbacked_spans(claim, ["The tower of Paris was built in 1889."])]
    ['was painted green in 1968']
    """
    spans: list[tuple[int, int]] = []
    joins = False
    for start, end, doubt in doubted_words(claim, passages):
        if doubt >= _UNBACKED:
            spans[-1:] = [(spans[-1][0], end)] if joins else [*spans[-1:], (start, end)]
        joins = doubt >= _UNBACKED
    return tuple(spans)


def unbacked_in(item: Item, passages: Sequence[str] | None) -> tuple[str, ...]:
    """Return the parts of an unsupported claim or sentence that are not in ``passages``, the texts that judged it."""
    spans = unbacked_spans(item.text, passages) if passages and item.unbacked_by_chunks else ()
    return tuple(item.text[start:end] for start, end in spans)
