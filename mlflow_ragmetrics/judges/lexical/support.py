"""How well passages cover a claim, and the verdict that follows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from mlflow_ragmetrics.core.text import has_content
from mlflow_ragmetrics.judges.lexical.analysis import MOST_PLACES, Source, analysed
from mlflow_ragmetrics.judges.lexical.contradiction import Disagreement, find_denial, find_disagreement, find_omission
from mlflow_ragmetrics.judges.lexical.terms import Term
from mlflow_ragmetrics.judges.lexical.words import ABOUT_PASSAGES, NUMBERED

__all__ = ["THRESHOLD", "Coverage", "cover", "Judgement", "claim_terms", "judge_claim", "nearest_places"]

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
_BESIDE: Final = 2
_NEAREST: Final = 2
_NEIGHBOURS: Final = 0.5
_FULL: Final = 0.8
_COMPARED: Final = 3
_MIDDLE: Final = 0.45
_STEEPNESS: Final = 12.0
_NEARLY: Final = 0.8


class Coverage(NamedTuple):
    """What the passages have of a claim.

    ``support``: 0 to 1. ``found`` and ``missing``: the claim's content terms. ``places``: the sentences of the best
    window that share a term, the best first; ``sentence``: the share of the claim in the first of them.
    ``stray_numbers``: the claim's numbers that are nowhere in the passages near two other words of the claim.
    ``content``: the claim's content terms in order. ``masks``: for each sentence which of ``found`` it has, as bits;
    ``windows``: the same of it and the two sentences behind it in its passage. ``most``: how many places of each term
    were looked at.
    """

    support: float
    found: tuple[Term, ...]
    missing: tuple[Term, ...]
    places: tuple[int, ...]
    sentence: float
    stray_numbers: tuple[Term, ...] = ()
    content: Sequence[Term] = ()
    masks: Mapping[int, int] = MappingProxyType({})
    windows: Mapping[int, int] = MappingProxyType({})
    most: int = MOST_PLACES


def cover(claim: Sequence[Term], source: Source, most: int = MOST_PLACES) -> Coverage:
    """Compare a claim's terms with the passages. A claim without content words is covered by nothing: support 0.

    Of each term, the first ``most`` places are looked at.
    """
    content = _informative(claim, source)
    unique = list({term.key: term for term in content}.values())
    if not unique:
        return Coverage(0.0, (), (), (), 0.0)
    found = tuple([term for term in unique if term.key in source])
    missing = tuple([term for term in unique if term.key not in source])
    credit = len(found) + sum(_RELATED for term in missing if source.related(term.key))
    masks = _masks_by_place([term.key for term in found], source, most)
    windows = _windows(masks, source)
    sentence, window, places = _best_places(masks, windows)
    total = len(unique)
    share = (
        _ANYWHERE * credit / total
        + _SENTENCE * sentence / total
        + _WINDOW * window / total
        + _TOGETHER * _together(content, source, len(found) / total, most)
        - _MISSING_NUMBERS * _share_missing([term.key for term in unique if term.number], source)
        - _MISSING_NAMES * _share_missing([term.key for term in unique if term.name], source)
    )
    support = 1 / (1 + math.exp(-_STEEPNESS * (share - _MIDDLE)))
    stray_numbers = tuple(_stray_numbers(content, found, masks, source, most))
    return Coverage(support, found, missing, places, sentence / total, stray_numbers, content, masks, windows, most)


def _stray_numbers(
    content: list[Term], found: tuple[Term, ...], masks: dict[int, int], source: Source, most: int
) -> Iterator[Term]:
    """The claim's numbers that no sentence and its neighbours hold together with two other words of the claim."""
    needed = 1 + min(_BESIDE, len(found) - 1)
    for term in content:
        if not term.number:
            continue
        for place in source.postings(term.key)[:most]:
            passage = source.places[place].passage
            near = (each for each in (place - 1, place, place + 1) if each in masks)
            union = 0
            for each in near:
                if source.places[each].passage == passage:
                    union |= masks[each]
            if union.bit_count() >= needed:
                break
        else:
            yield term


def _masks_by_place(keys: list[str], source: Source, most: int) -> dict[int, int]:
    """For each sentence that holds any of ``keys``, which of them it holds, as bits."""
    masks: dict[int, int] = {}
    bit = 1
    for key in keys:
        for place in source.postings(key)[:most]:
            masks[place] = masks.get(place, 0) | bit
        bit <<= 1
    return masks


