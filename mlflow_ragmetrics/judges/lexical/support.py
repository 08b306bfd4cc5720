"""Judges claims by wording: their support, the one word in which they differ, and their unsupported words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Final, Literal, NamedTuple

from mlflow_ragmetrics.core.score import Item
from mlflow_ragmetrics.judges.lexical.keys import CANCELLING, ORDINALS, UNITS, stem
from mlflow_ragmetrics.judges.lexical.source import Coverage, Place, Source, source_of
from mlflow_ragmetrics.judges.lexical.terms import ABOUT_PASSAGES, NAME, NEGATED, NUMBER, Terms

THRESHOLD: Final = 0.65
_UNITS: Final = frozenset(map(stem, UNITS))
_ORDINALS: Final = frozenset(map(stem, ORDINALS))
_FEWEST_SHARED: Final = 2
_LONGEST_SYMBOL: Final = 4


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
    if shared < max(_FEWEST_SHARED, total - 1):
        return None
    terms, sentence = coverage.terms, coverage.source.places[place]
    claim_words = {terms.keys[place]: place for place in coverage.content}
    others = [number for number, key in enumerate(sentence.keys) if key not in claim_words]
    if shared == total and len(others) < 2:
        return _negation(terms, coverage.content, sentence)
    if shared == total or len(others) != 1:
        return None
    (missing,) = [place for key, place in claim_words.items() if key not in sentence.keys]
    (number,) = others
    word, key, kind = terms.text_at(missing), terms.keys[missing], terms.kinds[missing]
    other, key_there = sentence.word(number), sentence.keys[number]
    is_name = kind & NAME and other[:1].isupper()
    are_units = any(key in words and key_there in words for words in (_UNITS, _ORDINALS, "≥≤"))
    if missing and number and max(len(key), len(key_there)) <= _LONGEST_SYMBOL:  # symbols of units behind one number
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


_DOUBTED: Final = 0.5


class Judgement(NamedTuple):
    """A verdict by wording; ``support`` is lower than the coverage if something speaks against the claim.

    ``quoted``: the nearest sentences, or the one from which the claim differs. ``difference``: the only word in which
    the claim differs from that sentence. ``stray_number``: a number that is not near other words.
    """

    verdict: Literal["SUPPORTED", "NEUTRAL"]
    support: float
    coverage: Coverage
    quoted: Sequence[int]
    difference: Difference | None = None
    stray_number: str = ""


def judge_claim(claim: str, source: Source, threshold: float) -> Judgement:
    """SUPPORTED at ``threshold`` or above, or if a passage contains the claim word for word; else NEUTRAL."""
    coverage = source.coverage(claim)
    nearest = coverage.nearest[:1]
    difference = find_difference(coverage, nearest[0]) if nearest else None
    stray = coverage.stray_number
    support = coverage.support * (1 if difference is None and stray is None else _DOUBTED)
    if support >= threshold:
        agreeing = [place for place in coverage.backing if find_difference(coverage, place) is None]
        return Judgement("SUPPORTED", support, coverage, list(dict.fromkeys((*nearest, *agreeing))))
    if difference is not None:
        return Judgement("NEUTRAL", support, coverage, nearest, difference)
    if len(coverage.missing) < 2 and source.says(claim):
        return Judgement("SUPPORTED", 1.0, coverage, nearest)
    number = "" if stray is None else coverage.terms.text_at(stray)
    return Judgement("NEUTRAL", support, coverage, coverage.nearest[:2], None, number)


_ELSEWHERE: Final = 0.5
_REACH: Final = 4
_UNBACKED: Final = 0.5


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
        place: 0.0 if terms.keys[place] in near else _ELSEWHERE if terms.keys[place] in source.postings else 1.0
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
    runs = groupby(doubted_words(claim, passages), key=lambda word: word[2] >= _UNBACKED)
    unbacked = [list(words) for is_unbacked, words in runs if is_unbacked]
    return tuple((words[0][0], words[-1][1]) for words in unbacked)


def unbacked_in(item: Item, passages: Sequence[str] | None) -> tuple[str, ...]:
    """Return the parts of an unsupported claim or sentence that are not in ``passages``, the texts that judged it."""
    spans = unbacked_spans(item.text, passages) if passages and item.unbacked_by_chunks else ()
    return tuple(item.text[start:end] for start, end in spans)
