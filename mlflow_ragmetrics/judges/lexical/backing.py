"""Which sentences of the passages come nearest to a claim, and which of its words nothing backs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from mlflow_ragmetrics.core.score import Item
from mlflow_ragmetrics.judges.lexical.analysis import Source, source_of
from mlflow_ragmetrics.judges.lexical.support import Coverage, claim_terms, cover
from mlflow_ragmetrics.judges.lexical.terms import Term

__all__ = ["doubted_words", "nearest_places", "unbacked_in", "unbacked_spans"]

_NEAREST: Final = 2
_BESIDE: Final = 0.5
_ELSEWHERE: Final = 0.5
_RELATED: Final = 0.7
_FULL: Final = 0.8
_COMPARED: Final = 3
_FADING: Final = math.exp(-1)
_UNBACKED: Final = 0.5


def nearest_places(coverage: Coverage, source: Source, wanted: int = _NEAREST) -> tuple[int, ...]:
    """The sentences of the source that hold most of a claim, nearest first, ``wanted`` of them at most.

    Each shared content word counts by how few sentences hold it (inverse document frequency), and each pair of
    neighbours that are neighbours there too counts half a word more. Sentences with less than 0.8 times as many of the
    words as the fullest are not looked at.
    """
    masks = coverage.masks
    if not masks:
        return ()
    fewest = _FULL * max(map(int.bit_count, masks.values()))
    full = {place: mask for place, mask in masks.items() if mask.bit_count() >= fewest}
    if len(full) < wanted:
        full = dict(masks)
    total = len(source.places)
    bits = [(1 << bit, math.log(1 + total / len(source.postings[term.key]))) for bit, term in enumerate(coverage.found)]
    scores = {place: sum([weight for bit, weight in bits if mask & bit]) for place, mask in full.items()}
    ranked = sorted(scores, key=lambda place: (-scores[place], place))
    pairs = set(pairwise([term.key for term in coverage.content]))
    reach = scores[ranked[min(wanted, len(ranked)) - 1]] - _BESIDE * len(pairs)
    for place in ranked[: _COMPARED * wanted]:
        if scores[place] < reach:
            break
        keys = [term.key for term in source.places[place].terms]
        scores[place] += _BESIDE * len(pairs.intersection(pairwise(keys)))
    return tuple(sorted(ranked, key=lambda place: (-scores[place], place))[:wanted])


def doubted_words(claim: str, passages: Sequence[str]) -> tuple[tuple[int, int, float], ...]:
    """The words of ``claim`` as (start, end, doubt): 0 where the nearest two sentences have it, 1 where none does.

    A word that only stands elsewhere in the passages counts 0.5, one that a related word stands for 0.7. A word's
    doubt is the mean over it and its neighbours, which count less by a factor of e with each word between; words
    without content ("of", "the") have that of their neighbours.
    """
    source = source_of(tuple(passages))
    terms = claim_terms(claim)
    nearest = nearest_places(cover(terms, source), source)
    near = {term.key for place in nearest for term in source.places[place].terms}
    own = [_doubt(term, near, source) if term.content else None for term in terms]
    before, after = _fading(own), _fading(own[::-1])[::-1]
    words = []
    for term, doubt, (left, left_weight), (right, right_weight) in zip(terms, own, before, after, strict=True):
        weight = left_weight + right_weight - (doubt is not None)
        total = left + right - (doubt or 0.0)
        words.append((term.start, term.end, total / weight if weight else 0.0))
    return tuple(words)


def unbacked_spans(claim: str, passages: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """The parts of ``claim`` that nothing backs, as (start, end): neighbouring words with a doubt of 0.5 or more.

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
    """The parts of an unsupported claim or sentence that none of ``passages``, by which it was judged, backs.

    Nothing for what is supported, and where the judge shows no passage: nothing says then what it was held against.
    """
    judged = item.kind in ("claim", "sentence") and item.verdict in ("CONTRADICTED", "NEUTRAL")
    if not judged or not passages or not any(each.chunk for each in item.evidence):
        return ()
    return tuple(item.text[start:end] for start, end in unbacked_spans(item.text, passages))


def _doubt(term: Term, near: set[str], source: Source) -> float:
    if term.key in near:
        return 0.0
    if term.key in source.postings:
        return _ELSEWHERE
    return _RELATED if source.related(term.key) else 1.0


def _fading(own: Sequence[float | None]) -> list[tuple[float, float]]:
    """For each word the sums of doubts and of weights up to it, both fading with each step."""
    sums, total, weight = [], 0.0, 0.0
    for doubt in own:
        total, weight = total * _FADING + (doubt or 0.0), weight * _FADING + (doubt is not None)
        sums.append((total, weight))
    return sums
