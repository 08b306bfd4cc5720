"""Where a claim and an otherwise matching sentence disagree: a number, a name, a negation, an opposite word."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from mlflow_ragmetrics.judges.lexical.analysis import Place
from mlflow_ragmetrics.judges.lexical.terms import CANCELLING, Term, is_negator, stem
from mlflow_ragmetrics.judges.lexical.words import ABOUT_PASSAGES, IMPLICIT_NEGATIONS, NEGATORS, OPPOSITES, UNITS

__all__ = ["Disagreement", "find_denial", "find_disagreement", "find_omission"]

_MATCHING: Final = 0.6
_FEWEST_SHARED: Final = 2
_REACH: Final = 3

_CLAUSE: Final = 8
_CONDITIONS = frozenset(("if", "when", "unless", "whether", "once", "если", "когда"))
_NEGATOR = re.compile(rf"\b(?:{'|'.join(sorted(NEGATORS))})\b|n['’]t\b", re.IGNORECASE)
_DENYING_PREFIXES = ("unab", "unkn", "uncl", "unlik", "unsaf", "impos", "incap", "illeg", "ineff", "inabil", "non-")

Kind = Literal["number", "name", "negation", "opposite"]
Fits = Callable[[Term, Term], bool]


@dataclass(frozen=True)
class Disagreement:
    """What differs: its kind, the claim's word and the passage's word."""

    kind: Kind
    claim: str
    passage: str


def find_disagreement(claim: Sequence[Term], sentence: Place) -> Disagreement | None:
    """The first disagreement of a claim, as content terms, with a sentence; ``None`` where they do not match.

    A number, name or opposite disagrees where it stands in the same slot: beside the same word, or at the same end.
    At least 60% of the claim's other words must be in the sentence, and two of them.
    """
    ours = {term.key for term in claim}
    shared = ours.intersection(sentence.keys)
    if len(shared) < _FEWEST_SHARED:
        return None
    other_unit = _other_unit(claim, sentence)
    if other_unit is not None:
        return other_unit
    if len(shared) < len(ours) and len(shared) >= _MATCHING * (len(ours) - 1):
        for kind, mine, other in _same_slots(claim, sentence, shared):
            return Disagreement(kind, mine.text, other.text)
    return None


def _same_slots(claim: Sequence[Term], sentence: Place, shared: set[str]) -> Iterator[tuple[Kind, Term, Term]]:
    """Terms of one kind that differ and stand in the same slot, where the claim's is not in the sentence.

    A number or an opposite needs one common neighbour, a name both.
    """
    differing = [
        place
        for place, mine in enumerate(claim)
        if mine.key not in shared and (mine.number or mine.name or mine.key in _OPPOSITE_STEMS)
    ]
    if not differing:
        return
    others = sentence.terms
    ours, theirs = [term.key for term in claim], [term.key for term in others]
    for place in differing:
        mine = claim[place]
        for other_place, other in enumerate(others):
            kind = next((kind for kind, fits in _KINDS if fits(mine, other)), None)
            if kind is None or (other.key in shared and kind != "name"):
                continue
            neighbours = _neighbours(ours, place, shared), _neighbours(theirs, other_place, shared)
            common = sum(left == right for left, right in zip(*neighbours, strict=True))
            if common == len(neighbours) or (common and kind != "name"):
                yield kind, mine, other


def _other_unit(claim: Sequence[Term], sentence: Place) -> Disagreement | None:
    """The claim's number with another unit of the same kind behind it than that number has in the sentence."""
    ours = _measures(claim)
    theirs = _measures(sentence.terms) if ours else {}
    for number, units in ours.items():
        others = theirs.get(number, {})
        if units.keys() & others.keys():
            continue
        for unit, written in units.items():
            for other, other_written in others.items():
                if _KINDS_OF_UNITS[unit] & _KINDS_OF_UNITS[other]:
                    return Disagreement("number", written, other_written)
    return None


def _measures(terms: Sequence[Term]) -> dict[str, dict[str, str]]:
    """For each number its units, and how number and unit are written."""
    found: dict[str, dict[str, str]] = {}
    for number, unit in pairwise(terms):
        if number.number and unit.key in _KINDS_OF_UNITS:
            written = f"{unit.text}{number.text}" if unit.start < number.start else f"{number.text} {unit.text}"
            found.setdefault(number.key, {})[unit.key] = written
    return found


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


