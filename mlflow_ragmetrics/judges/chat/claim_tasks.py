"""Questions about claims and chunks: which ones share a call, how to divide long ones and join the answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise, zip_longest
from typing import Any, TypeVar

from mlflow_ragmetrics.core.question import (
    Claims,
    Declines,
    Extraction,
    Finding,
    PassageGrade,
    Question,
    Related,
    RelatedChunks,
    Relevance,
    Verify,
)
from mlflow_ragmetrics.judges.chat.evidence import claims_part, evidence_part, relevance_part, single_part
from mlflow_ragmetrics.judges.chat.judge_options import Calls
from mlflow_ragmetrics.judges.chat.reply import tokens_in
from mlflow_ragmetrics.judges.chat.tasks import Task, distinct_statements

T = TypeVar("T")
_MOST_SENTENCES = 12
_MOST_BEFORE = 1000  # characters
_LONG_CLAIM = 100
_MOST_CLAIMS = 60  # per call; models read longer lists less carefully
_CLAIM_TOKENS, _VERDICT_TOKENS, _RELATED_TOKENS = 15, 130, 80
_RANK = {"CONTRADICTED": 1, "SUPPORTED": 2}


def _parts(items: Sequence[T], number: int) -> list[Sequence[T]]:
    """Split ``items`` in order into at most ``number`` non-empty parts of similar length."""
    number = max(1, min(number, len(items)))
    return [items[a:b] for a, b in pairwise(len(items) * part // number for part in range(number + 1))]


def divided_claims(question: Claims, parts: int) -> list[Claims]:
    """Split the text into parts; the history of each part ends with the text before it."""
    earlier = ""
    pieces = []
    for lines in _parts(distinct_statements(question.text), parts):
        before = [f"before this text: {earlier[-_MOST_BEFORE:]}"] if earlier else []
        pieces.append(replace(question, text="\n\n".join(lines), history=(*question.history, *before)))
        earlier = " ".join(filter(None, (earlier, *lines)))
    return pieces


def joined_claims(
    question: Claims, pieces: Sequence[Claims], answers: Sequence[tuple[str, ...] | Extraction]
) -> tuple[str, ...] | Extraction:
    """Return all claims in order without repeats, with their verdicts if there are any."""
    if not any(isinstance(answer, Extraction) for answer in answers):
        return tuple(dict.fromkeys(claim for answer in answers for claim in answer))
    parts = [answer if isinstance(answer, Extraction) else Extraction(answer) for answer in answers]
    is_judged = all(part.judged_by for part in parts)
    judged = {
        claim: finding
        for part in parts
        for claim, finding in zip_longest(part.claims, part.findings if is_judged else ())
    }
    return Extraction(
        tuple(judged),
        tuple(sentence for part in parts for sentence in part.unclaimed),
        tuple(judged.values()) if is_judged else (),
        parts[0].judged_by if is_judged else None,
        tuple(claim for part in parts for claim in part.at_odds),
        sum(part.sentences for part in parts),
        sum(part.under_none for part in parts),
        _declines_of({part.declines for part in parts}),
    )


def _declines_of(parts: set[Declines | None]) -> Declines | None:
    """Return whether a text declines, from its parts: ``partly`` if they differ."""
    return parts.pop() if len(parts) == 1 else "partly" if parts & {"yes", "partly"} else None


def _divider(field: str) -> Callable[..., list[Any]]:
    """Return a function that divides this field of a question, by default in half; a single value is not divided."""

    def divided(question: Any, parts: int = 2) -> list[Any]:
        values = _parts(getattr(question, field), parts)
        return [replace(question, **{field: tuple(part)}) for part in values] if len(values) > 1 else [question]

    return divided


def joined_verify(
    question: Verify, pieces: Sequence[Verify], answers: Sequence[tuple[Finding, ...]]
) -> tuple[Finding, ...]:
    """Return one finding per claim; if several groups of passages gave one, take the one that backs the claim best.

    If no group supports a claim, a contradiction outweighs silence.
    """
    if all(piece.passages == question.passages for piece in pieces):
        return tuple(finding for findings in answers for finding in findings)
    starts = accumulate((len(piece.passages) for piece in pieces), initial=0)
    shifted = [
        [replace(finding, quotes=tuple((start + n, quote) for n, quote in finding.quotes)) for finding in findings]
        for start, findings in zip(starts, answers, strict=False)
    ]
    grouped = zip(*shifted, strict=True)
    return tuple(max(group, key=lambda f: (_RANK.get(f.verdict, 0), f.support or 0.0)) for group in grouped)


def joined_related(
    question: RelatedChunks, pieces: Sequence[RelatedChunks], answers: Sequence[tuple[Related, ...]]
) -> tuple[Related, ...]:
    """Return the related chunks of all pieces, numbered as in the whole question."""
    starts = accumulate((len(piece.chunks) for piece in pieces), initial=0)
    numbered = zip(starts, answers, strict=False)
    return tuple(replace(chunk, chunk=start + chunk.chunk) for start, related in numbered for chunk in related)


def all_supported(question: Verify) -> tuple[Finding, ...]:
    """Return placeholder findings for plans: each claim is supported."""
    return (Finding("SUPPORTED", "", 1.0),) * len(question.claims)


def _judged_at_once(question: Claims, calls: Calls) -> bool:
    return calls == "single" and bool(question.passages)


def _claims_reply(question: Claims, calls: Calls) -> int:
    """Estimate two claims per sentence, each as long as the sentence, up to a limit."""
    overhead = _CLAIM_TOKENS + (_VERDICT_TOKENS if _judged_at_once(question, calls) else 0)
    return sum(2 * (overhead + min(tokens_in(line), _LONG_CLAIM)) for line in distinct_statements(question.text))


def _claims_shared(question: Claims, calls: Calls) -> Hashable | None:
    if calls == "full":
        return None
    return question.passages if calls == "single" and question.passages else "claims"


def _verify_shared(question: Verify, calls: Calls) -> Hashable | None:
    if calls == "full":
        return None
    return question.passages if question.against == "contexts" else "each other"


TASKS: dict[type[Question[Any]], Task[Any]] = {
    Claims: Task(
        claims_part,
        placeholder=lambda question: tuple(distinct_statements(question.text)),
        shares=_claims_shared,
        # texts of different conversations
        conflict=lambda question, other: (question.question, question.history) != (other.question, other.history),
        single=single_part,
        reply=_claims_reply,
        parts=lambda question, calls: (
            -(-len(distinct_statements(question.text)) // _MOST_SENTENCES) if _judged_at_once(question, calls) else 1
        ),
        divide=divided_claims,
        # drops the passages, so that a separate, divisible question judges the claims
        spread=lambda question: [replace(question, passages=())] if question.passages else [question],
        join=joined_claims,
    ),
    Verify: Task(
        evidence_part,
        placeholder=all_supported,
        shares=_verify_shared,
        after=(Claims,),
        reply=lambda question, calls: _VERDICT_TOKENS * len(question.claims),
        parts=lambda question, calls: -(-len(question.claims) // _MOST_CLAIMS),
        divide=_divider("claims"),
        spread=_divider("passages"),
        join=joined_verify,
    ),
    RelatedChunks: Task(
        evidence_part,
        placeholder=lambda question: tuple(map(Related, range(1, len(question.chunks) + 1))),
        shares=lambda question, calls: None if calls == "full" else question.chunks,
        conflict=lambda question, other: True,
        after=(Claims,),
        single=single_part,
        reply=lambda question, calls: _RELATED_TOKENS * len(question.chunks),
        divide=_divider("chunks"),
        spread=_divider("chunks"),
        join=joined_related,
    ),
    Relevance: Task(
        relevance_part,
        placeholder=lambda question: (PassageGrade(2.0, ""),) * len(question.passages),
        reply=lambda question, calls: _RELATED_TOKENS * len(question.passages),
        divide=_divider("passages"),
        spread=_divider("passages"),
        join=lambda question, pieces, answers: tuple(passage for grades in answers for passage in grades),
    ),
}
