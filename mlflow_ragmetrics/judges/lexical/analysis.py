"""Texts taken apart once: sentences, claims that are pieces of an answer, and passages as an index of terms."""

from __future__ import annotations

import os
import re
import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain, compress
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlflow_ragmetrics.judges.lexical.terms import IS_CONTENT, ORS, Term, Terms, terms_of
from mlflow_ragmetrics.judges.lexical.words import (
    ABBREVIATIONS,
    CLOSING_ABBREVIATIONS,
    CURRENCY_SIGNS,
    STOP_WORDS,
    SUBJECTS,
)
from mlflow_ragmetrics.text.terms import has_content

__all__ = [
    "CLAUSE_END",
    "MARKER",
    "sentence_spans",
    "split_claims",
    "Recent",
    "Analysis",
    "analysed",
    "MOST_PLACES",
    "Cells",
    "CutClaim",
    "Column",
    "Source",
    "Sources",
    "ranges",
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
_COURTESY = re.compile(
    r"(?:please )?(?:let me know|feel free)|i hope|good luck|you['’]re welcome|happy to help|sure[,!.]"
    r"|надеюсь|удачи|обращайтесь|дайте знать",
    re.IGNORECASE,
)
_IN_REMARKS: Final = ("not", "n't", "n’t", "no ", "unable", "impossible", "difficult", "не")  # one of them is in each
_REMARK = re.compile(
    r"\b(?=[iwptcdsnотк])(?:"  # so that the others are tried at few words
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
_NO_TOKENS: Final = frozenset(" \t\r\"'“”«»‘’*_`•‣◦·-–—…#|/[]<>=+~&")
# What is read with words further behind, or in another order, or is no sentence where it is all that is left of one.
_READ_OTHERWISE = re.compile(r"[\n$€£₽]|(?:^|[.!?…。！？])[^\w.!?…。！？%°℃℉]*[%°℃℉]")
_ORDINAL = re.compile(r"\d(?:st|nd|rd|th|s)", re.IGNORECASE)
_UNUSUAL = re.compile(r"[\n$€£₽%°℃℉\d]")  # one of them is in whatever these two find, and this is fast
_WORD = re.compile(r"\w+")
_PRICED_ORDINAL = re.compile(r"[$€£₽][^\w$€£₽]*\d+(?:st|nd|rd|th)", re.IGNORECASE)  # its sign goes to a later number


_TEXT_KEPT: Final = 400_000
_FEWEST_KEPT: Final = 4

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """The values made for the most recently asked keys, kept while their sizes sum to ``capacity`` at most.

    The last four are kept whatever their sizes: the texts of one row are asked for again and again.
    """

    def __init__(self, make: Callable[[Key], Value], size: Callable[[Key], int], capacity: int) -> None:
        self._make, self._size, self._capacity = make, size, capacity
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)  # a thread of the parent may have been about to change it

    def _forget(self) -> None:
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
        self.keep(key, value)
        return value

    def keep(self, key: Key, value: Value) -> None:
        """Keep the value of a key that was made elsewhere."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = value
                self._total += self._size(key)
            while self._total > self._capacity and len(self._kept) > _FEWEST_KEPT:
                oldest, _ = self._kept.popitem(last=False)
                self._total -= self._size(oldest)


class Analysis:
    """The sentences of a text and the terms in them; what stands in no sentence, such as a list marker, is left out.

    The terms of a sentence are those from its place in ``borders`` to the next.
    """

    __slots__ = ("borders", "spans", "terms")

    def __init__(self, text: str) -> None:
        self.terms = terms_of(text)
        self.spans = tuple(sentence_spans(text))
        starts: Sequence[int] = self.terms.starts
        if any(sign in text for sign in CURRENCY_SIGNS):
            starts = list(accumulate(starts, max))  # a currency sign comes behind its number
        found, place = [], 0
        for start, end in self.spans:
            first = bisect_left(starts, start, place)
            place = bisect_left(starts, end, first)
            found.append(range(first, place))
        self.borders = (0, *accumulate(map(len, found)))
        if self.borders[-1] < len(starts):
            self.terms = self.terms.within(found)


analysed = Recent(Analysis, len, _TEXT_KEPT)


class CutClaim(NamedTuple):
    """A claim of a text, and its terms where those that it has there are those that it has alone."""

    text: str
    terms: Terms | None


def split_claims(text: str) -> Iterator[CutClaim]:
    """The claims of ``text``: sentences and list items, and clauses that have a subject of their own.

    Citations such as "[2]" and emphasis marks are removed. Questions and lead-ins ("Here are the steps:") state
    nothing and are left out, as are courtesies ("Let me know if …") and remarks that the passages do not say it, unless
    there is nothing else. No letter or digit: no claim.
    """
    analysis = analysed(text)
    pieces = [_clean(text[start:end]) for start, end in analysis.spans]
    stated = [number for number, piece in enumerate(pieces) if piece and not _states_nothing(piece)]
    chosen = stated or [number for number, piece in enumerate(pieces) if piece]
    claims = chain.from_iterable(_claims_of(analysis, number, pieces[number]) for number in chosen)
    return (CutClaim(claim, None) for claim, _ in claims) if _PRICED_ORDINAL.search(text) else claims


def _clean(piece: str) -> str:
    if "[" in piece or "【" in piece:
        piece = _CITATION.sub("", piece)
    return _EMPHASIS.sub("", piece).strip()


def _states_nothing(piece: str) -> bool:
    if piece.endswith(("?", ":", "？", "：")) or _COURTESY.match(piece):
        return True
    lowered = piece.lower()
    return any(map(lowered.__contains__, _IN_REMARKS)) and _REMARK.search(piece) is not None


def _claims_of(analysis: Analysis, number: int, piece: str) -> Iterator[CutClaim]:
    """The clauses of a sentence of the text; ``piece`` is that sentence without citations and emphasis."""
    start, end = analysis.spans[number]
    within = range(analysis.borders[number], analysis.borders[number + 1])
    as_written = end - start == len(piece)
    begins = as_written and _begins_alone(analysis.terms.text, start)
    ends = as_written and _ends_alone(analysis.terms.text, end)
    for first, last in _clauses(piece):
        claim = piece[first:last]
        alone = as_written and (begins or first > 0) and (ends or last < len(piece))
        alone = alone and not _is_read_otherwise(claim)
        yield CutClaim(claim, _terms_between(analysis.terms, within, start + first, start + last) if alone else None)


def _is_read_otherwise(claim: str) -> bool:
    """Whether a claim may be read in another way than in its text, also between breaks: signs, ordinals at its end."""
    if not _UNUSUAL.search(claim):
        return False
    if _READ_OTHERWISE.search(claim):
        return True
    return bool(_ORDINAL.search(claim)) and any(map(_ORDINAL.search, _WORD.findall(claim)[-2:]))


def _clauses(sentence: str) -> Iterator[Span]:
    """Cut at a semicolon, or at ", and" and its like where a pronoun or article opens the next clause."""
    start = 0
    for cut in _CLAUSE.finditer(sentence):
        subject = cut.group(1)
        if subject is not None and subject.casefold() not in SUBJECTS:
            continue
        if _has_words(sentence[start : cut.start()]) and _has_words(sentence[cut.end() : cut.end() + _AHEAD]):
            yield start, cut.start()
            start = cut.end()
    yield start, len(sentence)


def _has_words(piece: str) -> bool:
    return len(piece.split(maxsplit=_FEWEST_WORDS)) >= _FEWEST_WORDS


def _begins_alone(text: str, start: int) -> bool:
    """Whether the first words of a sentence are read as if nothing stood before it: behind the end of another."""
    before = start - 1
    while before >= 0 and text[before] in _NO_TOKENS:
        before -= 1
    return before < 0 or text[before] in "\n!?;:" or (text[before] == "." and not _abbreviates(text, before))


def _ends_alone(text: str, end: int) -> bool:
    """Whether the last words of a sentence are read as if nothing stood behind it: before a break."""
    last = end - 1
    while text[last] in _NO_TOKENS:
        last -= 1
    if text[last] in "\n!?;:,()":
        return True
    if text[last] == ".":
        return not _abbreviates(text, last)
    while end < len(text) and text[end] in _NO_TOKENS:
        end += 1
    return end == len(text) or text[end] in "\n.!?;:,()"


def _abbreviates(text: str, stop: int) -> bool:
    """Whether a full stop may be part of a word, as in "U.S."."""
    return stop > 0 and text[stop - 1].isalpha() and not text[max(0, stop - 2) : stop - 1].isalnum()


def _terms_between(terms: Terms, within: range, start: int, end: int) -> Terms | None:
    """The terms from ``start`` to ``end``, unless a text that begins with them would be read in another way."""
    first = bisect_left(terms.starts, start, within.start, within.stop)
    last = bisect_left(terms.starts, end, first, within.stop)
    if MARKER.match(terms.text, start) or (first < last and terms.keys[first] in ORS):
        return None
    return terms.part(range(first, last), start, end)


_PASSAGES_KEPT: Final = 200_000
_PREFIX: Final = 5
_LONGEST: Final = 60
_NEAR: Final = 4
_FEWEST_PLACES: Final = 5
_WORK: Final = 5_000_000
MOST_PLACES: Final = 500  # of one key: what a claim costs stays bounded however long the passages are

Column = NDArray[np.int64]


class Source:
    """Passages, indexed by the keys of their content terms.

    Their sentences are places, in order; one of more than 60 content terms (a table, a menu) is several places. All
    content terms stand in one row, of which place ``i`` has those from ``borders[i]`` on. ``ids`` numbers the keys.
    The places that hold the key of a number, 500 at most, are ``counts[number]`` of ``postings`` from
    ``starts[number]`` on. ``positions`` has the same of where it stands in ``spread``, the row with a gap of four
    behind each place, in which terms that are near each other are near.
    """

    def __init__(self, passages: tuple[str, ...]) -> None:
        analyses = list(map(analysed, passages))
        self._within = [each.terms for each in analyses]
        self._spans = [span for each in analyses for span in each.spans]
        offsets = [0, *accumulate(len(each.keys) for each in self._within)]
        self._offsets = offsets
        borders = zip(offsets, analyses, strict=False)
        ends = np.array([offset + end for offset, each in borders for end in each.borders[1:]], np.int64)
        kinds = b"".join([each.kinds for each in self._within])
        is_content = kinds.translate(IS_CONTENT)
        self._content = content = np.flatnonzero(np.frombuffer(is_content, np.uint8))
        sentence = np.searchsorted(ends, content, "right")
        rank = np.arange(len(content)) - np.searchsorted(content, np.append(0, ends))[sentence]
        opens = rank % _LONGEST == 0
        begins = np.flatnonzero(opens)
        self.borders = (*begins.tolist(), len(content))
        self._sentences = tuple(sentence[begins].tolist())
        numbers = [number for number, each in enumerate(analyses, start=1) for _ in each.spans]
        self.numbers = tuple(map(numbers.__getitem__, self._sentences))
        self.keys = tuple(compress(chain.from_iterable(each.keys for each in self._within), is_content))
        self.ids = {key: number for number, key in enumerate(dict.fromkeys(self.keys))}
        self.kinds = bytes(compress(kinds, is_content))
        self._index(np.cumsum(opens) - 1)

    def _index(self, places: Column) -> None:
        row = np.fromiter(map(self.ids.__getitem__, self.keys), np.int64, len(self.keys))
        order = np.argsort(row, kind="stable")
        row, places = row[order], places[order]
        totals = np.bincount(row, minlength=len(self.ids))
        starts = np.cumsum(totals) - totals
        rank = np.arange(len(row)) - starts[row]
        fresh = (rank == 0) | (np.diff(places, prepend=-1) != 0)
        before = np.append(0, np.cumsum(fresh))
        self.postings = places[fresh]
        self.starts = before[starts]
        self.counts = np.minimum(before[starts + totals] - self.starts, MOST_PLACES)
        self.positions = order + _NEAR * (places + 1)
        self.position_starts = starts
        self.position_counts = np.minimum(totals, MOST_PLACES)
        self.spread = np.full(len(row) + _NEAR * (len(self) + 2), -1)
        known = rank < MOST_PLACES
        self.spread[self.positions[known]] = row[known]

    def __len__(self) -> int:
        return len(self.numbers)

    def text_of(self, place: int) -> str:
        """The sentence of a place."""
        sentences, sentence, passage = self._sentences, self._sentences[place], self.numbers[place] - 1
        within, offset = self._within[passage], self._offsets[passage]
        start, end = self._spans[sentence]
        if place and sentences[place - 1] == sentence:
            start = within.starts[self._content[self.borders[place]] - offset]
        if place + 1 < len(sentences) and sentences[place + 1] == sentence:
            end = within.ends[self._content[self.borders[place + 1] - 1] - offset]
        return within.text[start:end]

    def terms_of(self, place: int) -> list[Term]:
        """The content terms of a place."""
        return self._terms(place, self.borders[place], self.borders[place + 1])

    def term_at(self, place: int, number: int) -> Term:
        """One of the content terms of a place, by its number from 0."""
        first = self.borders[place] + number
        return self._terms(place, first, first + 1)[0]

    def _terms(self, place: int, first: int, last: int) -> list[Term]:
        passage = self.numbers[place] - 1
        return self._within[passage].at((self._content[first:last] - self._offsets[passage]).tolist())

    def keys_of(self, place: int) -> tuple[str, ...]:
        """The keys of the content terms of a place."""
        return self.keys[self.borders[place] : self.borders[place + 1]]

    def kinds_of(self, place: int) -> bytes:
        """What the content terms of a place are."""
        return self.kinds[self.borders[place] : self.borders[place + 1]]

    def places_of(self, key: str) -> list[int]:
        """The places that hold a key, the first 500 of them."""
        number = self.ids.get(key)
        if number is None:
            return []
        start = self.starts[number]
        return self.postings[start : start + self.counts[number]].tolist()  # type: ignore[no-any-return]

    @cached_property
    def _prefixes(self) -> dict[str, list[str]]:
        prefixes: dict[str, list[str]] = {}
        for key in self.ids:
            if len(key) > _PREFIX:
                prefixes.setdefault(key[:_PREFIX], []).append(key)
        return prefixes

    def related(self, key: str) -> Sequence[str]:
        """Keys of the passages that begin like ``key``: "development" for "developer"."""
        return self._prefixes.get(key[:_PREFIX], ()) if len(key) > _PREFIX else ()


source_of = Recent(Source, lambda passages: sum(map(len, passages)), _PASSAGES_KEPT)


class Sources:
    """Several sources as one: the columns of all, in which each key and each place has a number of its own.

    Those of a source begin at its ``first_key`` and its ``first_place``; it has so many places (``sizes``). A source
    that is ``asked`` several times is there once; ``of`` says for each time where.
    """

    def __init__(self, asked: Iterable[Source]) -> None:
        distinct: dict[Source, int] = {}
        self.of = np.array([distinct.setdefault(each, len(distinct)) for each in asked])
        sources = list(distinct)
        self.sizes = np.array(list(map(len, sources)))
        self.first_key = _offsets([len(each.ids) for each in sources])
        self.first_place = _offsets(self.sizes)
        rows = _offsets([len(each.keys) for each in sources])
        self.passages = np.array([number for each in sources for number in each.numbers], np.int64)
        self.postings = _joined([each.postings for each in sources], self.first_place)
        self.starts = _joined([each.starts for each in sources], _offsets([len(each.postings) for each in sources]))
        self.counts = np.concatenate([each.counts for each in sources])
        spread = _offsets([len(each.spread) for each in sources])
        self.positions = _joined([each.positions for each in sources], spread)
        self.position_starts = _joined([each.position_starts for each in sources], rows)
        self.position_counts = np.concatenate([each.position_counts for each in sources])
        self.spread = _joined([each.spread for each in sources], self.first_key)


def _offsets(sizes: ArrayLike) -> Column:
    return np.cumsum(np.append(0, sizes)[:-1])


def _joined(columns: Sequence[Column], offsets: Column) -> Column:
    return np.concatenate([column + offset for column, offset in zip(columns, offsets.tolist(), strict=True)])


def ranges(starts: Column, counts: Column) -> tuple[Column, Column]:
    """The ``counts[i]`` numbers from ``starts[i]`` on, for each ``i`` in turn: which ``i`` each is of, and they."""
    of = np.repeat(np.arange(len(counts)), counts)
    return of, np.arange(len(of)) + (starts - np.cumsum(counts) + counts)[of]


class Cells:
    """Which places share keys with several texts: a cell for each text and each place that shares any, in order.

    ``keys``: the distinct keys of all texts, ``texts`` which text each is of, in order. Of each key, the first
    ``most[text]`` places are looked at. A cell has its ``text``, its ``place`` and how many keys are shared
    (``counts``); those of a text begin at its border in ``borders``. ``shared`` are the shared keys, cell by cell and
    in the texts' order, and ``of`` the cell of each; those of a cell begin at ``begins``.
    """

    def __init__(self, sources: Sources, keys: Column, texts: Column, most: Column) -> None:
        size = max(1, int(sources.sizes.sum()))
        of, at = ranges(sources.starts[keys], np.minimum(sources.counts[keys], most[texts]))
        slots = texts[of] * size + sources.postings[at]
        order = np.argsort(slots, kind="stable")
        slots = slots[order]
        is_new = np.diff(slots, prepend=-1) != 0
        self.shared, self.of = of[order], np.cumsum(is_new) - 1
        self.begins = np.flatnonzero(is_new)
        self.counts = np.diff(self.begins, append=len(slots))
        self.text, self.place = np.divmod(slots[self.begins], size)
        self.firsts = order[self.begins]
        ends = np.searchsorted(self.text, np.arange(len(most) + 1))
        self.borders: list[int] = ends.tolist()
        self._has_cells = np.flatnonzero(np.diff(ends))
        self._groups = ends[self._has_cells]

    def largest(self, figures: Column) -> Column:
        """The largest of its cells' ``figures`` for each text; 0 for one without cells."""
        found = np.zeros(len(self.borders) - 1, np.int64)
        if len(self._groups):
            found[self._has_cells] = np.maximum.reduceat(figures, self._groups)
        return found

    def first_of_largest(self, figures: Column) -> Column:
        """The cell with the largest of ``figures`` for each text; of equals the one that a search key by key finds."""
        found = np.zeros(len(self.borders) - 1, np.int64)
        if len(self._groups):
            is_largest = figures == self.largest(figures)[self.text]
            first = np.where(is_largest, self.firsts, np.iinfo(np.int64).max)
            least = np.zeros_like(found)
            least[self._has_cells] = np.minimum.reduceat(first, self._groups)
            found[self._has_cells] = np.flatnonzero(first == least[self.text])
        return found


def places_per_word(characters: int) -> int:
    """How many places of each word claims of so many characters are compared with, 5 to 500.

    Everything up to some ten thousand words of claims; beyond, the work grows with the text and not with its square.
    """
    return min(MOST_PLACES, max(_FEWEST_PLACES, _WORK // max(1, characters)))