def find_denial(claim: Sequence[Term], evidence: Sequence[Place]) -> Disagreement | None:
    """A word that the claim denies and the evidence, which holds much of the claim, says without a negation near it.

    ``claim`` are all terms, function words too. The evidence agrees where it denies the word, one of the claim's next
    words or a word shortly before it, says its opposite, or denies anything while the word is not in it. Conditions
    ("if it does not"), manners ("without", "careful not to"), hedges ("may not") and remarks on the passages deny
    nothing.
    """
    if not any(term.negated for term in claim):
        return None
    content = [term for term in claim if term.content]
    sentences = [place.terms for place in evidence]
    for index, term in enumerate(claim):
        if not term.negated or term.key in ABOUT_PASSAGES or term.key in CANCELLING or _is_qualified(claim, index):
            continue
        occurrences = [other for sentence in sentences for other in sentence if other.key == term.key]
        place = content.index(term)
        near = {each.key for each in content[max(place - 1, 0) : place + _REACH + 1]}
        opposites = _OPPOSITE_STEMS.get(term.key, set())
        if any(other.key in opposites for sentence in sentences for other in sentence):
            continue
        if any(_agrees(sentence, term.key, near) for sentence in sentences):
            continue
        if not occurrences and any(_NEGATOR.search(place.text) for place in evidence):
            continue
        return Disagreement("negation", term.text, occurrences[0].text if occurrences else term.text)
    return None


def find_omission(claim: Sequence[Term], evidence: Sequence[Place]) -> Disagreement | None:
    """A word that the evidence only ever denies, in a claim that denies nothing; the reverse of ``find_denial``."""
    if not any(place.negates for place in evidence):
        return None
    if any(is_negator(term.text.lower()) or _denies(term.key) for term in claim):
        return None
    others = [other for place in evidence for other in place.terms]
    affirmed = {other.key for other in others if not other.negated}
    ours = {term.key: term.text for term in claim if term.content and not term.number}
    for other in others:
        if other.negated and other.key in ours and other.key not in affirmed and other.key not in ABOUT_PASSAGES:
            return Disagreement("negation", ours[other.key], other.text)
    return None


def _is_qualified(claim: Sequence[Term], index: int) -> bool:
    """Whether the negation of the term at ``index`` states no fact: a condition, a manner, a hedge."""
    before = [term.text.lower() for term in claim[max(index - _CLAUSE, 0) : index]]
    negator = next((place for place in range(len(before) - 1, -1, -1) if is_negator(before[place])), None)
    if negator is None:
        return False
    hedged = before[negator - 1 : negator] and before[negator - 1] in ("may", "might")
    return bool(
        hedged
        or before[negator] in ("without", "без")
        or before[negator + 1 : negator + 2] == ["to"]
        or _CONDITIONS & set(before[:negator])
    )


def _agrees(sentence: Sequence[Term], key: str, near: set[str]) -> bool:
    """Whether a sentence denies a word too: within three words of it, or one of the ``near`` words in its place."""
    places = [place for place, other in enumerate(sentence) if other.key == key]
    for place, other in enumerate(sentence):
        if other.negated or (_denies(other.key) and other.key not in near):
            if not places and (other.key in near or not other.negated):
                return True
            if any(0 <= each - place <= _REACH for each in places):
                return True
            if other.key in near and any(0 < place - each <= _REACH for each in places):
                return True
    return False


def _denies(key: str) -> bool:
    """Whether a word denies something by itself: "fail", "unable", "impossible"."""
    return key in IMPLICIT_NEGATIONS or key.startswith(_DENYING_PREFIXES)


def _opposite_stems() -> dict[str, set[str]]:
    opposites: dict[str, set[str]] = {}
    for left, right in OPPOSITES:
        opposites.setdefault(stem(left), set()).add(stem(right))
        opposites.setdefault(stem(right), set()).add(stem(left))
    return opposites


_OPPOSITE_STEMS = _opposite_stems()
_KINDS_OF_UNITS = {
    stem(word): {kind for kind, words in UNITS.items() if word in words} for word in frozenset().union(*UNITS.values())
}
_KINDS: tuple[tuple[Kind, Fits], ...] = (("number", _other_number), ("opposite", _opposite), ("name", _other_name))
