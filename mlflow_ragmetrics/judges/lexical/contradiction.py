"""Where a claim and an otherwise matching sentence disagree: a number, a name, a negation, an opposite word."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, Literal

from mlflow_ragmetrics.judges.lexical.analysis import Source
from mlflow_ragmetrics.judges.lexical.terms import (
    CANCELLING,
    NAME,
    NEGATED,
    NUMBER,
    Term,
    Terms,
    is_negator,
    stem,
)
from mlflow_ragmetrics.judges.lexical.words import ABOUT_PASSAGES, IMPLICIT_NEGATIONS, NEGATORS, OPPOSITES, UNITS

__all__ = ["ComparedTerms", "Disagreement", "find_denial", "find_disagreement", "find_omission"]

_MATCHING: Final = 0.6
_FEWEST_SHARED: Final = 2
_REACH: Final = 3
_REPLACEABLE: Final = NUMBER | NAME
_NONE: Final = frozenset[str]()

_CLAUSE: Final = 8
_CONDITIONS = frozenset(("if", "when", "unless", "whether", "once", "если", "когда"))
_NEGATOR = re.compile(rf"\b(?:{'|'.join(sorted(NEGATORS))})\b|n['’]t\b", re.IGNORECASE)
_DENYING_PREFIXES = ("unab", "unkn", "uncl", "unlik", "unsaf", "impos", "incap", "illeg", "ineff", "inabil", "non-")

Kind = Literal["number", "name", "negation", "opposite"]


@dataclass(frozen=True)
class Disagreement:
    """What differs: its kind, the claim's word and the passage's word."""

    kind: Kind
    claim: str
    passage: str


class ComparedTerms:
    """Content terms of a claim as they are held against one sentence after another."""

    def __init__(self, terms: Terms, places: Sequence[int]) -> None:
        self._terms, self._places = terms, places
        self.ordered = tuple([terms.keys[place] for place in places])

    @cached_property
    def keys(self) -> set[str]:
        """The keys of the terms."""
        return set(self.ordered)

    @cached_property
    def kinds(self) -> bytes:
        """What each of the terms is."""
        return bytes([self._terms.kinds[place] for place in self._places])

    @cached_property
    def measures(self) -> dict[str, dict[str, str]]:
        """For each number its units, and how number and unit are written."""
        units = map(_KINDS_OF_UNITS.__contains__, self.ordered[1:])
        has_any = self._terms.has(NUMBER) and any(
            unit and kind & NUMBER for unit, kind in zip(units, self.kinds, strict=False)
        )
        return _measures(self._terms.at(self._places)) if has_any else {}

    def text_at(self, number: int) -> str:
        """The text of a term."""
        return self._terms.text_at(self._places[number])


def find_disagreement(claim: ComparedTerms, source: Source, sentence: int) -> Disagreement | None:
    """The first disagreement of a claim with a sentence; ``None`` where they do not match.

    A number, name or opposite disagrees where it stands in the same slot: beside the same word, or at the same end.
    At least 60% of the claim's other words must be in the sentence, and two of them.
    """
    keys = source.keys_of(sentence)
    if keys == claim.ordered:
        return None
    shared = claim.keys.intersection(keys)
    if len(shared) < _FEWEST_SHARED:
        return None
    other_unit = _other_unit(claim.measures, _measures(source.terms_of(sentence))) if claim.measures else None
    if other_unit is not None:
        return other_unit
    if len(shared) < len(claim.keys) and len(shared) >= _MATCHING * (len(claim.keys) - 1):
        for kind, mine, other in _same_slots(claim, keys, source.kinds_of(sentence), shared):
            return Disagreement(kind, claim.text_at(mine), source.term_at(sentence, other).text)
    return None


def _same_slots(
    claim: ComparedTerms, keys: Sequence[str], kinds: bytes, shared: set[str]
) -> Iterator[tuple[Kind, int, int]]:
    """Terms of one kind that differ and stand in the same slot, where the claim's is not in the sentence.

    A number or an opposite needs one common neighbour, a name both.
    """
    for mine, key in enumerate(claim.ordered):
        opposites = _OPPOSITE_STEMS.get(key, _NONE)
        is_kind = claim.kinds[mine] & _REPLACEABLE
        if not (is_kind or opposites) or key in shared:
            continue
        for other, other_key in enumerate(keys):
            both = is_kind & kinds[other]
            kind = _kind_of(key, other_key, both, opposites) if both or opposites else None
            if kind is None or (other_key in shared and kind != "name"):
                continue
            neighbours = _neighbours(claim.ordered, mine, shared), _neighbours(keys, other, shared)
            common = sum(left == right for left, right in zip(*neighbours, strict=True))
            if common == len(neighbours) or (common and kind != "name"):
                yield kind, mine, other


def _kind_of(mine: str, other: str, both: int, opposites: Container[str]) -> Kind | None:
    """As what one term may take the place of another; ``both``: what each of them is."""
    if both & NUMBER and _shape(mine) == _shape(other):
        return "number"
    if other in opposites:
        return "opposite"
    return "name" if both & NAME and mine[:4] != other[:4] else None


def _other_unit(ours: Mapping[str, Mapping[str, str]], theirs: Mapping[str, Mapping[str, str]]) -> Disagreement | None:
    """The claim's number with another unit of the same kind behind it than that number has in the sentence."""
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


