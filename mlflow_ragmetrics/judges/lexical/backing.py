"""Which words of a claim nothing backs: found for those who look at it, not while it is judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from mlflow_ragmetrics.core.score import Item
from mlflow_ragmetrics.judges.lexical.analysis import Source, source_of
from mlflow_ragmetrics.judges.lexical.support import Compared, cover, nearest_places, terms_of_claim
from mlflow_ragmetrics.judges.lexical.terms import Term

__all__ = ["doubted_words", "unbacked_in", "unbacked_spans"]

_ELSEWHERE: Final = 0.5
_RELATED: Final = 0.7
_FADING: Final = math.exp(-1)
_UNBACKED: Final = 0.5


def doubted_words(claim: str, passages: Sequence[str]) -> tuple[tuple[int, int, float], ...]:
    """The words of ``claim`` as (start, end, doubt): 0 where the nearest two sentences have it, 1 where none does.

    A word that only stands elsewhere in the passages counts 0.5, one that a related word stands for 0.7. A word's
    doubt is the mean over it and its neighbours, which count less by a factor of e with each word between; words
    without content ("of", "the") have that of their neighbours. A remark on the source in front has no words here.
    """
    source = source_of(tuple(passages))
    (coverage,) = cover([Compared((terms_of_claim(claim),), source)])
    terms = coverage.claim.at()
    lead = len(claim) - len(coverage.claim.text)
    near = {key for place in nearest_places(coverage) for key in source.keys_of(place)}
    own = [_doubt(term, near, source) if term.content else None for term in terms]
    before, after = _fading(own), _fading(own[::-1])[::-1]
    words = []
    for term, doubt, (left, left_weight), (right, right_weight) in zip(terms, own, before, after, strict=True):
        weight = left_weight + right_weight - (doubt is not None)
        total = left + right - (doubt or 0.0)
        words.append((lead + term.start, lead + term.end, total / weight if weight else 0.0))
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
    """The parts of an unsupported claim or sentence that none of ``passages``, by which it was judged, backs."""
    spans = unbacked_spans(item.text, passages) if passages and item.unbacked_by_chunks else ()
    return tuple(item.text[start:end] for start, end in spans)


def _doubt(term: Term, near: set[str], source: Source) -> float:
    if term.key in near:
        return 0.0
    if term.key in source.ids:
        return _ELSEWHERE
    return _RELATED if source.related(term.key) else 1.0


def _fading(own: Sequence[float | None]) -> list[tuple[float, float]]:
    """For each word the sums of doubts and of weights up to it, both fading with each step."""
    sums, total, weight = [], 0.0, 0.0
    for doubt in own:
        total, weight = total * _FADING + (doubt or 0.0), weight * _FADING + (doubt is not None)
        sums.append((total, weight))
    return sums
