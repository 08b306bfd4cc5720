"""How right an answer is by its wording: the words of a short gold answer, or the content of a long reference."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

from mlflow_ragmetrics.judges.wording.analysis import sentences_of
from mlflow_ragmetrics.judges.wording.terms import Term

__all__ = ["Overlap", "compare", "content_of"]

_SHORT: Final = 12
_ASKED: Final = 0.25
_RELATED: Final = 0.8
_OTHER_NUMBER: Final = 0.6
_PREFIX: Final = 5
_ASIDE: Final = re.compile(r"\([^()]*\)")


@dataclass(frozen=True)
class Overlap:
    """How much of one text another holds, 0 to 1, with the words found and missing."""

    value: float
    found: tuple[Term, ...]
    missing: tuple[Term, ...]


def compare(answer: str, reference: str, question: str = "") -> Overlap:
    """The share of a short reference in the answer, or the F1 of content words with a long one, 0 to 1.

    Short: at most 12 content words. Words that the question already says count a quarter, words that begin alike
    0.8, and where the answer gives another number than the reference, the whole counts 0.6. What stands in brackets
    may be left out.
    """
    gold = content_of(reference)
    said = content_of(answer) if any(term.content for term in gold) else _all_terms(answer)
    if not gold or not said:
        return Overlap(0.0, (), tuple(gold))
    if len(gold) > _SHORT:
        return _content_f1(gold, said)
    asked = {term.key for term in content_of(question)} if question else set()
    overlap = _recall(gold, said, asked)
    core = content_of(_ASIDE.sub(" ", reference)) if "(" in reference else []
    return max(overlap, _recall(core, said, asked), key=lambda each: each.value) if core else overlap


def content_of(text: str) -> list[Term]:
    """The content terms of ``text``; all of its terms where none has content ("no", "it")."""
    terms = _all_terms(text)
    return [term for term in terms if term.content] or terms


def _all_terms(text: str) -> list[Term]:
    return [term for sentence in sentences_of(text) for term in sentence.terms]


def _recall(gold: list[Term], said: list[Term], asked: set[str]) -> Overlap:
    available = {term.key for term in said}
    beginnings = {key[:_PREFIX] for key in available if len(key) >= _PREFIX}
    unique = {term.key: term for term in gold}
    telling = not asked.issuperset(unique)
    total = credit = 0.0
    for key, term in unique.items():
        weight = _ASKED if telling and key in asked else 1.0
        total += weight
        if key in available:
            credit += weight
        elif not term.number and len(key) >= _PREFIX and key[:_PREFIX] in beginnings:
            credit += _RELATED * weight
    found = tuple(term for key, term in unique.items() if key in available)
    missing = tuple(term for key, term in unique.items() if key not in available)
    other_number = any(term.number for term in missing) and any(term.number for term in said)
    return Overlap(credit / total * (_OTHER_NUMBER if other_number else 1.0), found, missing)


def _content_f1(gold: list[Term], said: list[Term]) -> Overlap:
    counts, available = Counter(term.key for term in gold), Counter(term.key for term in said)
    shared = sum((counts & available).values())
    unique = {term.key: term for term in gold}.values()
    found = tuple(term for term in unique if term.key in available)
    missing = tuple(term for term in unique if term.key not in available)
    return Overlap(2 * shared / (len(gold) + len(said)), found, missing)
