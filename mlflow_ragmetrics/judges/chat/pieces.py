"""Long questions in pieces: how each kind is divided, and how one answer is made of the answers to its pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from mlflow_ragmetrics.core.question import Claims, Extraction, Finding, Related, RelatedChunks, Verify
from mlflow_ragmetrics.text.sentences import statements

T = TypeVar("T")
_RANK = {"CONTRADICTED": 1, "SUPPORTED": 2}


def _parts(items: Sequence[T], number: int) -> list[Sequence[T]]:
    """``items`` in order, in so many parts of about the same length, none empty."""
    number = max(1, min(number, len(items)))
    return [items[a:b] for a, b in pairwise(len(items) * part // number for part in range(number + 1))]


def divided_claims(question: Claims, parts: int) -> list[Claims]:
    """Parts of the text; each knows what was said before it."""
    told: list[str] = []
    found = []
    for lines in _parts(statements(question.text), parts):
        before = ["before this text: " + " ".join(told)] if told else []
        found.append(replace(question, text="\n\n".join(lines), history=(*question.history, *before)))
        told += lines
    return found


def spread_claims(question: Claims) -> list[Claims]:
    """Without the passages: the claims are then judged by a question of their own, which can be divided."""
    return [replace(question, passages=())] if question.passages else [question]


def joined_claims(
    question: Claims, pieces: Sequence[Claims], answers: Sequence[tuple[str, ...] | Extraction]
) -> tuple[str, ...] | Extraction:
    """All claims in order, each once, with their verdicts where they have any."""
    found = [each if isinstance(each, Extraction) else Extraction(each) for each in answers]
    unclaimed = tuple(sentence for each in found for sentence in each.unclaimed)
    if any(each.judged_by is None for each in found):
        claims = tuple(dict.fromkeys(claim for each in found for claim in each.claims))
        return Extraction(claims, unclaimed) if unclaimed else claims
    judged = {claim: finding for each in found for claim, finding in zip(each.claims, each.findings, strict=True)}
    return Extraction(tuple(judged), unclaimed, tuple(judged.values()), found[0].judged_by)


def divided_verify(question: Verify, parts: int) -> list[Verify]:
    """Some of the claims each."""
    return [replace(question, claims=tuple(claims)) for claims in _parts(question.claims, parts)]


def spread_verify(question: Verify) -> list[Verify]:
    """All claims by either half of the passages; of a single passage nothing is cut off."""
    if len(question.passages) < 2:
        return [question]
    return [replace(question, passages=tuple(half)) for half in _parts(question.passages, 2)]


def joined_verify(
    question: Verify, pieces: Sequence[Verify], answers: Sequence[tuple[Finding, ...]]
) -> tuple[Finding, ...]:
    """The findings on all claims; of those on one claim by several groups of passages the one that backs it best.

    Where no group backs it, one that contradicts it outweighs those that are silent.
    """
    if all(piece.passages == question.passages for piece in pieces):
        return tuple(finding for each in answers for finding in each)
    starts = [sum(len(piece.passages) for piece in pieces[:place]) for place in range(len(pieces))]
    shifted = [
        [replace(finding, quotes=tuple((start + n, quote) for n, quote in finding.quotes)) for finding in each]
        for start, each in zip(starts, answers, strict=True)
    ]
    return tuple(max(each, key=_backing) for each in zip(*shifted, strict=True))


def _backing(finding: Finding) -> tuple[int, float]:
    return _RANK.get(finding.verdict, 0), finding.support or 0.0


def divided_related(question: RelatedChunks, parts: int) -> list[RelatedChunks]:
    """Some of the chunks each."""
    return [replace(question, chunks=tuple(chunks)) for chunks in _parts(question.chunks, parts)]


def spread_related(question: RelatedChunks) -> list[RelatedChunks]:
    """Either half of the chunks; a single one is not cut."""
    return divided_related(question, 2) if len(question.chunks) > 1 else [question]


def joined_related(
    question: RelatedChunks, pieces: Sequence[RelatedChunks], answers: Sequence[tuple[Related, ...]]
) -> tuple[Related, ...]:
    """The related chunks of all pieces, numbered as in the whole question."""
    starts = [sum(len(piece.chunks) for piece in pieces[:place]) for place in range(len(pieces))]
    return tuple(
        replace(each, chunk=start + each.chunk) for start, found in zip(starts, answers, strict=True) for each in found
    )