def _windows(masks: dict[int, int], source: Source) -> dict[int, int]:
    """For each of these sentences what it and those next to it hold, within its passage."""
    windows = dict(masks)
    places = source.places
    for behind in range(1, _WIDTH):
        for place, mask in masks.items():
            before = place - behind
            if before in masks and places[before].passage == places[place].passage:
                windows[before] |= mask
    return windows


def _best_places(masks: dict[int, int], windows: dict[int, int]) -> tuple[int, int, tuple[int, ...]]:
    """How many terms the best sentence and the best window of sentences hold, and which sentences they are."""
    if not masks:
        return 0, 0, ()
    sentence = max(map(int.bit_count, masks.values()))
    held = list(map(int.bit_count, windows.values()))
    window = max(held)
    first = list(windows)[held.index(window)]
    places = [place for place in range(first, first + _WIDTH) if place in masks]
    return sentence, window, tuple(sorted(places, key=lambda place: -masks[place].bit_count()))


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
    weights = [math.log(1 + total / len(source.postings(term.key))) for term in coverage.found]
    score_of = {mask: _sum_of(weights, mask) for mask in set(full.values())}
    scores = {place: score_of[mask] for place, mask in full.items()}
    least = sorted(scores.values(), reverse=True)[: _COMPARED * wanted][-1]
    best = [place for place, score in scores.items() if score >= least]
    ranked = sorted(best, key=lambda place: (-scores[place], place))[: _COMPARED * wanted]
    pairs = set(pairwise([term.key for term in coverage.content]))
    reach = scores[ranked[min(wanted, len(ranked)) - 1]] - _NEIGHBOURS * len(pairs)
    for place in ranked:
        if scores[place] < reach:
            break
        scores[place] += _NEIGHBOURS * len(pairs.intersection(pairwise(source.places[place].keys)))
    return tuple(sorted(ranked, key=lambda place: (-scores[place], place))[:wanted])


def _sum_of(weights: Sequence[float], mask: int) -> float:
    """The sum of the weights at the bits of ``mask``, from the lowest on."""
    total = 0.0
    while mask:
        lowest = mask & -mask
        total += weights[lowest.bit_length() - 1]
        mask ^= lowest
    return total


def _informative(claim: Sequence[Term], source: Source) -> list[Term]:
    """Content terms, without words about the passages themselves ("according to the text") that are not in them."""
    content = [term for term in claim if term.content][:_LONGEST_CLAIM]
    informative = [term for term in content if term.key not in ABOUT_PASSAGES or term.key in source]
    return informative or content


_LABEL_REACH: Final = 5  # from "passage" to its number, and from one number to the next in "passages 1, 2 and 3"
_LEAD = re.compile(
    r"\W*(?:(?:and|but|also|however|additionally|furthermore|moreover|finally|in addition|overall)\b,?\s+)?(?:"
    r"(?:(?:according to|based on|as \w+ (?:in|by)|per|from|in)\s+)?(?:both\s+|all\s+)?(?:the\s+|this\s+|these\s+)?"
    r"(?:given\s+|provided\s+|first\s+|second\s+|third\s+|last\s+)?"
    r"(?:passage|text|context|document|source|article|excerpt|information)s?(?:\s+provided|\s+given)?"
    r"(?:\s+\d{1,2}(?:(?:\s*,\s*|\s+and\s+|\s*,\s+and\s+)\d{1,2})*)?"
    r"(?:,|\s+(?:also\s+|further\s+)?(?:state|say|mention|note|explain|suggest|indicate|add|report|confirm)s?"
    r"(?:\s+that\b)?)"
    r"|step\s+\d{1,2}\s*[:.)-]"
    r"|(?:согласно|в|во|как указано в)\s+(?:отрывк|текст|контекст|документ|источник)\w*(?:\s+\d{1,2})?"
    r"(?:,|\s+(?:сказано|указано|говорится|сообщается|утверждается)[\s,]+что\b)"
    r"|шаг\s+\d{1,2}\s*[:.)-])\s*",
    re.IGNORECASE,
)


