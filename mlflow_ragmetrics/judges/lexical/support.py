"""The claims of a text, how passages cover them, and the verdicts that follow.

Passages are indexed by their terms; a claim's support is its coverage, lower if a single word of it differs.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache, partial
from itertools import groupby, pairwise
from typing import Final, Literal, NamedTuple

from mlflow_ragmetrics.core.score import Item
from mlflow_ragmetrics.judges.lexical.keys import (
    ABOUT_PASSAGES,
    CANCELLING,
    NAME,
    NEGATED,
    NUMBER,
    ORDINALS,
    UNITS,
    Terms,
    stem,
    terms_of,
)
from mlflow_ragmetrics.text.non_answers import is_bare_courtesy, is_courtesy
from mlflow_ragmetrics.text.sentences import Sentence, blanked, read_sentences, without_marks
from mlflow_ragmetrics.text.words import has_content, has_words, kept, normalised, pattern_of, words_of

_SUBJECTS: Final = words_of("subjects")
_NO_CLAIM = pattern_of("no_claims", before=r"[\W_]*", after=r"[\W_]*")
_LEAD_IN = pattern_of("lead_ins", passages=pattern_of("according").pattern)
_SIGNED = pattern_of("signatures", before=r"\W*", after=r"\W*")
_NAME = re.compile(r"[A-ZÀ-ÞА-ЯЁ]\w*\.?(?: [A-ZÀ-ÞА-ЯЁ]\w*\.?){0,2}")
_BOLD = re.compile(r"\*\*[^*]*[^*.!?…]\*\*:?")
_REMARK = pattern_of("remarks_on_passages", before=r"\b(?=[iwptcdsnотк])")  # tries only words with these initials
CLAUSE_END = re.compile(r";\s+|,\s+(?:and|but|while|whereas|а|но|и)\s+", re.IGNORECASE)
_CLAUSE = re.compile(rf"{CLAUSE_END.pattern}(?=(\w+)\s)", re.IGNORECASE)


@partial(kept, entries=512)  # several questions about a row need the claims of its answer
def split_claims(text: str) -> tuple[str, ...]:
    """Return the claims of ``text``: sentences, list items, and clauses with their own subject.

    Removes citations such as "[2]", tags and emphasis. Leaves out questions, lead-ins ("Here are the steps:"),
    headings, courtesies ("Let me know if …"), sources and remarks that the passages do not say it, unless nothing else
    remains. Cuts a lead-in before a claim ("Based on the passages, the answer is: …"). A claim
    has at least one letter or digit.
    """
    stated: list[str] = []
    others: list[str] = []
    is_signed = False
    places = read_sentences(text)
    if len(places) > 1 and _signs(text, *places[-2:]):
        places = places[:-1]
    for start, end, marker in places:
        piece = without_marks(text[start:end])
        if (lead := _LEAD_IN.match(piece)) is not None and has_content(piece[lead.end() :]):
            piece = piece[lead.end() :]
        is_heading = marker.startswith("#") or _BOLD.fullmatch(text, start, end) is not None
        is_signed = is_signed or _SIGNED.fullmatch(piece) is not None
        if piece and not (is_heading or is_signed or _states_nothing(piece)):
            stated.append(piece)
        elif piece and not is_bare_courtesy(piece):
            others.append(piece)
    return tuple(claim for piece in stated or others for claim in _clauses(piece))


def _signs(text: str, before: Sentence, last: Sentence) -> bool:
    """Whether ``last`` is a name behind a dash, such as "— Anna", and no item of a list."""
    is_item = last.marker not in ("—", "–", "--") or before.marker == last.marker or text[before.end - 1] == ":"
    return not is_item and _NAME.fullmatch(text, last.start, last.end) is not None


def _states_nothing(piece: str) -> bool:
    plain = normalised(piece)
    is_greek_question = plain.endswith(";") and "\u0370" <= plain[-2:-1] < "\u0400"
    if is_greek_question or plain.rstrip(" ,;").endswith(("?", ":", "？", "：", "؟")):
        return True
    if any(_NO_CLAIM.fullmatch(spelling) is not None for spelling in {piece, plain}):  # with accents and without
        return True
    return is_courtesy(plain) or _REMARK.search(plain) is not None


def _clauses(sentence: str) -> Iterator[str]:
    """Split at semicolons, and at ", and" or similar before a pronoun or article."""
    start = 0
    for cut in _CLAUSE.finditer(sentence):
        subject = cut[1]
        if subject is not None and subject.casefold() not in _SUBJECTS:
            continue
        before, behind = sentence[start : cut.start()], sentence[cut.end() : cut.end() + 100]
        if has_words(before, 3) and has_words(behind, 3):
            yield before
            start = cut.end()
    yield sentence[start:]


_LEAD = pattern_of("leads", before=r"\W*", after=r"\s*")
_NUMBERED: Final = words_of("numbered")
_LABEL_REACH: Final = 5  # from "passage" to its number, and from one number to the next in "passages 1, 2 and 3"


@lru_cache(maxsize=2048)  # a claim is compared with the passages and with the reference
def terms_of_claim(claim: str) -> Terms:
    """Return the terms of a claim without a leading remark on its source and without labels of passages.

    "Passage 1 states that bread is cheap", "According to the text, bread is cheap (passages 1 and 3)" and "Step 6:
    bread is cheap" are all the claim that bread is cheap.
    """
    lead = _LEAD.match(claim)
    rest = claim[lead.end() :] if lead and has_content(claim[lead.end() :]) else claim
    terms = terms_of(rest)
    if _NUMBERED.isdisjoint(terms.keys):
        return terms
    places: list[int] = []
    label_end = -_LABEL_REACH - 1
    for place, key in enumerate(terms.keys):
        is_label = bool(terms.kinds[place] & NUMBER) and terms.starts[place] - label_end <= _LABEL_REACH
        if is_label and places and terms.keys[places[-1]] in _NUMBERED:
            places.pop()
        elif not is_label:
            places.append(place)
        label_end = terms.ends[place] if is_label or key in _NUMBERED else label_end
    return terms.at(places)


_LONGEST: Final = 60
_WORK: Final = 10**7  # characters of the passages × sentences compared per word; the square of a length takes minutes
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
        number, most = 0, max(5, _WORK // max(1, sum(map(len, passages))))
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
                    for distance in range(2, 5):
                        self._near_pairs.update(zip(keys, keys[distance:], strict=False))
                    number += 1
            number += 2

    def coverage(self, claim: str) -> Coverage:
        """How the passages cover the claim."""
        coverage = self._coverages.get(claim) or Coverage(terms_of_claim(claim), self)
        if len(self._coverages) < 500:
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
        informative = [term for term in content if keys[term] not in ABOUT_PASSAGES or keys[term] in source.postings]
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
        mask_at = self.masks.get
        return {place: mask | mask_at(place + 1, 0) | mask_at(place + 2, 0) for place, mask in self.masks.items()}

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
        pairs, in_order = set(pairwise([keys[place] for place in self.content])), sorted(weights)
        for place in sorted(in_order, key=weights.__getitem__, reverse=True)[:6]:
            weights[place] += 0.5 * len(pairs.intersection(pairwise(places[place].keys)))
        return sorted(in_order, key=weights.__getitem__, reverse=True)

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
        weighed = 0.30 * len(self.found) + 0.15 * in_sentence + 0.25 * self.fullest
        share = weighed / total + 0.30 * together
        for kind in (NUMBER, NAME):
            lacking = sum(bool(kinds[place] & kind) for place in self.missing)
            if lacking:
                share -= 0.10 * lacking / sum(bool(kinds[place] & kind) for place in (*self.found, *self.missing))
        return 1 / (1 + math.exp(-12.0 * (share - 0.45)))

    @property
    def stray_number(self) -> int | None:
        """The first number without two other words of the claim in the same or an adjacent sentence."""
        keys, masks = self.terms.keys, self.masks
        needed = 1 + min(2, len(self.found) - 1)
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
            if window.bit_count() >= 0.8 * self.fullest and window & numbers == numbers:
                best.setdefault(self.source.places[place].passage, place)
        return [place for _, place in sorted(best.items())]


@partial(kept, entries=200)
def source_of(passages: tuple[str, ...]) -> Source:
    """Index ``passages``."""
    return Source(passages)


_UNITS: Final = frozenset(map(stem, UNITS))
_ORDINALS: Final = frozenset(map(stem, ORDINALS))


class Difference(NamedTuple):
    """A claim's word and what the sentence has in its place."""

    kind: Literal["word", "negation"]
    claim: str
    passage: str


