"""How chat models are asked each kind of question: the part of a message, its reply, which questions share a call."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Generic, TypeVar, Union

from mlflow_ragmetrics.core.question import (
    Claims,
    Extraction,
    Finding,
    Grade,
    Outcome,
    Question,
    Rating,
    Related,
    RelatedChunks,
    Tone,
    Verify,
    passages_digest,
)
from mlflow_ragmetrics.errors import JudgeError, JudgeReplyError
from mlflow_ragmetrics.judges.chat.evidence import claims_part, evidence_part, single_part
from mlflow_ragmetrics.judges.chat.message import Block, ChatRequest, Instruction, Part, Prompt
from mlflow_ragmetrics.judges.chat.options import Calls
from mlflow_ragmetrics.judges.chat.reply import Problem, array_of, entries_by_id, text_in
from mlflow_ragmetrics.shared.assertions import statements

__all__ = [
    "Task",
    "joined",
    "no_task",
    "pieces_of",
    "placeholder_of",
    "register_task",
    "request_of",
    "task_of",
]

Q = TypeVar("Q", bound=Question[Any])
_REASON = "-" * 60
_QUOTE = 40
_MOST_SENTENCES = 12


@dataclass(frozen=True)
class Task(Generic[Q]):
    """How a chat model is asked questions of one kind.

    ``part`` makes what one message asks about several of them; kinds with the same ``part`` are asked together.
    ``placeholder``: an answer of the usual length, for plans. Questions may share a call where ``shares`` gives an
    equal value under that ``calls`` option (``None``: asked alone), no two of one kind ``conflict``, and their ``size``
    together is at most ``most``. With ``calls="compact"`` a question waits for those of the kinds ``after``. ``single``
    takes the place of ``part`` with ``calls="single"``, and nothing waits then.
    """

    part: Callable[[Sequence[Q]], Part]
    placeholder: Callable[[Q], object]
    shares: Callable[[Q, Calls], Hashable | None] = lambda question, calls: None
    conflict: Callable[[Q, Q], bool] = lambda question, other: False
    size: Callable[[Q], int] = lambda question: 1
    most: int = 8
    after: tuple[type[Question[Any]], ...] = ()
    single: Callable[[Sequence[Q]], Part] | None = None

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


def no_task(judge: str, question: Question[Any]) -> JudgeError:
    """What becomes of a question that no chat model answers."""
    return JudgeError(f"{judge}: a chat model does not answer questions of the kind {question.kind!r}")


def request_of(questions: Sequence[Question[Any]], calls: Calls = "full") -> ChatRequest:
    """The request that asks these questions; ``KeyError`` where no chat model answers one of them."""
    makers: dict[Callable[[Sequence[Any]], Part], list[Question[Any]]] = {}
    for question in questions:
        makers.setdefault(_TASKS[type(question)].part_in(calls), []).append(question)
    return ChatRequest(tuple(make(asked) for make, asked in makers.items()))


_GRADES_SCHEMA = {"grades": array_of(id=str, reason=str, grade={"type": "number"})}
_Graded = Union[Grade, Tone]


def grades_part(questions: Sequence[_Graded]) -> Part:
    """Grades of one answer: at most one question per aspect, all about the same texts."""
    ids = {question.aspect if isinstance(question, Grade) else "tone": question for question in questions}
    grades = [question for question in questions if isinstance(question, Grade)]
    prompts: list[Prompt] = []
    if any(question.rubric is None for question in grades):
        prompts.append("grades")
    if any(question.rubric is not None for question in grades):
        prompts.append("rubrics")
    for name, question in ids.items():
        own = question.rubric if isinstance(question, Grade) else None
        prompts.append(name if own is None else Instruction(f"{name}: {own.strip()}"))
    forms = ",".join(f'{{"id":"{name}","reason":"…","grade":…}}' for name in ids)
    prompts.append(Instruction(f'{{"grades":[{forms}]}}'))
    blocks = []
    for name in ("question", "reference", "contexts", "answer"):
        texts = next((each for question in questions if (each := question.named_texts().get(name))), ())
        labels = [f"p{number}" for number in range(1, len(texts) + 1)] if name == "contexts" else [name]
        blocks += [Block(label, text) for label, text in zip(labels, texts, strict=False)]

    def read(data: Mapping[str, Any]) -> dict[_Graded, Rating | Problem]:
        entries = entries_by_id(data, "grades", list(ids))
        if isinstance(entries, Problem):
            return dict.fromkeys(questions, entries)
        return {question: _rating(question, name, entries[name]) for name, question in ids.items()}

    return Part(tuple(questions), tuple(prompts), tuple(blocks), _GRADES_SCHEMA, read)


def _rating(question: _Graded, name: str, entry: Mapping[str, Any]) -> Rating | Problem:
    given = Rating(entry.get("grade"), text_in(entry, "reason"))
    is_tone = isinstance(question, Tone)
    try:
        grade = given.tone(name) if is_tone else given.grade(name)
    except JudgeReplyError:
        allowed = "0, 0.5 or 1" if is_tone else "a number from 1 to 5"
        return Problem(f'the grade with the id "{name}" must be {allowed}')
    if not is_tone and str(given.value).strip() == "1.0":  # the best of a scale from 0 to 1, or the worst of ours?
        return Problem(f'the grade with the id "{name}" must be a whole number from 1 (worst) to 5 (best)')
    return Rating(grade, given.reason)


def _grades_conflict(question: Grade, other: Grade) -> bool:
    """Whether both ask for one aspect, or name different texts."""
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


def placeholder_of(question: Question[Any], calls: Calls) -> object:
    """An answer of the usual length: each sentence is a claim, each claim is supported."""
    if calls != "single" or not isinstance(question, Claims) or not question.passages:
        return _TASKS[type(question)].placeholder(question)
    claims = tuple(dict.fromkeys(statements(question.text)))
    findings = _supported(Verify(claims, question.passages))
    return Extraction(claims, (), findings, passages_digest(question.passages))


def pieces_of(question: Question[Any], calls: Calls) -> list[Question[Any]]:
    """The questions to ask in place of one whose reply would be too long; one after another, in order."""
    if calls != "single" or not isinstance(question, Claims) or not question.passages:
        return [question]
    lines = statements(question.text)
    if len(lines) <= _MOST_SENTENCES:
        return [question]
    parts = -(-len(lines) // _MOST_SENTENCES)
    starts = [len(lines) * part // parts for part in range(parts + 1)]
    return [
        replace(
            question,
            text="\n\n".join(lines[start:end]),
            history=(*question.history, *(["before this text: " + " ".join(lines[:start])] if start else [])),
        )
        for start, end in pairwise(starts)
    ]


def joined(answers: Sequence[Outcome]) -> Outcome:
    """One answer from the answers to the pieces of a question; the first failure fails it."""
    failure = next((each for each in answers if isinstance(each, JudgeError)), None)
    if failure is not None or len(answers) == 1:
        return failure or answers[0]
    found = [each for each in answers if isinstance(each, Extraction)]
    judged = {claim: finding for each in found for claim, finding in zip(each.claims, each.findings, strict=True)}
    unclaimed = tuple(sentence for each in found for sentence in each.unclaimed)
    return Extraction(tuple(judged), unclaimed, tuple(judged.values()), found[0].judged_by)


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


_MOST_CLAIMS = 60  # so that the reply has room for their verdicts
register_task(
    Claims,
    Task(
        claims_part,
        placeholder=lambda question: tuple(dict.fromkeys(statements(question.text))),
        shares=_claims_shared,
        conflict=_claims_conflict,
        single=single_part,
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
    ),
)
register_task(
    Grade,
    Task(
        grades_part,
        placeholder=lambda question: Rating(3.0, _REASON),
        shares=_grades_shared,
        conflict=_grades_conflict,
    ),
)
register_task(Tone, Task(grades_part, placeholder=lambda question: Rating(0.5, _REASON)))