def _shape(key: str) -> str:
    """Months, clock times, years and other numbers never take each other's place."""
    if key.startswith("month:"):
        return "month"
    if ":" in key:
        return "time"
    return "year" if len(key) == 5 and key[1] in "12" and key[1:].isdecimal() else "number"


def find_denial(claim: Terms, source: Source, evidence: Sequence[int]) -> Disagreement | None:
    """A word that the claim denies and the evidence, which holds much of the claim, says without a negation near it.

    The evidence agrees where it denies the word, one of the claim's next
    words or a word shortly before it, says its opposite, or denies anything while the word is not in it. Conditions
    ("if it does not"), manners ("without", "careful not to"), hedges ("may not") and remarks on the passages deny
    nothing.
    """
    keys, content = claim.keys, claim.content()
    sentences = [(source.keys_of(place), source.kinds_of(place)) for place in evidence]
    for number, term in enumerate(content):
        key = keys[term]
        if not claim.kinds[term] & NEGATED or key in ABOUT_PASSAGES or key in CANCELLING or _is_qualified(claim, term):
            continue
        near = {keys[each] for each in content[max(number - 1, 0) : number + _REACH + 1]}
        opposites = _OPPOSITE_STEMS.get(key, _NONE)
        if not all(opposites.isdisjoint(others) for others, _ in sentences):
            continue
        if any(_agrees(*sentence, key, near) for sentence in sentences):
            continue
        said = next((place for place, (others, _) in zip(evidence, sentences, strict=True) if key in others), None)
        if said is not None:
            other = source.term_at(said, source.keys_of(said).index(key)).text
        elif any(_NEGATOR.search(source.text_of(place)) for place in evidence):
            continue
        else:
            other = claim.text_at(term)
        return Disagreement("negation", claim.text_at(term), other)
    return None


def find_omission(claim: Terms, source: Source, evidence: Sequence[int]) -> Disagreement | None:
    """A word that the evidence only ever denies, in a claim that denies nothing; the reverse of ``find_denial``."""
    sentences = [(place, source.keys_of(place), source.kinds_of(place)) for place in evidence]
    affirmed = {
        key for _, keys, kinds in sentences for key, kind in zip(keys, kinds, strict=True) if not kind & NEGATED
    }
    ours = {claim.keys[place]: place for place in claim.content() if not claim.kinds[place] & NUMBER}
    for place, keys, kinds in sentences:
        for number, key in enumerate(keys):
            if kinds[number] & NEGATED and key in ours and key not in affirmed and key not in ABOUT_PASSAGES:
                if any(map(_denies, claim.keys)) or any(map(is_negator, _lowered(claim, range(len(claim.keys))))):
                    return None
                return Disagreement("negation", claim.text_at(ours[key]), source.term_at(place, number).text)
    return None


def _lowered(claim: Terms, places: range) -> list[str]:
    return [claim.text_at(place).lower() for place in places]


def _is_qualified(claim: Terms, index: int) -> bool:
    """Whether the negation of the term at ``index`` states no fact: a condition, a manner, a hedge."""
    before = _lowered(claim, range(max(index - _CLAUSE, 0), index))
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


def _agrees(keys: Sequence[str], kinds: bytes, key: str, near: set[str]) -> bool:
    """Whether a sentence denies a word too: within three words of it, or one of the ``near`` words in its place."""
    places = [place for place, other in enumerate(keys) if other == key]
    for place, other in enumerate(keys):
        negated = kinds[place] & NEGATED
        if negated or (_denies(other) and other not in near):
            if not places and (other in near or not negated):
                return True
            if any(0 <= each - place <= _REACH for each in places):
                return True
            if other in near and any(0 < place - each <= _REACH for each in places):
                return True
    return False


def _denies(key: str) -> bool:
    """Whether a word denies something by itself: "fail", "unable", "impossible"."""
    return key in IMPLICIT_NEGATIONS or key.startswith(_DENYING_PREFIXES)


def _opposite_stems() -> dict[str, frozenset[str]]:
    opposites: dict[str, set[str]] = {}
    for left, right in OPPOSITES:
        opposites.setdefault(stem(left), set()).add(stem(right))
        opposites.setdefault(stem(right), set()).add(stem(left))
    return {key: frozenset(others) for key, others in opposites.items()}


_OPPOSITE_STEMS = _opposite_stems()
_KINDS_OF_UNITS = {
    stem(word): {kind for kind, words in UNITS.items() if word in words} for word in frozenset().union(*UNITS.values())
}
