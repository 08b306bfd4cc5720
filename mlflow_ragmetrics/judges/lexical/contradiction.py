"""Where a claim and an otherwise matching sentence disagree: a number, a name, a negation, an opposite word."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from mlflow_ragmetrics.judges.lexical.terms import Term, stem
from mlflow_ragmetrics.judges.lexical.words import IMPLICIT_NEGATIONS, OPPOSITES

__all__ = ["Disagreement", "find_disagreement"]

_MATCHING: Final = 0.6
_NEGATION_MATCHING: Final = 0.75
_FEWEST_SHARED: Final = 2
_REACH: Final = 3

Kind = Literal["number", "name", "negation", "opposite"]
Fits = Callable[[Term, Term], bool]


@dataclass(frozen=True)
class Disagreement:
    """What differs: its kind, the claim's word and the passage's word."""

    kind: Kind
    claim: str
    passage: str


def find_disagreement(claim: Sequence[Term], sentence: Sequence[Term]) -> Disagreement | None:
    """The first disagreement of a claim with a sentence, both as content terms; ``None`` where they do not match.

    A number, name or opposite disagrees where it stands in the same slot: beside the same word, or at the same end.
    At least 60% of the claim's other words must be in the sentence (75% for negation), and two of them.
    """
    theirs, ours = {term.key for term in sentence}, {term.key for term in claim}
    shared = len(ours & theirs)
    if shared < _FEWEST_SHARED:
        return None
    if shared < len(ours) and shared >= _MATCHING * (len(ours) - 1):
        for kind, mine, other in _same_slots(claim, sentence):
            return Disagreement(kind, mine.text, other.text)
    return _negation(claim, sentence) if shared >= _NEGATION_MATCHING * len(ours) else None


def _same_slots(claim: Sequence[Term], sentence: Sequence[Term]) -> Iterator[tuple[Kind, Term, Term]]:
    """Terms of one kind that differ and stand in the same slot, where the claim's is not in the sentence.

    A number or an opposite needs one common neighbour, a name both.
    """
    ours, theirs = [term.key for term in claim], [term.key for term in sentence]
    shared = set(ours) & set(theirs)
    for place, mine in enumerate(claim):
        if mine.key in shared:
            continue
        for other_place, other in enumerate(sentence):
            kind = next((kind for kind, fits in _KINDS if fits(mine, other)), None)
            if kind is None or (other.key in shared and kind != "name"):
                continue
            neighbours = _neighbours(ours, place, shared), _neighbours(theirs, other_place, shared)
            common = sum(left == right for left, right in zip(*neighbours, strict=True))
            if common == len(neighbours) or (common and kind != "name"):
                yield kind, mine, other


def _neighbours(keys: Sequence[str], place: int, shared: set[str]) -> tuple[str, str]:
    """The nearest shared keys before and after, at most three away; at the end of the text, an empty key."""
    before, after = place - 1, place + 1
    while before >= 0 and keys[before] not in shared and place - before < _REACH:
        before -= 1
    while after < len(keys) and keys[after] not in shared and after - place < _REACH:
        after += 1
    return keys[before] if before >= 0 else "", keys[after] if after < len(keys) else ""


def _other_number(mine: Term, other: Term) -> bool:
    return mine.number and other.number and _shape(mine.key) == _shape(other.key)


def _shape(key: str) -> str:
    """Months, clock times, years and other numbers never take each other's place."""
    if key.startswith("month:"):
        return "month"
    if ":" in key:
        return "time"
    return "year" if len(key) == 5 and key[1] in "12" and key[1:].isdecimal() else "number"


def _other_name(mine: Term, other: Term) -> bool:
    return mine.name and other.name and mine.key[:4] != other.key[:4]


def _opposite(mine: Term, other: Term) -> bool:
    return other.key in _OPPOSITE_STEMS.get(mine.key, ())


def _negation(claim: Sequence[Term], sentence: Sequence[Term]) -> Disagreement | None:
    """A word that follows a negator on one side only, whatever else is negated there."""
    if any(term.key in IMPLICIT_NEGATIONS for term in (*claim, *sentence)):
        return None
    ours, theirs = _polarities(claim), _polarities(sentence)
    for key, (mine, text) in ours.items():
        other, their_text = theirs.get(key, (mine, text))
        if not mine & other:
            return Disagreement("negation", text, their_text)
    return None


def _polarities(terms: Sequence[Term]) -> dict[str, tuple[frozenset[bool], str]]:
    found: dict[str, set[bool]] = {}
    for term in terms:
        found.setdefault(term.key, set()).add(term.negated)
    texts = {term.key: term.text for term in terms}
    return {key: (frozenset(polarities), texts[key]) for key, polarities in found.items()}


def _opposite_stems() -> dict[str, set[str]]:
    opposites: dict[str, set[str]] = {}
    for left, right in OPPOSITES:
        opposites.setdefault(stem(left), set()).add(stem(right))
        opposites.setdefault(stem(right), set()).add(stem(left))
    return opposites


_OPPOSITE_STEMS = _opposite_stems()
_KINDS: tuple[tuple[Kind, Fits], ...] = (("number", _other_number), ("opposite", _opposite), ("name", _other_name))
