"""Finds the one word in which a claim differs from a sentence that otherwise says the same."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from mlflow_ragmetrics.judges.lexical.numbers import ORDINAL_WORDS, UNITS
from mlflow_ragmetrics.judges.lexical.source import Place
from mlflow_ragmetrics.judges.lexical.terms import ABOUT_PASSAGES, CANCELLING, NAME, NEGATED, NUMBER, Terms, stem

_FEWEST_SHARED: Final = 2
_MOST_OTHERS: Final = 1
_UNITS: Final = frozenset(map(stem, UNITS))
_ORDINALS: Final = frozenset(map(stem, ORDINAL_WORDS))
_LONGEST_SYMBOL: Final = 4


class Difference(NamedTuple):
    """A claim's word and what the sentence has in its place."""

    kind: Literal["word", "negation"]
    claim: str
    passage: str


def find_difference(terms: Terms, content: list[int], sentence: Place) -> Difference | None:
    """Return the number, unit, name or negation in which alone a claim differs from ``sentence``; else ``None``.

    The sentence must contain all other content words of the claim, at least two, and at most one word in its place.
    """
    claim_words = {terms.keys[place]: place for place in content}
    shared = claim_words.keys() & set(sentence.keys)
    others = [number for number, key in enumerate(sentence.keys) if key not in shared]
    if len(shared) < _FEWEST_SHARED or len(others) > _MOST_OTHERS or len(shared) < len(claim_words) - 1:
        return None
    missing = [place for key, place in claim_words.items() if key not in shared]
    if not missing:
        return _negation(terms, content, sentence)
    key, kind = terms.keys[missing[0]], terms.kinds[missing[0]]
    for number in others:
        word, other, key_there = terms.text_at(missing[0]), sentence.word(number), sentence.keys[number]
        is_name = kind & NAME and other[:1].isupper()
        are_units = any(key in words and key_there in words for words in (_UNITS, _ORDINALS, "≥≤"))
        if not are_units and max(len(word), len(other)) <= _LONGEST_SYMBOL:  # symbols of units behind one number
            number_before = terms.keys[missing[0] - 1] if missing[0] and terms.kinds[missing[0] - 1] & NUMBER else None
            are_units = number_before is not None and number > 0 and sentence.keys[number - 1] == number_before
        if is_name or are_units or kind & sentence.kinds[number] & NUMBER:
            return Difference("word", word, other)
    return None


def _negation(terms: Terms, content: list[int], sentence: Place) -> Difference | None:
    """Return the first word that only one of two texts with the same words negates."""
    denied = {terms.keys[place]: terms.text_at(place) for place in content if terms.kinds[place] & NEGATED}
    denied_there = {
        key: sentence.word(number)
        for number, (key, kind) in enumerate(zip(sentence.keys, sentence.kinds, strict=True))
        if kind & NEGATED
    }
    if bool(denied) == bool(denied_there):
        return None
    key, word = next(iter((denied or denied_there).items()))
    return None if key in ABOUT_PASSAGES or key in CANCELLING else Difference("negation", word, word)
