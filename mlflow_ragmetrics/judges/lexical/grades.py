"""Grades by wording: correctness, relevance, tone, related passages and sufficiency of passages."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Container, Mapping
from typing import Final, Literal, NamedTuple

from mlflow_ragmetrics.judges.lexical.keys import NAME, NUMBER, NUMBERS
from mlflow_ragmetrics.judges.lexical.support import CLAUSE_END, Place, Source, analysed, split_claims
from mlflow_ragmetrics.text.words import pattern_of

_PREFIX: Final = 5
_ASIDE: Final = re.compile(r"\([^()]*\)")


class Overlap(NamedTuple):
    """The share of one text found in another, 0 to 1, with the words found and missing."""

    value: float
    found: list[str]
    missing: list[str]


def _overlap(value: float, wanted: Mapping[str, str], available: Container[str]) -> Overlap:
    """Return ``value`` with the words of ``wanted`` (texts by key) that are available, and the others."""
    present = [text for key, text in wanted.items() if key in available]
    return Overlap(value, present, [text for key, text in wanted.items() if key not in available])


def _words_of(text: str, *, every: bool = False) -> list[tuple[str, str]]:
    """Return keys and texts of content words; of all words for ``every``, or if none has content ("no", "it")."""
    analysis = analysed(text)
    terms, content = analysis.terms, [] if every else analysis.content()
    chosen = content or [place for *_, places in analysis.sentences for place in places]
    return [(terms.keys[place], terms.text_at(place)) for place in chosen]


def compare(answer: str, reference: str, question: str = "") -> Overlap:
    """Return the share of a short reference found in the answer, or the F1 of content words for a long one, 0 to 1.

    Short means at most 12 content words. Words of the question count a quarter, and words with the same beginning 0.8.
    If the answer gives a different number, the total is multiplied by 0.6. Text in brackets is optional.
    """
    gold = _words_of(reference)
    counts = Counter([key for key, _ in _words_of(answer, every=not analysed(reference).content())])
    if not gold or not counts:
        return _overlap(0.0, dict(gold), ())
    if len(gold) > 12:
        shared = (Counter([key for key, _ in gold]) & counts).total()
        return _overlap(2 * shared / (len(gold) + counts.total()), dict(gold), counts)
    question_keys = {key for key, _ in _words_of(question)}
    whole = _recall(dict(gold), counts, question_keys)
    core = dict(_words_of(_ASIDE.sub(" ", reference)))
    return max(whole, _recall(core, counts, question_keys), key=lambda overlap: overlap.value) if core else whole


def _recall(gold: Mapping[str, str], available: Mapping[str, int], asked: set[str]) -> Overlap:
    beginnings = {key[:_PREFIX] for key in available if len(key) >= _PREFIX}
    informative = not asked.issuperset(gold)
    total = credit = 0.0
    for key in gold:
        weight = 0.25 if informative and key in asked else 1.0
        total += weight
        if key in available:
            credit += weight
        elif key[:_PREFIX] in beginnings and not key.startswith(NUMBERS):
            credit += 0.8 * weight
    lacks_number = any(key.startswith(NUMBERS) for key in gold if key not in available)
    other_number = lacks_number and any(key.startswith(NUMBERS) for key in available)
    return _overlap(credit / total * (0.6 if other_number else 1.0), gold, available)


def answers_question(answer: str, question: str) -> Overlap:
    """The share of the question's content words in the answer, 0 to 1; 0 if the answer repeats the question."""
    asked, answered = analysed(question), analysed(answer)
    wanted = {asked.terms.keys[place]: asked.terms.text_at(place) for place in asked.content()}
    overlap = _overlap(0.0, wanted, {answered.terms.keys[place] for place in answered.content()})
    if not wanted or asked.terms.keys == answered.terms.keys:
        return overlap
    return overlap._replace(value=len(overlap.found) / len(wanted))


