"""How well passages cover a claim, and the verdict that follows."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterator, Sequence
from itertools import accumulate, compress, pairwise, repeat
from operator import not_
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlflow_ragmetrics.judges.lexical.analysis import (
    MOST_PLACES,
    Analysis,
    Cells,
    Column,
    Recent,
    Source,
    Sources,
    ranges,
    split_claims,
)
from mlflow_ragmetrics.judges.lexical.contradiction import (
    ComparedTerms,
    Disagreement,
    find_denial,
    find_disagreement,
    find_omission,
)
from mlflow_ragmetrics.judges.lexical.terms import NAME, NEGATED, NUMBER, Terms, holds
from mlflow_ragmetrics.judges.lexical.words import ABOUT_PASSAGES, NUMBERED
from mlflow_ragmetrics.text.terms import has_content

__all__ = [
    "THRESHOLD",
    "Compared",
    "Coverage",
    "cover",
    "Judgement",
    "claims_in",
    "claims_of",
    "judge_claims",
    "nearest_places",
    "terms_of_claim",
]

THRESHOLD: Final = 0.65

_ANYWHERE: Final = 0.30
_SENTENCE: Final = 0.15
_WINDOW: Final = 0.25
_TOGETHER: Final = 0.30
_MISSING_NUMBERS: Final = 0.10
_MISSING_NAMES: Final = 0.10
_RELATED: Final = 0.6
_LONGEST_CLAIM: Final = 200
_LONGEST_COMPARED: Final = 100
_CLAIMS_KEPT: Final = 400_000
_WIDTH: Final = 3
_BESIDE: Final = 2
_NEAREST: Final = 2
_NEIGHBOURS: Final = 0.5
_FULL: Final = 0.8
_COMPARED: Final = 3
_MIDDLE: Final = 0.45
_STEEPNESS: Final = 12.0
_NEARLY: Final = 0.8
_NEAR: Final = 4
_NEAR_BY: Final = 0.5
_MISSING: Final = -1


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


def terms_of_claim(claim: str, own: Terms | None = None) -> Terms:
    """The terms of a claim, without a remark on its source in front and without numbers that only count passages.

    "Passage 1 states that bread is cheap", "According to the text, bread is cheap (passages 1 and 3)" and "Step 6:
    bread is cheap" all say that bread is cheap. ``own``: all terms of the claim, where they are known.
    """
    lead = _LEAD.match(claim)
    if lead and has_content(rest := claim[lead.end() :]):
        own = Analysis(rest).terms
    terms = own or Analysis(claim).terms
    if not terms.has(NUMBER) or NUMBERED.isdisjoint(terms.keys):
        return terms
    kept: list[int] = []
    label_end = -_LABEL_REACH - 1
    for place, key in enumerate(terms.keys):
        if terms.kinds[place] & NUMBER and terms.starts[place] - label_end <= _LABEL_REACH:
            if kept and terms.keys[kept[-1]] in NUMBERED:
                kept.pop()
            label_end = terms.ends[place]
            continue
        if key in NUMBERED:
            label_end = terms.ends[place]
        kept.append(place)
    return terms if len(kept) == len(terms.keys) else terms.only(kept)


claims_of: Recent[tuple[str, ...], list[Terms]] = Recent(
    lambda claims: list(map(terms_of_claim, claims)), lambda claims: sum(map(len, claims)), _CLAIMS_KEPT
)


def claims_in(text: str) -> tuple[str, ...]:
    """The claims of ``text``, which are not read a second time when they are judged."""
    texts, terms = [], []
    for claim, own in split_claims(text):
        texts.append(claim)
        terms.append(terms_of_claim(claim, own))
    claims = tuple(texts)
    claims_of.keep(claims, terms)
    return claims


class Compared(NamedTuple):
    """Claims, the passages that they are compared with, and how many places of each of their words are looked at."""

    claims: Sequence[Terms]
    source: Source
    most: int = MOST_PLACES


class Shares(NamedTuple):
    """What sentences have of claims, a row each: the sentence, how many words of the claim it holds, and their weight.

    ``windows``: how many the sentence and the two behind it in its passage hold; 0 where they lack a number of the
    claim that the passages have. A word weighs by how few sentences hold it (inverse document frequency).
    """

    places: list[int]
    counts: list[int]
    windows: list[int]
    weights: list[float]


class Coverage(NamedTuple):
    """What the passages have of a claim.

    ``support``: 0 to 1. ``content``: the claim's content terms, by their places in it; ``found`` and ``missing``: each
    of them once. ``places``: the sentences of the best window that share a term, the best first. ``stray_number``: the
    claim's first number that is nowhere in the passages near two other words of the claim. ``own``: the rows of
    ``shares`` that are this claim's, ``full`` those of sentences that hold nearly as much of it as the fullest.
    """

    claim: Terms
    source: Source
    support: float
    content: list[int]
    found: list[int]
    missing: list[int]
    places: list[int]
    stray_number: int | None
    shares: Shares
    own: range
    full: list[int]


def _informative(claim: Terms, source: Source) -> list[int]:
    """Content terms, without words about the passages themselves ("according to the text") that are not in them."""
    keys, content, ids = claim.keys, claim.content()[:_LONGEST_CLAIM], source.ids
    if ABOUT_PASSAGES.isdisjoint(keys):
        return content
    return [each for each in content if keys[each] not in ABOUT_PASSAGES or keys[each] in ids] or content


class _Words:
    """The content words of claims in columns, each word once a claim, in order.

    ``places`` and ``content`` are of all words with repeats: where each stands in its claim, and its number in the
    passages. ``keys``, ``claims``, ``is_number``, ``bits`` and ``weights`` are of the words that the passages have:
    their numbers there, which claim each is of and the how many-th of its found words, and how few sentences hold it.
    ``lengths``, ``totals``, ``found``, ``credit`` and the two shares are of claims.
    """

    def __init__(self, asked: Sequence[Compared], sources: Sources) -> None:
        self.places: list[int] = []
        self.unique: list[int] = []
        content: list[int] = []
        distinct: list[int] = []
        kinds: list[int] = []
        lengths: list[int] = []
        totals: list[int] = []
        related: list[int] = []
        for claims, source, _ in asked:
            ids = source.ids
            for claim in claims:
                places = _informative(claim, source)
                ordered = list(map(claim.keys.__getitem__, places))
                unique = dict(zip(ordered, places, strict=True))
                numbers = list(map(ids.get, unique, repeat(_MISSING)))
                self.places.extend(places)
                self.unique.extend(unique.values())
                lengths.append(len(places))
                totals.append(len(unique))
                has_repeats = len(unique) < len(places)
                content.extend(map(ids.get, ordered, repeat(_MISSING)) if has_repeats else numbers)
                distinct.extend(numbers)
                kinds.extend(map(claim.kinds.__getitem__, unique.values()))
                absent = compress(unique, map(_MISSING.__eq__, numbers)) if _MISSING in numbers else ()
                related.append(sum([bool(source.related(key)) for key in absent]))
        n = len(totals)
        sizes = [len(each.claims) for each in asked]
        of, self.most = np.repeat(sources.of, sizes), np.repeat([each.most for each in asked], sizes)
        self.lengths, self.totals = np.array(lengths), np.array(totals)
        self.first_key, self.first_place = sources.first_key[of], sources.first_place[of]
        self.content = np.array(content, np.int64)
        ids_of, kinds_of = np.array(distinct, np.int64), np.array(kinds, np.int64)
        owners = np.repeat(np.arange(n), self.totals)
        is_found = ids_of != _MISSING
        found = np.flatnonzero(is_found)
        self.claims = owners[found]
        self.ids = ids_of[found]
        self.keys = self.ids + self.first_key[self.claims]
        self.is_number = kinds_of[found] & NUMBER != 0
        self.found = np.bincount(self.claims, minlength=n)
        self.bits = np.arange(len(found)) - (np.cumsum(self.found) - self.found)[self.claims]
        self.credit = self.found + np.array([*accumulate(repeat(_RELATED, max(related)), initial=0.0)])[related]
        ratios = 1 + sources.sizes[of][self.claims] / sources.counts[self.keys]
        self.weights = np.array(list(map(math.log, ratios.tolist())))
        is_number, is_name = kinds_of & NUMBER != 0, kinds_of & NAME != 0
        self.is_found = is_found.tolist()
        self.missing_numbers = _shares(owners, is_number, is_number & ~is_found, n)
        self.missing_names = _shares(owners, is_name, is_name & ~is_found, n)


def _shares(owners: Column, among: NDArray[np.bool_], are: NDArray[np.bool_], n: int) -> Figures:
    """For each of ``n`` owners, which share of those that are ``among`` are it; 0 of none."""
    shares: Figures = np.bincount(owners[are], minlength=n) / np.maximum(1, np.bincount(owners[among], minlength=n))
    return shares


def _together(words: _Words, sources: Sources) -> Figures:
    """How far neighbouring content words are neighbours in a passage too, 0 to 1; of one word, whether it is there.

    A pair counts 1 where the one follows the other at once, 0.5 where they stand at most four apart.
    """
    n = len(words.lengths)
    owners = np.repeat(np.arange(n), words.lengths)
    first, second = words.content[:-1], words.content[1:]
    pairs = np.flatnonzero((first != _MISSING) & (second != _MISSING) & (owners[:-1] == owners[1:]))
    owners = owners[pairs]
    left, right = first[pairs] + words.first_key[owners], second[pairs] + words.first_key[owners]
    counts = np.minimum(sources.position_counts[left], words.most[owners])
    pair, at = ranges(sources.position_starts[left], counts)
    positions = sources.positions[at]
    follows = np.bincount(pair[sources.spread[positions + 1] == right[pair]], minlength=len(pairs)) > 0
    rest = np.flatnonzero(~follows[pair])
    pair, positions = pair[rest], positions[rest]
    is_near = np.zeros(len(rest), np.bool_)
    for distance in (*range(-_NEAR, 0), *range(2, _NEAR + 1)):
        is_near |= sources.spread[positions + distance] == right[pair]
    near = np.bincount(pair[is_near], minlength=len(pairs)) > 0
    sums = np.bincount(owners, np.where(follows, 1.0, _NEAR_BY * near), minlength=n)
    alone: Figures = words.found / np.maximum(1, words.totals)
    return np.where(words.lengths < 2, alone, sums / np.maximum(1, words.lengths - 1))


Figures = NDArray[np.float64]

_BITS: Final = 64
_BITS_OF: Final = np.array([number.bit_count() for number in range(1 << 16)], np.uint8)


class _Masks:
    """Which found words of its claim each cell holds, as bits, alone and with the sentences beside it.

    ``windows``: how many it and the two sentences behind it hold; ``hold_numbers``: whether all of the claim's numbers
    that the passages have are among them. ``stray``: the words found that are numbers and stand in no sentence that
    has, with those before and behind it, two other words of the claim.
    """

    def __init__(self, words: _Words, cells: Cells, sources: Sources) -> None:
        wide = int(words.bits.max(initial=0)) // _BITS + 1
        bits = np.zeros((len(words.bits), wide), np.uint64)
        bits[np.arange(len(bits)), words.bits // _BITS] = np.uint64(1) << (words.bits % _BITS).astype(np.uint64)
        masks = np.add.reduceat(bits[cells.shared], cells.begins) if len(cells.begins) else bits[:0]
        windows, beside = masks.copy(), masks.copy()
        passages = sources.passages[cells.place]
        for step in range(1, _WIDTH):
            gaps = cells.place[step:] - cells.place[:-step]
            alike = (cells.text[step:] == cells.text[:-step]) & (passages[step:] == passages[:-step])
            behind = np.flatnonzero(alike & (gaps < _WIDTH))
            windows[behind] |= masks[behind + step]
            if step == 1:
                behind = np.flatnonzero(alike & (gaps == 1))
                beside[behind] |= masks[behind + 1]
                beside[behind + 1] |= masks[behind]
        self.windows = _count_bits(windows)
        numbers = np.zeros((len(words.found), wide), np.uint64)
        np.bitwise_or.at(numbers, words.claims[words.is_number], bits[words.is_number])
        self.hold_numbers = ~(numbers[cells.text] & ~windows).any(axis=1)
        needed = 1 + np.minimum(_BESIDE, words.found - 1)
        fits = cells.shared[(_count_bits(beside) >= needed[cells.text])[cells.of]]
        self.stray = words.is_number & (np.bincount(fits, minlength=len(bits)) == 0)


def _count_bits(masks: NDArray[np.uint64]) -> Column:
    counts: Column = _BITS_OF[masks.view(np.uint16)].sum(axis=1, dtype=np.int64)
    return counts


def cover(asked: Sequence[Compared]) -> Iterator[Coverage]:
    """Compare claims with their passages, all at once; a claim without content words is covered by nothing: support 0.

    What is compared beside a claim does not change what comes of it.
    """
    asked = [each for each in asked if each.claims]
    if not asked:
        return
    sources = Sources([each.source for each in asked])
    words = _Words(asked, sources)
    cells = Cells(sources, words.keys, words.claims, words.most)
    masks = _Masks(words, cells, sources)
    total = np.maximum(1, words.totals)
    fullest = cells.largest(cells.counts)
    shares = (
        _ANYWHERE * words.credit / total
        + _SENTENCE * fullest / total
        + _WINDOW * cells.largest(masks.windows) / total
        + _TOGETHER * _together(words, sources)
        - _MISSING_NUMBERS * words.missing_numbers
        - _MISSING_NAMES * words.missing_names
    ).tolist()
    table = Shares(
        (cells.place - words.first_place[cells.text]).tolist(),
        cells.counts.tolist(),
        np.where(masks.hold_numbers, masks.windows, 0).tolist(),
        np.bincount(cells.of, words.weights[cells.shared], len(cells.text)).tolist(),
    )
    best = cells.first_of_largest(masks.windows).tolist()
    is_full = cells.counts >= _FULL * fullest[cells.text]
    full = np.flatnonzero(is_full).tolist()
    full_borders = np.append(0, np.cumsum(is_full))[cells.borders].tolist()
    stray: dict[int, set[int]] = {}
    lone = np.flatnonzero(masks.stray)
    for number, key in zip(words.claims[lone].tolist(), words.ids[lone].tolist(), strict=True):
        stray.setdefault(number, set()).add(key)
    found, lengths, totals = words.found.tolist(), words.lengths.tolist(), words.totals.tolist()
    first = last = first_unique = last_unique = 0
    for number, (claim, source) in enumerate((claim, each.source) for each in asked for claim in each.claims):
        own = range(cells.borders[number], cells.borders[number + 1])
        first, last = last, last + lengths[number]
        first_unique, last_unique = last_unique, last_unique + totals[number]
        content, unique = words.places[first:last], words.unique[first_unique:last_unique]
        is_found = words.is_found[first_unique:last_unique] if found[number] < len(unique) else None
        yield Coverage(
            claim,
            source,
            1 / (1 + math.exp(-_STEEPNESS * (shares[number] - _MIDDLE))) if unique else 0.0,
            content,
            unique if is_found is None else list(compress(unique, is_found)),
            [] if is_found is None else list(compress(unique, map(not_, is_found))),
            _around(best[number], own, table) if own else [],
            _stray_number(claim, content, source, stray.get(number, ())),
            table,
            own,
            full[full_borders[number] : full_borders[number + 1]],
        )


def _stray_number(claim: Terms, content: list[int], source: Source, stray: Container[int]) -> int | None:
    """Where the first number stands that the passages lack or have elsewhere only."""
    if not claim.has(NUMBER):
        return None
    keys, kinds = claim.keys, claim.kinds
    for place in content:
        if kinds[place] & NUMBER:
            known = source.ids.get(keys[place])
            if known is None or known in stray:
                return place
    return None


def _around(best: int, own: range, shares: Shares) -> list[int]:
    """The sentences of the window that begins at row ``best``, the fullest first."""
    last = shares.places[best] + _WIDTH
    rows = [row for row in range(best, min(best + _WIDTH, own.stop)) if shares.places[row] < last]
    rows.sort(key=lambda row: -shares.counts[row])
    return [shares.places[row] for row in rows]


def nearest_places(coverage: Coverage, wanted: int = _NEAREST) -> list[int]:
    """The sentences of the source that hold most of a claim, nearest first, ``wanted`` of them at most.

    Words count by their weights, and each pair of neighbours that are neighbours there too counts half a word more.
    Sentences with less than 0.8 times as many of the words as the fullest are not looked at.
    """
    places, weights, source = coverage.shares.places, coverage.shares.weights, coverage.source
    rows: Sequence[int] = coverage.full if len(coverage.full) >= wanted else coverage.own
    if len(rows) < 2:
        return [places[row] for row in rows]
    heaviest = sorted(rows, key=weights.__getitem__, reverse=True)[: _COMPARED * wanted]
    ranked = [(-weights[row], row) for row in heaviest]
    reach = _NEIGHBOURS * (len(coverage.content) - 1) + ranked[min(wanted, len(ranked)) - 1][0]
    if wanted == 1 and (len(ranked) == 1 or ranked[1][0] > reach):
        return [places[ranked[0][1]]]
    keys = coverage.claim.keys
    pairs = set(pairwise([keys[place] for place in coverage.content]))
    for place, (score, row) in enumerate(ranked):
        if score > reach:
            break
        neighbours = len(pairs.intersection(pairwise(source.keys_of(places[row]))))
        ranked[place] = (score - _NEIGHBOURS * neighbours, row)
    return [places[row] for _, row in sorted(ranked)[:wanted]]


_CONTRADICTED: Final = 0.5
_DOUBTED: Final = 0.5


class Judgement(NamedTuple):
    """What wording says of a claim; ``support`` is lower than the coverage where the passages disagree.

    ``quoted``: the sentences that support the claim, of every passage that does, or the one that contradicts it.
    ``doubt``: the word that lowers the support of a claim which no sentence contradicts, and why.
    """

    verdict: Literal["SUPPORTED", "CONTRADICTED", "NEUTRAL"]
    support: float
    coverage: Coverage
    disagreement: Disagreement | None = None
    quoted: Sequence[int] = ()
    doubt: tuple[Literal["number", "negation"], str] | None = None


def judge_claims(asked: Sequence[Compared], threshold: float) -> Iterator[Judgement]:
    """SUPPORTED from ``threshold`` on, CONTRADICTED where the best matching sentence says otherwise, else NEUTRAL."""
    return (_judged(coverage, threshold) for coverage in cover(asked))


def _judged(coverage: Coverage, threshold: float) -> Judgement:
    claim, source, places = coverage.claim, coverage.source, coverage.places
    compared = ComparedTerms(claim, claim.content()[:_LONGEST_COMPARED])
    disagreement = find_disagreement(compared, source, places[0]) if places else None
    denial = None
    if disagreement is None and places:
        denial = find_denial(claim, source, places) if claim.has(NEGATED) else None
        if denial is None and any(holds(source.kinds_of(place), NEGATED) for place in places):
            denial = find_omission(claim, source, places)
    if denial is not None and len(coverage.found) >= len(coverage.missing):
        disagreement = denial
    if disagreement is not None:
        support = _CONTRADICTED * coverage.support
        return Judgement("CONTRADICTED", support, coverage, disagreement, places[:1])
    support = coverage.support
    doubt: tuple[Literal["number", "negation"], str] | None = None
    if denial is not None:
        support, doubt = _DOUBTED * support, ("negation", denial.claim)
    if coverage.stray_number is not None:
        support, doubt = _DOUBTED * support, ("number", claim.text_at(coverage.stray_number))
    if support < threshold:
        return Judgement("NEUTRAL", support, coverage, doubt=doubt)
    home = [place for place in places[1:] if source.numbers[place] == source.numbers[places[0]]]
    others = [*home, *_elsewhere(coverage)]
    agreeing = [place for place in others if find_disagreement(compared, source, place) is None]
    return Judgement("SUPPORTED", support, coverage, quoted=[*places[:1], *agreeing])


def _elsewhere(coverage: Coverage) -> list[int]:
    """The best sentence of each other passage that holds nearly as much of the claim, and all of its numbers."""
    own, passages, (places, counts, windows, _) = coverage.own, coverage.source.numbers, coverage.shares
    enough = _NEARLY * max(windows[own.start : own.stop], default=0)
    best: dict[int, tuple[int, int]] = {}
    for row in own:
        if windows[row] >= enough and windows[row]:
            passage = passages[places[row]]
            best[passage] = max(best.get(passage, (0, 0)), (windows[row], -row))
    best.pop(passages[coverage.places[0]], None)
    found = []
    for passage, (_, first) in sorted(best.items()):
        last = places[-first] + _WIDTH
        rows = [
            row
            for row in range(-first, min(_WIDTH - first, own.stop))
            if places[row] < last and passages[places[row]] == passage
        ]
        found.append(places[max(rows, key=counts.__getitem__)])
    return found