def find_difference(coverage: Coverage, place: int) -> Difference | None:
    """Return the number, unit, name or negation in which alone a claim differs from a sentence; else ``None``.

    The sentence must contain all other content words of the claim, at least two, and at most one word in its place.
    """
    total, shared = len(coverage.found) + len(coverage.missing), coverage.masks[place].bit_count()
    if shared < max(2, total - 1):
        return None
    terms, sentence = coverage.terms, coverage.source.places[place]
    claim_words = {terms.keys[place]: place for place in coverage.content}
    others = [number for number, key in enumerate(sentence.keys) if key not in claim_words]
    if shared == total and len(others) < 2:
        return _negation(terms, coverage.content, sentence)
    absent = [place for key, place in claim_words.items() if key not in sentence.keys]
    if not absent or len(others) != 1:  # the masks of long passages lack common words
        return None
    (missing,), (number,) = absent, others
    word, key, kind = terms.text_at(missing), terms.keys[missing], terms.kinds[missing]
    other, key_there = sentence.word(number), sentence.keys[number]
    is_name = kind & NAME and other[:1].isupper()
    are_units = any(key in words and key_there in words for words in (_UNITS, _ORDINALS, "≥≤"))
    if missing and number and max(len(key), len(key_there)) <= 4:  # symbols of units behind one number
        number_before = terms.keys[missing - 1] if terms.kinds[missing - 1] & NUMBER else None
        are_units = are_units or sentence.keys[number - 1] == number_before
    return Difference("word", word, other) if is_name or are_units or kind & sentence.kind(number) & NUMBER else None


