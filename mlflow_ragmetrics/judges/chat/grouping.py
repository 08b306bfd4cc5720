"""Which questions of one sample share a call: at most eight calls in full, four in compact."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Literal, get_args

from mlflow_ragmetrics.core.judge import Call
from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.core.question import Claims, Grade, Question, RelatedChunks, Verify
from mlflow_ragmetrics.errors import InvalidOptionError

__all__ = ["Grouping", "check_grouping", "group_calls"]

Grouping = Literal["full", "compact"]
_MOST_TEXTS = 8
_MOST_CLAIMS = 60


def check_grouping(calls: str) -> Grouping:
    """``calls`` itself; ``InvalidOptionError`` where it is neither ``"full"`` nor ``"compact"``."""
    if not isinstance(calls, str) or calls not in get_args(Grouping):
        raise InvalidOptionError(f"calls={shown(calls)} must be 'full' or 'compact'", param="calls")
    return calls  # type: ignore[return-value]


def group_calls(grouping: Grouping, pending: Sequence[Question], in_flight: Sequence[Question]) -> list[Call]:
    """The calls to make now; what is in none of them waits.

    Full: both grades of an answer share a call, all else is asked apart. Compact: all claims share one; everything
    about contexts shares one, and waits for the claims that are still being made; both directions between answer and
    reference share one.
    """
    grades = [question for question in pending if isinstance(question, Grade)]
    calls = _by(grades, _graded_texts)
    others = [question for question in pending if not isinstance(question, Grade)]
    if grouping == "full":
        return [*((question,) for question in others), *calls]
    claims = [question for question in others if isinstance(question, Claims)]
    calls += [tuple(claims[i : i + _MOST_TEXTS]) for i in range(0, len(claims), _MOST_TEXTS)]
    evidence = [question for question in others if isinstance(question, (Verify, RelatedChunks))]
    calls += [(question,) for question in others if not isinstance(question, (Claims, Verify, RelatedChunks))]
    if claims or any(isinstance(question, Claims) for question in in_flight):
        return calls
    return calls + [call for group in _by(evidence, _evidence_texts) for call in _bounded(group)]


def _graded_texts(question: Question) -> Hashable:
    return question.answer if isinstance(question, Grade) else None


def _evidence_texts(question: Question) -> Hashable:
    if isinstance(question, RelatedChunks):
        return question.chunks
    return question.passages if isinstance(question, Verify) and question.against == "contexts" else "each other"


def _by(questions: Iterable[Question], key: Callable[[Question], Hashable]) -> list[Call]:
    groups: dict[Hashable, list[Question]] = {}
    for question in questions:
        groups.setdefault(key(question), []).append(question)
    return [call for group in groups.values() for call in _distinct(group)]


def _distinct(group: list[Question]) -> list[Call]:
    """One call takes one question about related chunks and one grade an aspect: more of them make more calls."""
    calls: list[dict[Hashable, Question]] = []
    for question in group:
        slot: Hashable = question
        if isinstance(question, Grade):
            slot = question.aspect
        elif isinstance(question, RelatedChunks):
            slot = RelatedChunks
        room = next((call for call in calls if slot not in call and _agree(question, call.values())), None)
        if room is None:
            calls.append({slot: question})
        else:
            room[slot] = question
    return [tuple(call.values()) for call in calls]


def _agree(question: Question, others: Iterable[Question]) -> bool:
    """Whether grades are about the same question and reference, as far as they name them."""
    if not isinstance(question, Grade):
        return True
    return all(
        ours is None or theirs is None or ours == theirs
        for other in others
        if isinstance(other, Grade)
        for ours, theirs in ((question.question, other.question), (question.reference, other.reference))
    )


def _bounded(call: Call) -> list[Call]:
    """Calls with at most 60 claims each, so that the reply has room."""
    calls: list[list[Question]] = [[]]
    size = 0
    for question in call:
        claims = len(question.claims) if isinstance(question, Verify) else 0
        if calls[-1] and size + claims > _MOST_CLAIMS:
            calls.append([])
            size = 0
        calls[-1].append(question)
        size += claims
    return [tuple(questions) for questions in calls]