_SURE = pattern_of("sure_words", before=r"\b", after=r"\b")
_CAUTIOUS = pattern_of("cautious_words", before=r"\b")


def tone_of(answer: str) -> tuple[float, Literal["cautious", "neutral", "misleading"], str]:
    """Return 1.0 for cautious if the answer admits uncertainty, 0.0 for misleading if it only expresses certainty.

    Else 0.5 for neutral; always with the words behind it.
    """
    if (cautious := _CAUTIOUS.search(answer)) is not None:
        return 1.0, "cautious", cautious.group()
    if (sure := _SURE.search(answer)) is not None:
        return 0.0, "misleading", sure.group()
    return 0.5, "neutral", ""


def related_places(text: str, source: Source) -> list[tuple[Place, list[str]]]:
    """Return, for each related passage, the sentence closest to a claim of ``text``, and the shared words.

    A passage is related if one of its sentences contains at least half of the content words, and at least two (or all),
    of a claim or of a clause after ", and" or ", but".
    """
    best: dict[int, tuple[float, Place, list[str]]] = {}
    claims = split_claims(text)
    clauses = [clause for claim in claims for clause in CLAUSE_END.split(claim)]
    for piece in dict.fromkeys((*claims, *clauses)):
        coverage = source.coverage(piece)
        total = len(coverage.found) + len(coverage.missing)
        if total < 2 and piece not in claims:
            continue
        least = max(0.5 * total, min(2, total))
        for number, mask in coverage.masks.items():
            if (count := mask.bit_count()) >= least:
                place = source.places[number]
                if count / total > best.get(place.passage, (0.0,))[0]:
                    shared = [term for bit, term in enumerate(coverage.found) if mask >> bit & 1]
                    best[place.passage] = count / total, place, list(map(coverage.terms.text_at, shared))
    return [(place, words) for _, (_, place, words) in sorted(best.items())]


def cover_question(question: str, history: tuple[str, ...], source: Source) -> tuple[Overlap, Place | None]:
    """Return how much of the question the best passage covers, and its best sentence.

    Counts are weighted by the passage's length, as in Okapi BM25. Words of the user's previous turn count less; they
    may explain an "it". Prose counts more than tables and menus, which list words without stating anything. The score
    sees only words, not whether the passage answers the question.
    """
    question_words = dict(_words_of(question))
    before = [analysed(turn) for turn in history[-1:]]
    weights = {turn.terms.keys[place]: 0.3 for turn in before for place in turn.content()}
    weights.update(dict.fromkeys(question_words, 1.0))
    passages: dict[int, list[Place]] = {}
    for place in source.places.values():
        passages.setdefault(place.passage, []).append(place)
    if not question_words or not passages:
        return _overlap(0.0, question_words, ()), None
    shares = {number: _share(weights, question_words, places) for number, places in passages.items()}
    best = max(shares, key=lambda number: shares[number])
    sentence = max(passages[best], key=lambda place: len(question_words.keys() & set(place.keys)))
    value = 1 / (1 + math.exp(-9.0 * (shares[best] - 0.48)))
    return _overlap(value, question_words, {key for place in passages[best] for key in place.keys}), sentence


def _share(weights: Mapping[str, float], asked: Container[str], places: list[Place]) -> float:
    counts = Counter([key for place in places for key in place.keys])
    kinds = [place.kind(number) for place in places for number in range(len(place.keys))]
    length = 0.25 + 0.75 * len(kinds) / 60  # a usual passage has 60 content words
    total = credit = 0.0
    for key, weight in weights.items():
        related = (count for word, count in counts.items() if len(key) > _PREFIX and word.startswith(key[:_PREFIX]))
        count: float = counts[key] or 0.6 * max(related, default=0)
        if key in asked or count:  # words of earlier turns count only if found
            total += weight
            credit += weight * count / (count + length)
    prose = sum(not kind & (NAME | NUMBER) for kind in kinds) / len(kinds) if kinds else 0.0
    return credit / total + 0.25 * prose
