"""How well passages cover a claim, and the verdict that follows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from mlflow_ragmetrics.judges.lexical.contradiction import Disagreement, find_disagreement
from mlflow_ragmetrics.judges.lexical.source import MOST_PLACES, Source, sentences_of
from mlflow_ragmetrics.judges.lexical.terms import Term
from mlflow_ragmetrics.judges.lexical.words import ABOUT_PASSAGES

__all__ = ["THRESHOLD", "Coverage", "cover", "Judgement", "judge_claim"]

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
_MIDDLE: Final = 0.45
_STEEPNESS: Final = 12.0


@dataclass(frozen=True)
class Coverage:
    """What the passages have of a claim.

    ``support``: 0 to 1. ``found`` and ``missing``: the claim's content terms. ``places``: the sentences of the best
    window that share a term, the best first; ``sentence``: the share of the claim in the first of them.
    """

    support: float
    found: tuple[Term, ...]
    missing: tuple[Term, ...]
    places: tuple[int, ...]
    sentence: float


def cover(claim: Sequence[Term], source: Source, most: int = MOST_PLACES) -> Coverage:
    """Compare a claim's terms with the passages. A claim without content words is covered by nothing: support 0.

    Of each term, the first ``most`` places are looked at.
    """
    content = _telling(claim, source)
    unique = list({term.key: term for term in content}.values())
    if not unique:
        return Coverage(0.0, (), (), (), 0.0)
    found = tuple(term for term in unique if term.key in source.postings)
    missing = tuple(term for term in unique if term.key not in source.postings)
    credit = len(found) + sum(_RELATED for term in missing if source.related(term.key))
    sentence, window, places = _best_places([term.key for term in found], source, most)
    total = len(unique)
    share = (
        _ANYWHERE * credit / total
        + _SENTENCE * sentence / total
        + _WINDOW * window / total
        + _TOGETHER * _together(content, source, len(found) / total, most)
        - _MISSING_NUMBERS * _share_missing([term.key for term in unique if term.number], source)
        - _MISSING_NAMES * _share_missing([term.key for term in unique if term.name], source)
    )
    return Coverage(1 / (1 + math.exp(-_STEEPNESS * (share - _MIDDLE))), found, missing, places, sentence / total)


def _best_places(keys: list[str], source: Source, most: int) -> tuple[int, int, tuple[int, ...]]:
    """How many of ``keys`` the best sentence and the best window of sentences hold, and which sentences they are."""
    masks: dict[int, int] = {}
    for bit, key in enumerate(keys):
        for place in source.postings[key][:most]:
            masks[place] = masks.get(place, 0) | 1 << bit
    best_sentence, best_window, first = 0, 0, 0
    for place, mask in masks.items():
        held = union = mask.bit_count()
        if place + 1 in masks or place + 2 in masks:
            union = _held_from(place, masks, source).bit_count()
        if held > best_sentence:
            best_sentence = held
        if union > best_window:
            best_window, first = union, place
    window = [place for place in range(first, first + _WIDTH) if place in masks]
    by_share = sorted(window, key=lambda place: -masks[place].bit_count())
    return best_sentence, best_window, tuple(by_share)


def _held_from(place: int, masks: dict[int, int], source: Source) -> int:
    """What the window of sentences from ``place`` on holds, within its passage."""
    union, passage = masks[place], source.places[place].passage
    for near in range(place + 1, place + _WIDTH):
        if near in masks and source.places[near].passage == passage:
            union |= masks[near]
    return union


def _telling(claim: Sequence[Term], source: Source) -> list[Term]:
    """Content terms, without words about the passages themselves ("according to passage 2") that are not in them."""
    content = [term for term in claim if term.content][:_LONGEST_CLAIM]
    telling = [term for term in content if term.key not in ABOUT_PASSAGES or term.key in source.postings]
    return telling or content


def _together(content: list[Term], source: Source, otherwise: float, most: int) -> float:
    """How far neighbouring content words are neighbours in a passage too, 0 to 1; ``otherwise`` without a pair."""
    if len(content) < 2:
        return otherwise
    pairs = pairwise(content)
    return sum(source.nearness(left.key, right.key, most) for left, right in pairs) / (len(content) - 1)


def _share_missing(keys: list[str], source: Source) -> float:
    return sum(key not in source.postings for key in keys) / len(keys) if keys else 0.0


_CONTRADICTED: Final = 0.5
_LONGEST_COMPARED: Final = 100


@dataclass(frozen=True)
class Judgement:
    """What wording says of a claim; ``support`` is lower than the coverage where the passages disagree."""

    verdict: Literal["SUPPORTED", "CONTRADICTED", "NEUTRAL"]
    support: float
    coverage: Coverage
    disagreement: Disagreement | None


def judge_claim(claim: str, source: Source, threshold: float, most: int = MOST_PLACES) -> Judgement:
    """SUPPORTED from ``threshold`` on, CONTRADICTED where the best matching sentence says otherwise, else NEUTRAL.

    Of each word, the first ``most`` places are looked at.
    """
    terms = [term for sentence in sentences_of(claim) for term in sentence.terms]
    coverage = cover(terms, source, most)
    content = [term for term in terms if term.content][:_LONGEST_COMPARED]
    disagreement = None
    if coverage.places:
        disagreement = find_disagreement(content, source.places[coverage.places[0]].terms)
    if disagreement is not None:
        return Judgement("CONTRADICTED", _CONTRADICTED * coverage.support, coverage, disagreement)
    supported = coverage.support >= threshold
    return Judgement("SUPPORTED" if supported else "NEUTRAL", coverage.support, coverage, None)