def claim_terms(claim: str) -> list[Term]:
    """The terms of a claim, without a remark on its source in front and without numbers that only count passages.

    "Passage 1 states that bread is cheap", "According to the text, bread is cheap (passages 1 and 3)" and "Step 6:
    bread is cheap" all say that bread is cheap.
    """
    lead = _LEAD.match(claim)
    rest = claim[lead.end() :] if lead else ""
    terms = analysed(rest if has_content(rest) else claim).terms.at()
    kept: list[Term] = []
    label_end = -_LABEL_REACH - 1
    for term in terms:
        if term.number and term.start - label_end <= _LABEL_REACH:
            if kept and kept[-1].key in NUMBERED:
                kept.pop()
            label_end = term.end
            continue
        if term.key in NUMBERED:
            label_end = term.end
        kept.append(term)
    return kept


def _together(content: list[Term], source: Source, otherwise: float, most: int) -> float:
    """How far neighbouring content words are neighbours in a passage too, 0 to 1; ``otherwise`` without a pair."""
    if len(content) < 2:
        return otherwise
    pairs = pairwise(content)
    return sum(source.nearness(left.key, right.key, most) for left, right in pairs) / (len(content) - 1)


def _share_missing(keys: list[str], source: Source) -> float:
    return sum(key not in source for key in keys) / len(keys) if keys else 0.0


_CONTRADICTED: Final = 0.5
_DOUBTED: Final = 0.5
_LONGEST_COMPARED: Final = 100


class Judgement(NamedTuple):
    """What wording says of a claim; ``support`` is lower than the coverage where the passages disagree.

    ``quoted``: the sentences that support the claim, of every passage that does, or the one that contradicts it.
    ``doubt``: the word that lowers the support of a claim which no sentence contradicts, and why.
    """

    verdict: Literal["SUPPORTED", "CONTRADICTED", "NEUTRAL"]
    support: float
    coverage: Coverage
    disagreement: Disagreement | None = None
    quoted: tuple[int, ...] = ()
    doubt: tuple[Literal["number", "negation"], str] | None = None


def judge_claim(claim: str, source: Source, threshold: float, most: int = MOST_PLACES) -> Judgement:
    """SUPPORTED from ``threshold`` on, CONTRADICTED where the best matching sentence says otherwise, else NEUTRAL.

    Of each word, the first ``most`` places are looked at.
    """
    terms = claim_terms(claim)
    coverage = cover(terms, source, most)
    content = [term for term in terms if term.content][:_LONGEST_COMPARED]
    evidence = [source.places[place] for place in coverage.places]
    disagreement = find_disagreement(content, evidence[0]) if evidence else None
    denial = find_denial(terms, evidence) if evidence and disagreement is None else None
    if denial is None and disagreement is None and evidence:
        denial = find_omission(terms, evidence)
    if denial is not None and len(coverage.found) >= len(coverage.missing):
        disagreement = denial
    if disagreement is not None:
        support = _CONTRADICTED * coverage.support
        return Judgement("CONTRADICTED", support, coverage, disagreement, coverage.places[:1])
    support = coverage.support
    doubt: tuple[Literal["number", "negation"], str] | None = None
    if denial is not None:
        support, doubt = _DOUBTED * support, ("negation", denial.claim)
    if coverage.stray_numbers:
        support, doubt = _DOUBTED * support, ("number", coverage.stray_numbers[0].text)
    if support < threshold:
        return Judgement("NEUTRAL", support, coverage, doubt=doubt)
    home = [place for place in coverage.places[1:] if source.places[place].passage == evidence[0].passage]
    others = [*home, *_elsewhere(coverage, source)]
    agreeing = [place for place in others if find_disagreement(content, source.places[place]) is None]
    return Judgement("SUPPORTED", support, coverage, quoted=(*coverage.places[:1], *agreeing))


def _elsewhere(coverage: Coverage, source: Source) -> list[int]:
    """The best sentence of each other passage that holds nearly as much of the claim, and all of its numbers."""
    masks, places = coverage.masks, source.places
    numbers = sum(1 << bit for bit, term in enumerate(coverage.found) if term.number)
    counts = {place: held.bit_count() for place, held in coverage.windows.items() if held & numbers == numbers}
    enough = _NEARLY * max(counts.values(), default=0)
    windows: dict[int, tuple[int, int]] = {}
    for place, count in counts.items():
        if count >= enough:
            passage = places[place].passage
            windows[passage] = max(windows.get(passage, (0, 0)), (count, -place))
    home = places[coverage.places[0]].passage
    found = [(passage, -start) for passage, (_, start) in sorted(windows.items())]
    return [
        max(
            (each for each in range(start, start + _WIDTH) if each in masks and places[each].passage == passage),
            key=lambda place: masks[place].bit_count(),
        )
        for passage, start in found
        if passage != home
    ]
