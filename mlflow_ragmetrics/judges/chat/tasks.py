"""How chat models are asked each kind of question: the part of a message, its reply, which questions share a call."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from mlflow_ragmetrics.core.question import (
    Claims,
    Extraction,
    Finding,
    Grade,
    Nugget,
    Nuggets,
    Question,
    Rating,
    Related,
    RelatedChunks,
    Sufficiency,
    Tone,
    Verify,
    passages_digest,
)
from mlflow_ragmetrics.errors import JudgeError
from mlflow_ragmetrics.judges.chat.evidence import claims_part, evidence_part, single_part
from mlflow_ragmetrics.judges.chat.grades import grades_part, nuggets_part, sufficiency_part
from mlflow_ragmetrics.judges.chat.limits import tokens_in
from mlflow_ragmetrics.judges.chat.message import ChatRequest, Part
from mlflow_ragmetrics.judges.chat.options import Calls
from mlflow_ragmetrics.judges.chat.pieces import (
    divided_claims,
    divided_related,
    divided_verify,
    joined_claims,
    joined_related,
    joined_verify,
    spread_claims,
    spread_related,
    spread_verify,
)
from mlflow_ragmetrics.text.sentences import asserts, statements

Q = TypeVar("Q", bound=Question[Any])
_REASON = "-" * 60
_QUOTE = 40
_NAMES = "-" * 16
_MOST_SENTENCES = 12
_LONG_CLAIM = 100
_MOST_NUGGETS = 20
_CLAIM_TOKENS, _VERDICT_TOKENS, _RELATED_TOKENS, _GRADE_TOKENS = 15, 130, 80, 120


@dataclass(frozen=True)
class Task(Generic[Q]):
    """How a chat model is asked questions of one kind.

    ``part`` makes what one message asks about several of them; kinds with the same ``part`` are asked together.
    ``placeholder``: an answer of the usual length, for plans. Questions may share a call where ``shares`` gives an
    equal value under that ``calls`` option (``None``: asked alone), no two of one kind ``conflict``, and their ``size``
    together is at most ``most``. With ``calls="compact"`` a question waits for those of the kinds ``after``. ``single``
    takes the place of ``part`` with ``calls="single"``, and nothing waits then.

    ``reply``: the usual length of its reply in tokens. A question whose reply would be too long is divided (``divide``:
    into so many; ``parts``: into how many at least), one whose prompt would be too long is asked of a part of what is
    read for it (``spread``); ``join`` makes one answer of those to its pieces. Without them it is asked as it is.
    """

    part: Callable[[Sequence[Q]], Part]
    placeholder: Callable[[Q], object]
    shares: Callable[[Q, Calls], Hashable | None] = lambda question, calls: None
    conflict: Callable[[Q, Q], bool] = lambda question, other: False
    size: Callable[[Q], int] = lambda question: 1
    most: int = 8
    after: tuple[type[Question[Any]], ...] = ()
    single: Callable[[Sequence[Q]], Part] | None = None
    reply: Callable[[Q, Calls], int] = lambda question, calls: 200
    parts: Callable[[Q, Calls], int] = lambda question, calls: 1
    divide: Callable[[Q, int], list[Q]] | None = None
    spread: Callable[[Q], list[Q]] | None = None
    join: Callable[[Q, Sequence[Q], Sequence[Any]], object] = lambda question, pieces, answers: answers[0]

    def part_in(self, calls: Calls) -> Callable[[Sequence[Q]], Part]:
        """What makes the part under this ``calls`` option."""
        return self.single if calls == "single" and self.single is not None else self.part

    def waits_for(self, calls: Calls) -> tuple[type[Question[Any]], ...]:
        """The kinds of questions that must be answered first under this ``calls`` option."""
        return () if calls == "full" or (calls == "single" and self.single is not None) else self.after


_TASKS: dict[type[Question[Any]], Task[Any]] = {}


def register_task(kind: type[Q], task: Task[Q]) -> None:
    """Let chat models answer questions of the class ``kind``; the last task registered for a class holds."""
    _TASKS[kind] = task


def task_of(question: Q) -> Task[Q] | None:
    """The task for a question, or ``None`` where no chat model answers questions of its class."""
    return _TASKS.get(type(question))


def known_task(question: Q) -> Task[Q]:
    """The task for a question that has one; else ``KeyError``."""
    return _TASKS[type(question)]


def no_task(judge: str, question: Question[Any]) -> JudgeError:
    """What becomes of a question that no chat model answers."""
    return JudgeError(f"{judge}: a chat model does not answer questions of the kind {question.kind!r}")


def request_of(questions: Sequence[Question[Any]], calls: Calls = "full") -> ChatRequest:
    """The request that asks these questions; ``KeyError`` where no chat model answers one of them."""
    makers: dict[Callable[[Sequence[Any]], Part], list[Question[Any]]] = {}
    for question in questions:
        makers.setdefault(_TASKS[type(question)].part_in(calls), []).append(question)
    return ChatRequest(tuple(make(asked) for make, asked in makers.items()))


def _grades_conflict(question: Grade, other: Grade) -> bool:
    """Whether both ask for one aspect, or name different texts; one grade by each of several references is none."""
    if replace(question, reference=other.reference) == other:
        return question.rubric is not None or None in (question.reference, other.reference)
    pairs = [
        (question.question, other.question),
        (question.reference, other.reference),
        (question.contexts, other.contexts),
    ]
    return question.aspect == other.aspect or any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _supported(question: Verify) -> tuple[Finding, ...]:
    quotes = ((1, question.passages[0][:_QUOTE]),) if question.passages else ()
    return tuple(Finding("SUPPORTED", _REASON, 1.0, quotes) for _ in question.claims)


def _all_related(question: RelatedChunks) -> tuple[Related, ...]:
    return tuple(Related(i, text[:_QUOTE], _REASON) for i, text in enumerate(question.chunks, 1))


def placeholder_of(question: Question[Any], calls: Calls, claims_a_sentence: int = 1) -> object:
    """An answer as plans take it: so many claims of a sentence, a single one short, several long; all supported."""
    if not isinstance(question, Claims):
        return known_task(question).placeholder(question)
    if claims_a_sentence == 1:
        sentences = list(filter(asserts, statements(question.text)))
        claims = tuple(f"{place} {each[: len(each) // 2]}" for place, each in enumerate(sentences))
    else:
        told = dict.fromkeys(statements(question.text))
        claims = tuple(f"{each} {_NAMES} {n}" for each in told for n in range(claims_a_sentence))
    if calls != "single" or not question.passages:
        return claims
    findings = _supported(Verify(claims, question.passages))
    return Extraction(claims, (), findings, passages_digest(question.passages))


def _judged_at_once(question: Claims, calls: Calls) -> bool:
    return calls == "single" and bool(question.passages)


def _claims_reply(question: Claims, calls: Calls) -> int:
    """Two claims a sentence, each as long as the sentence, though never very long."""
    each = _CLAIM_TOKENS + (_VERDICT_TOKENS if _judged_at_once(question, calls) else 0)
    return sum(2 * (each + min(tokens_in(line), _LONG_CLAIM)) for line in statements(question.text))


def _claims_shared(question: Claims, calls: Calls) -> Hashable | None:
    if calls == "full":
        return None
    return question.passages if calls == "single" and question.passages else "claims"


def _claims_conflict(question: Claims, other: Claims) -> bool:
    """Whether they are parts of different conversations."""
    return (question.question, question.history) != (other.question, other.history)


def _verify_shared(question: Verify, calls: Calls) -> Hashable | None:
    if calls == "full":
        return None
    return question.passages if question.against == "contexts" else "each other"


def _related_shared(question: RelatedChunks, calls: Calls) -> Hashable | None:
    return None if calls == "full" else question.chunks


def _grades_shared(question: Grade, calls: Calls) -> Hashable | None:
    if question.rubric is not None:
        return (question.answer, "rubrics")
    return (question.answer, question.aspect)  # relevance is graded with no reference in view


_MOST_CLAIMS = 60  # in one call: longer lists are read with less care
register_task(
    Claims,
    Task(
        claims_part,
        placeholder=lambda question: tuple(dict.fromkeys(statements(question.text))),
        shares=_claims_shared,
        conflict=_claims_conflict,
        single=single_part,
        reply=_claims_reply,
        parts=lambda question, calls: (
            -(-len(statements(question.text)) // _MOST_SENTENCES) if _judged_at_once(question, calls) else 1
        ),
        divide=divided_claims,
        spread=spread_claims,
        join=joined_claims,
    ),
)
register_task(
    Verify,
    Task(
        evidence_part,
        placeholder=_supported,
        shares=_verify_shared,
        size=lambda question: len(question.claims),
        most=_MOST_CLAIMS,
        after=(Claims,),
        reply=lambda question, calls: _VERDICT_TOKENS * len(question.claims),
        parts=lambda question, calls: -(-len(question.claims) // _MOST_CLAIMS),
        divide=divided_verify,
        spread=spread_verify,
        join=joined_verify,
    ),
)
register_task(
    RelatedChunks,
    Task(
        evidence_part,
        placeholder=_all_related,
        shares=_related_shared,
        conflict=lambda question, other: True,
        size=lambda question: 0,
        most=_MOST_CLAIMS,
        after=(Claims,),
        single=single_part,
        reply=lambda question, calls: _RELATED_TOKENS * len(question.chunks),
        divide=divided_related,
        spread=spread_related,
        join=joined_related,
    ),
)
register_task(
    Grade,
    Task(
        grades_part,
        placeholder=lambda question: Rating(3.0, _REASON),
        shares=_grades_shared,
        conflict=_grades_conflict,
        reply=lambda question, calls: _GRADE_TOKENS,
    ),
)
register_task(
    Tone,
    Task(grades_part, placeholder=lambda question: Rating(0.5, _REASON), reply=lambda question, calls: _GRADE_TOKENS),
)
register_task(
    Sufficiency,
    Task(
        sufficiency_part,
        placeholder=lambda question: Finding("", _REASON, 1.0, ((1, question.passages[0][:_QUOTE]),)),
        reply=lambda question, calls: _GRADE_TOKENS + _RELATED_TOKENS,
    ),
)
register_task(
    Nuggets,
    Task(
        nuggets_part,
        placeholder=lambda question: tuple(map(Nugget, statements("\n".join(question.sources))[:_MOST_NUGGETS])),
        reply=lambda question, calls: _MOST_NUGGETS * 2 * _CLAIM_TOKENS,
    ),
)
