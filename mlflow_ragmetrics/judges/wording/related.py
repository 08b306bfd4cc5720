"""Which passages state something that a text says."""

from __future__ import annotations

from typing import Final

from mlflow_ragmetrics.judges.wording.analysis import sentences_of
from mlflow_ragmetrics.judges.wording.source import Place, Source, places_within
from mlflow_ragmetrics.judges.wording.terms import Term

__all__ = ["related_sentences"]

_SHARE: Final = 0.5
_FEWEST: Final = 2


def related_sentences(text: str, source: Source) -> list[tuple[Place, tuple[Term, ...]]]:
    """For each related passage the sentence that shares most with a sentence of ``text``, and the shared terms.

    Related: a sentence of the text has at least half of its content words, and two of them (or all), in it.
    """
    most = places_within(len(text))
    best: dict[int, tuple[float, Place, tuple[Term, ...]]] = {}
    distinct = {tuple(term.key for term in sentence.terms): sentence for sentence in sentences_of(text)}
    for sentence in distinct.values():
        unique = {term.key: term for term in sentence.terms if term.content}
        for number, share, place, shared in _shares(unique, source, most):
            if share >= _SHARE and len(shared) >= min(_FEWEST, len(unique)) and share > best.get(number, (0.0,))[0]:
                best[number] = (share, place, shared)
    return [(place, shared) for _, (_, place, shared) in sorted(best.items())]


def _shares(unique: dict[str, Term], source: Source, most: int) -> list[tuple[int, float, Place, tuple[Term, ...]]]:
    held: dict[int, list[Term]] = {}
    for key, term in unique.items():
        for place in source.postings.get(key, [])[:most]:
            held.setdefault(place, []).append(term)
    return [
        (source.places[place].passage, len(terms) / len(unique), source.places[place], tuple(terms))
        for place, terms in held.items()
    ]
