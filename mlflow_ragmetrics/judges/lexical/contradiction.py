"""Finds contradictions between a claim and a similar sentence: a number, a name, a negation, an opposite word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, permutations
from typing import Final, Literal, NamedTuple

from mlflow_ragmetrics.judges.lexical.numbers import UNITS
from mlflow_ragmetrics.judges.lexical.source import Place
from mlflow_ragmetrics.judges.lexical.terms import (
    ABOUT_PASSAGES,
    CANCELLING,
    NAME,
    NEGATED,
    NEGATORS,
    NUMBER,
    Terms,
    is_negator,
    stem,
)
from mlflow_ragmetrics.text.word_lists import phrases_of
from mlflow_ragmetrics.text.words import word_set

_MATCHING: Final = 0.6
_FEWEST_SHARED: Final = 2
_REACH: Final = 3
_CLAUSE: Final = 8
_CONDITIONS = frozenset(("if", "when", "unless", "whether", "once", "если", "когда"))
_NEGATOR = re.compile(rf"\b(?:{'|'.join(sorted(NEGATORS))})\b|n['’]t\b", re.IGNORECASE)
_DENYING_PREFIXES = ("unab", "unkn", "uncl", "unlik", "unsaf", "impos", "incap", "illeg", "ineff", "inabil", "non-")
_IMPLICIT_NEGATIONS = word_set(
    """avoid prevent fail refus lack unabl stop prohibit forbid deni reject избега избежа предотвра запрет
    отказа отсутств"""
)


_OPPOSITE_STEMS: dict[str, set[str]] = {}
for _pair in phrases_of("opposites"):
    for _one, _other in permutations(map(stem, _pair), 2):
        _OPPOSITE_STEMS.setdefault(_one, set()).add(_other)

_KINDS_OF_UNITS: dict[str, set[str]] = {}
for _kind, _words in UNITS.items():
    for _word in map(stem, _words.split()):
        _KINDS_OF_UNITS.setdefault(_word, set()).add(_kind)

Kind = Literal["number", "name", "negation", "opposite"]
Measures = dict[str, dict[str, str]]


class Disagreement(NamedTuple):
    """A difference: its kind, the claim's word and the passage's word."""

    kind: Kind
    claim: str
    passage: str


def find_disagreement(terms: Terms, content: Sequence[int], sentence: Place) -> Disagreement | None:
    """Return the first disagreement between a claim's content terms and a sentence; ``None`` if they do not match.

    A number, name or opposite disagrees if it is in the same slot: next to the same word, or at the same end. The
    sentence must contain at least 60% of the claim's other words, and at least two.
    """
    ours = [terms.keys[place] for place in content]
    distinct = set(ours)
    shared = distinct.intersection(sentence.keys)
    if len(shared) < _FEWEST_SHARED or ours == sentence.keys:
        return None
    if (other_unit := _other_unit(terms, content, sentence)) is not None:
        return other_unit
    if len(shared) < len(distinct) and len(shared) >= _MATCHING * (len(distinct) - 1):
        kinds = [terms.kinds[place] for place in content]
        for kind, mine, other in _same_slots(ours, kinds, sentence, shared):
            return Disagreement(kind, terms.text_at(content[mine]), sentence.word(other))
    return None


def _same_slots(
    ours: Sequence[str], kinds: Sequence[int], sentence: Place, shared: set[str]
) -> Iterator[tuple[Kind, int, int]]:
    """Yield different terms of one kind in the same slot, if the claim's term is not in the sentence.

    A number or an opposite needs one common neighbour, a name needs both.
    """
    theirs, their_kinds = sentence.keys, sentence.kinds
    for mine, key in enumerate(ours):
        if key in shared or not (kinds[mine] & (NUMBER | NAME) or key in _OPPOSITE_STEMS):
            continue
        for other, other_key in enumerate(theirs):
            kind = _kind_of(key, other_key, kinds[mine] & their_kinds[other])
            if kind is None or (other_key in shared and kind != "name"):
                continue
            neighbours = _neighbours(ours, mine, shared), _neighbours(theirs, other, shared)
            common = sum(left == right for left, right in zip(*neighbours, strict=True))
            if common == len(neighbours) or (common and kind != "name"):
                yield kind, mine, other


def _kind_of(mine: str, other: str, both: int) -> Kind | None:
    """Return how two terms differ; ``both``: the kinds they have in common."""
    if both & NUMBER and _shape(mine) == _shape(other):
        return "number"
    if other in _OPPOSITE_STEMS.get(mine, ()):
        return "opposite"
    return "name" if both & NAME and mine[:4] != other[:4] else None


def _shape(key: str) -> str:
    """Classify numbers: months, clock times, years and others never replace each other."""
    if key.startswith("month:"):
        return "month"
    if ":" in key:
        return "time"
    return "year" if len(key) == 5 and key[1] in "12" and key[1:].isdecimal() else "number"


def _neighbours(keys: Sequence[str], place: int, shared: set[str]) -> tuple[str, str]:
    """Return the nearest shared keys before and after, at most three away; an empty key at either end of the text."""
    before, after = place - 1, place + 1
    while before >= 0 and keys[before] not in shared and place - before < _REACH:
        before -= 1
    while after < len(keys) and keys[after] not in shared and after - place < _REACH:
        after += 1
    return keys[before] if before >= 0 else "", keys[after] if after < len(keys) else ""


def _other_unit(terms: Terms, content: Sequence[int], sentence: Place) -> Disagreement | None:
    """Return a disagreement if one number has different units of the same kind in claim and sentence."""
    ours = _measures(terms, content)
    theirs = _measures(sentence.terms, sentence.content) if ours else {}
    for number, units in ours.items():
        others = theirs.get(number, {})
        if units.keys() & others.keys():
            continue
        for unit, written in units.items():
            for other, other_written in others.items():
                if _KINDS_OF_UNITS[unit] & _KINDS_OF_UNITS[other]:
                    return Disagreement("number", written, other_written)
    return None


def _measures(terms: Terms, content: Sequence[int]) -> Measures:
    """Return the units of each number, and how number and unit are written."""
    found: Measures = {}
    for number, unit in pairwise(content):
        if terms.kinds[number] & NUMBER and terms.keys[unit] in _KINDS_OF_UNITS:
            figure, name = terms.text_at(number), terms.text_at(unit)
            is_sign = terms.starts[unit] < terms.starts[number]
            written = f"{name}{figure}" if is_sign else f"{figure} {name}"
            found.setdefault(terms.keys[number], {})[terms.keys[unit]] = written
    return found


def find_denial(claim: Terms, content: Sequence[int], evidence: Sequence[Place]) -> Disagreement | None:
    """Return a word that the claim denies and the evidence affirms; the evidence must contain much of the claim.

    The evidence agrees if it denies the word, one of the claim's next words or a word shortly before it, contains the
    word's opposite, or denies anything without containing the word. Conditions ("if it does not"), manners ("without",
    "careful not to"), hedges ("may not") and remarks on the passages are not denials.
    """
    keys, kinds = claim.keys, claim.kinds
    for number, term in enumerate(content if evidence else ()):
        key = keys[term]
        if not kinds[term] & NEGATED or key in ABOUT_PASSAGES or key in CANCELLING or _is_qualified(claim, term):
            continue
        near = {keys[each] for each in content[max(number - 1, 0) : number + _REACH + 1]}
        opposites = _OPPOSITE_STEMS.get(key, set())
        if any(not opposites.isdisjoint(place.keys) or _agrees(place, key, near) for place in evidence):
            continue
        said = next((place.word(place.keys.index(key)) for place in evidence if key in place.keys), None)
        if said is None and any(_NEGATOR.search(place.text) for place in evidence):
            continue
        return Disagreement("negation", claim.text_at(term), said or claim.text_at(term))
    return None


def find_omission(claim: Terms, content: Sequence[int], evidence: Sequence[Place]) -> Disagreement | None:
    """Return a word that the evidence only denies, in a claim without denials; the reverse of ``find_denial``."""
    denied = [(place, number) for place in evidence for number, kind in enumerate(place.kinds) if kind & NEGATED]
    if not denied or any(map(_denies, claim.keys)) or any(map(is_negator, _lowered(claim, range(len(claim.keys))))):
        return None
    affirmed = {
        key for place in evidence for key, kind in zip(place.keys, place.kinds, strict=True) if not kind & NEGATED
    }
    ours = {claim.keys[place]: place for place in content if not claim.kinds[place] & NUMBER}
    for place, number in denied:
        key = place.keys[number]
        if key in ours and key not in affirmed and key not in ABOUT_PASSAGES:
            return Disagreement("negation", claim.text_at(ours[key]), place.word(number))
    return None


def _lowered(claim: Terms, places: range) -> list[str]:
    return [claim.text_at(place).lower() for place in places]


def _is_qualified(claim: Terms, index: int) -> bool:
    """Whether the negation of the term at ``index`` is a condition, a manner or a hedge, not a fact."""
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


def _agrees(sentence: Place, key: str, near: set[str]) -> bool:
    """Whether a sentence denies the word too, within three words, or denies one of the ``near`` words instead."""
    places = [place for place, other in enumerate(sentence.keys) if other == key]
    for place, (other, kind) in enumerate(zip(sentence.keys, sentence.kinds, strict=True)):
        negated = kind & NEGATED
        if negated or (_denies(other) and other not in near):
            if not places and (other in near or not negated):
                return True
            if any(0 <= each - place <= _REACH for each in places):
                return True
            if other in near and any(0 < place - each <= _REACH for each in places):
                return True
    return False


def _denies(key: str) -> bool:
    """Whether a word is a denial by itself: "fail", "unable", "impossible"."""
    return key in _IMPLICIT_NEGATIONS or key.startswith(_DENYING_PREFIXES)
