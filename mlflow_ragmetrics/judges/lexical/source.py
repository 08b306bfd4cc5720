"""Analyses texts: their terms by sentence, their claims, and an index of passages by term."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property, lru_cache, partial
from typing import Final, NamedTuple

from mlflow_ragmetrics.judges.lexical.terms import Terms, terms_of
from mlflow_ragmetrics.text.non_answers import is_bare_courtesy, is_courtesy
from mlflow_ragmetrics.text.sentences import Sentence, blanked, read_sentences, without_marks
from mlflow_ragmetrics.text.word_lists import pattern_of, words_of
from mlflow_ragmetrics.text.words import has_content, has_words, kept, normalised

_LONGEST_KEPT: Final = 8_000  # characters; the cache holds many texts up to this length
_PREFIX: Final = 5
_LONGEST: Final = 60
_NEAR: Final = 4
_FEWEST_PLACES: Final = 5
_WORK: Final = 5_000_000
_SPOKEN: Final = re.compile(r"[^\s.,;:!?…()\[\]\"']+")
MOST_PLACES: Final = 500  # per key, so that the work per claim is limited however long the passages are


class Analysis(NamedTuple):
    """The terms of a text, and its sentences as (start, end, range of terms)."""

    terms: Terms
    sentences: list[tuple[int, int, range]]

    def content(self) -> list[int]:
        """The content terms of all sentences."""
        return [place for *_, places in self.sentences for place in self.terms.content(places)]


def _analyse(text: str) -> Analysis:
    terms = terms_of(blanked(text))
    terms.text = text
    sentences = []
    last = 0
    for start, end, _ in read_sentences(text):
        first = bisect_left(terms.starts, start, last)
        last = bisect_left(terms.starts, end, first)
        sentences.append((start, end, range(first, last)))
    return Analysis(terms, sentences)


_many_analyses, _few_analyses = lru_cache(maxsize=512)(_analyse), lru_cache(maxsize=4)(_analyse)


def analysed(text: str) -> Analysis:
    """Analyse ``text``; the results are cached, but only a few for long texts."""
    return (_many_analyses if len(text) <= _LONGEST_KEPT else _few_analyses)(text)


class Place(NamedTuple):
    """One sentence of a passage, with the passage's number from 1 and the content terms.

    ``content``: their indices among the passage's ``terms``. ``keys`` and ``kinds``: their keys and kinds.
    ``position``: the position of the first one among all content terms of the source.
    """

    passage: int
    terms: Terms
    start: int
    end: int
    content: list[int]
    keys: list[str]
    kinds: list[int]
    position: int

    @property
    def text(self) -> str:
        """The sentence."""
        return self.terms.text[self.start : self.end]

    def word(self, number: int) -> str:
        """Return the text of a content term."""
        return self.terms.text_at(self.content[number])


def _spoken(text: str) -> str:
    """The words of a text and their signs, without case and punctuation, with blanks around each."""
    return f" {' '.join(_SPOKEN.findall(normalised(blanked(text)).casefold()))} "


class Source:
    """Passages, indexed by the keys of their content terms.

    ``places``: their sentences in order; one with more than 60 content terms (a table, a menu) is split. ``postings``:
    the first 500 places of each key.
    """

    def __init__(self, passages: tuple[str, ...]) -> None:
        self.passages = passages
        self.places: list[Place] = []
        self.postings: dict[str, list[int]] = {}
        position = 0
        for number, passage in enumerate(passages, start=1):
            terms, sentences = analysed(passage)
            for start, end, places in sentences:
                content = terms.content(places)
                for first in range(0, len(content), _LONGEST):
                    piece = content[first : first + _LONGEST]
                    begin = start if first == 0 else terms.starts[piece[0]]
                    stop = end if first + _LONGEST >= len(content) else terms.ends[piece[-1]]
                    keys, kinds = [terms.keys[each] for each in piece], [terms.kinds[each] for each in piece]
                    self._add(Place(number, terms, begin, stop, piece, keys, kinds, position))
                    position += len(keys) + _NEAR

    def says(self, claim: str) -> bool:
        """Whether a passage contains the claim word for word."""
        return any(_spoken(claim) in passage for passage in self._spoken)

    @cached_property
    def _spoken(self) -> list[str]:
        return list(map(_spoken, self.passages))

    def _add(self, place: Place) -> None:
        number = len(self.places)
        self.places.append(place)
        for key in place.keys:
            postings = self.postings.setdefault(key, [number])
            if postings[-1] != number and len(postings) < MOST_PLACES:
                postings.append(number)

    @cached_property
    def _positions(self) -> dict[str, list[int]]:
        """The first 500 positions of each key."""
        found: dict[str, list[int]] = {}
        for place in self.places:
            for position, key in enumerate(place.keys, place.position):
                positions = found.setdefault(key, [])
                if len(positions) < MOST_PLACES:
                    positions.append(position)
        return found

    @cached_property
    def _prefixes(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for key in self.postings:
            if len(key) > _PREFIX:
                found.setdefault(key[:_PREFIX], []).append(key)
        return found

    def nearness(self, left: str, right: str, most: int) -> float:
        """Return 1 if ``right`` directly follows ``left``, 0.5 if they are at most four terms apart, else 0.

        Considers the first ``most`` occurrences of ``left``.
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
        """Return keys in the passages with the same beginning as ``key``: "development" for "developer"."""
        return self._prefixes.get(key[:_PREFIX], []) if len(key) > _PREFIX else []


_many_sources, _few_sources = lru_cache(maxsize=200)(Source), lru_cache(maxsize=2)(Source)


def source_of(passages: tuple[str, ...]) -> Source:
    """Index ``passages``; the results are cached, but only a few for long passages."""
    return (_many_sources if sum(map(len, passages)) <= _LONGEST_KEPT else _few_sources)(passages)


def places_per_word(characters: int) -> int:
    """Return how many places per word to compare with claims of this length: 5 to 500.

    The limit applies from about ten thousand words, where work would otherwise grow with the square of the length.
    """
    return min(MOST_PLACES, max(_FEWEST_PLACES, _WORK // max(1, characters)))


_FEWEST_WORDS: Final = 3
_AHEAD: Final = 100
_SUBJECTS: Final = words_of("subjects")
_NO_CLAIM = pattern_of("no_claims", before=r"[\W_]*", after=r"[\W_]*")
_LEAD_IN = pattern_of("lead_ins", passages=pattern_of("according").pattern)
_SIGNED = pattern_of("signatures", before=r"\W*", after=r"\W*")
_NAME = re.compile(r"[A-ZÀ-ÞА-ЯЁ]\w*\.?(?: [A-ZÀ-ÞА-ЯЁ]\w*\.?){0,2}")
_BOLD = re.compile(r"\*\*[^*]*[^*.!?…]\*\*:?")
_REMARK = pattern_of("remarks_on_passages", before=r"\b(?=[iwptcdsnотк])")  # tries only words with these initials
CLAUSE_END = re.compile(r";\s+|,\s+(?:and|but|while|whereas|а|но|и)\s+", re.IGNORECASE)
_CLAUSE = re.compile(rf"{CLAUSE_END.pattern}(?=(\w+)\s)", re.IGNORECASE)


@partial(kept, texts=512)  # several questions about a row need the claims of its answer
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
        before, behind = sentence[start : cut.start()], sentence[cut.end() : cut.end() + _AHEAD]
        if has_words(before, _FEWEST_WORDS) and has_words(behind, _FEWEST_WORDS):
            yield before
            start = cut.end()
    yield sentence[start:]
