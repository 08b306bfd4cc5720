"""How likely passages hold the answer to a question, by its words in them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Final

from mlflow_ragmetrics.judges.lexical.analysis import Source
from mlflow_ragmetrics.judges.lexical.grades import content_of
from mlflow_ragmetrics.judges.lexical.terms import NAME, NUMBER, Term

__all__ = ["QuestionCoverage", "cover_question"]

_SATURATION: Final = 1.0
_LENGTH: Final = 0.75
_USUAL_LENGTH: Final = 60.0
_RELATED: Final = 0.6
_EARLIER: Final = 0.3
_PROSE: Final = 0.25
_MIDDLE: Final = 0.48
_STEEPNESS: Final = 9.0


@dataclass(frozen=True)
class QuestionCoverage:
    """``value``: 0 to 1. The passage (from 1) that holds most of the question, its sentence, the words in it or not."""

    value: float
    passage: int = 0
    sentence: str = ""
    found: tuple[Term, ...] = ()
    missing: tuple[Term, ...] = ()


def cover_question(question: str, history: tuple[str, ...], source: Source) -> QuestionCoverage:
    """The best passage's share of the question's words, each by how often it stands there for the passage's length.

    The weight of a word is that of Okapi BM25; words of the user's turn before count less, as they may say what "it"
    is. Tables and menus hold words without saying anything: prose counts more. Nothing is known of the world: whether
    what is said about the words is what was asked, is not seen.
    """
    weights = {term.key: _EARLIER for turn in history[-1:] for term in content_of(turn) if term.content}
    asked = {term.key: term for term in content_of(question)}
    weights.update(dict.fromkeys(asked, 1.0))
    passages: dict[int, list[int]] = {}
    for place, number in enumerate(source.numbers):
        passages.setdefault(number, []).append(place)
    if not asked or not passages:
        return QuestionCoverage(0.0, missing=tuple(asked.values()))
    shares = {number: _share(weights, asked, places, source) for number, places in passages.items()}
    best = max(shares, key=lambda number: shares[number])
    keys = {key for place in passages[best] for key in source.keys_of(place)}
    sentence = max(passages[best], key=lambda place: len(asked.keys() & set(source.keys_of(place))))
    return QuestionCoverage(
        1 / (1 + math.exp(-_STEEPNESS * (shares[best] - _MIDDLE))),
        best,
        source.text_of(sentence),
        tuple(term for key, term in asked.items() if key in keys),
        tuple(term for key, term in asked.items() if key not in keys),
    )


def _share(weights: dict[str, float], asked: dict[str, Term], places: list[int], source: Source) -> float:
    counts = Counter([key for place in places for key in source.keys_of(place)])
    kinds = b"".join(map(source.kinds_of, places))
    length = _SATURATION * (1 - _LENGTH + _LENGTH * len(kinds) / _USUAL_LENGTH)
    total = credit = 0.0
    for key, weight in weights.items():
        count: float = counts[key] or _RELATED * max((counts[each] for each in source.related(key)), default=0)
        if key in asked or count:  # what was said before may be spoken of again, and need not
            total += weight
            credit += weight * count / (count + length)
    prose = sum(not kind & (NAME | NUMBER) for kind in kinds) / len(kinds) if kinds else 0.0
    return credit / total + _PROSE * prose