def _negation(terms: Terms, content: list[int], sentence: Place) -> Difference | None:
    """Return the first word that only one of two texts with the same words negates."""
    denied = {terms.keys[place]: terms.text_at(place) for place in content if terms.kinds[place] & NEGATED}
    denied_there = {
        key: sentence.word(number) for number, key in enumerate(sentence.keys) if sentence.kind(number) & NEGATED
    }
    if bool(denied) == bool(denied_there):
        return None
    key, word = next(iter((denied or denied_there).items()))
    return None if key in ABOUT_PASSAGES or key in CANCELLING else Difference("negation", word, word)


_REACH: Final = 4


def doubted_words(claim: str, passages: Sequence[str]) -> list[tuple[int, int, float]]:
    """Return the words of ``claim`` as (start, end, doubt): 0 if the nearest two sentences have it, 1 if no text does.

    A word found only elsewhere in the passages counts 0.5. The doubt is a mean over the word and its neighbours,
    weighted less by a factor of e per word of distance. Words without content ("of", "the") get the mean of their
    neighbours. A leading remark on the source is left out.
    """
    source = source_of(tuple(passages))
    coverage = source.coverage(claim)
    terms = coverage.terms
    near = {key for place in coverage.nearest[:2] for key in source.places[place].keys}
    doubts = {
        place: 0.0 if terms.keys[place] in near else 0.5 if terms.keys[place] in source.postings else 1.0
        for place in terms.content()
    }
    lead = len(claim) - len(terms.text)
    words = []
    for place, (start, end) in enumerate(zip(terms.starts, terms.ends, strict=True)):
        beside = [other for other in range(place - _REACH, place + _REACH + 1) if other in doubts]
        total = sum(math.exp(-abs(other - place)) for other in beside)
        doubt = sum(doubts[other] * math.exp(-abs(other - place)) for other in beside) / total if beside else 0.0
        words.append((lead + start, lead + end, doubt))
    return words


def unbacked_spans(claim: str, passages: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Return the unsupported parts of ``claim`` as (start, end): adjacent words with a doubt of 0.5 or more.

    >>> claim = "The tower of Paris was painted green in 1968."
    >>> [claim[start:end] for start, end in unbacked_spans(claim, ["The tower of Paris was built in 1889."])]
    ['was painted green in 1968']
    """
    runs = groupby(doubted_words(claim, passages), key=lambda word: word[2] >= 0.5)
    unbacked = [list(words) for is_unbacked, words in runs if is_unbacked]
    return tuple((words[0][0], words[-1][1]) for words in unbacked)


def unbacked_in(item: Item, passages: Sequence[str] | None) -> tuple[str, ...]:
    """Return the parts of an unsupported claim or sentence that are not in ``passages``, the texts that judged it."""
    spans = unbacked_spans(item.text, passages) if passages and item.unbacked_by_chunks else ()
    return tuple(item.text[start:end] for start, end in spans)
