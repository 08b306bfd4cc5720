"""What a metric can ask, as data: equal questions are asked once, and any judge may answer them.

Each question is frozen, hashable and knows the shape of its answer. ``role`` says whose text is meant ("answer" or
"reference"); it does not take part in equality, so a text that is both costs one call.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal, TypeVar, Union

from mlflow_ragmetrics.errors import JudgeError

__all__ = [
    "Answer",
    "Claims",
    "Embed",
    "Finding",
    "Grade",
    "Question",
    "Rating",
    "RelatedChunks",
    "Related",
    "Steps",
    "Tone",
    "Verify",
    "ask",
    "ask_all",
    "together",
]

Role = Literal["answer", "reference"]
Against = Literal["contexts", "reference", "answer"]
Aspect = Literal["correctness", "answer_relevance"]


@dataclass(frozen=True)
class Finding:
    """The answer to one claim of ``Verify``: what the judge says of it, and where that is written.

    ``verdict`` is what the judge said, in any case, and ``reason`` why; a metric reads it and never trusts it blindly.
    ``support`` is graded 0 to 1 or ``None``. ``quotes`` are pairs of (passage number from 1, quote).
    """

    verdict: str
    reason: str = ""
    support: float | None = None
    quotes: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Related:
    """One ``chunk`` (numbered from 1) that a judge found related, its ``quote`` and the ``reason``."""

    chunk: int
    quote: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Rating:
    """A grade as the judge gave it (``value``: a number, or text such as ``"4/5"``), with its ``reason``."""

    value: float | str | None
    reason: str = ""


@dataclass(frozen=True)
class Claims:
    """Split ``text`` into atomic claims. Answer: a tuple of claims, each readable on its own."""

    text: str
    role: Role = field(default="answer", compare=False)
    kind: ClassVar[str] = "claims"


@dataclass(frozen=True)
class Verify:
    """Judge each claim against the passages. Answer: a tuple of ``Finding``, one a claim, in order."""

    claims: tuple[str, ...]
    passages: tuple[str, ...]
    against: Against = "contexts"
    role: Role = field(default="answer", compare=False)
    kind: ClassVar[str] = "verify"


@dataclass(frozen=True)
class RelatedChunks:
    """Which chunks state something that ``text`` says? Answer: a tuple of ``Related``."""

    text: str
    chunks: tuple[str, ...]
    role: Role = field(default="answer", compare=False)
    kind: ClassVar[str] = "related_chunks"


@dataclass(frozen=True)
class Grade:
    """Grade the answer from 1 to 5 for one aspect. Answer: a ``Rating``."""

    aspect: Aspect
    answer: str
    question: str | None = None
    reference: str | None = None
    kind: ClassVar[str] = "grade"


@dataclass(frozen=True)
class Tone:
    """Both texts give no answer: is the answer's tone cautious and consistent (1.0), neutral (0.5), misleading (0.0)?

    Answer: a ``Rating`` of 0, 0.5 or 1.
    """

    answer: str
    reference: str
    question: str | None = None
    kind: ClassVar[str] = "tone"


@dataclass(frozen=True)
class Embed:
    """Embed each text with every embedding model.

    Answer: a mapping from the model's name to a tuple of vectors (tuples of floats, one a text), or to the
    ``JudgeError`` with which that model failed. ``models`` names those wanted; ``None`` means all.
    """

    texts: tuple[str, ...]
    models: tuple[str, ...] | None = None
    kind: ClassVar[str] = "embed"


Question = Union[Claims, Verify, RelatedChunks, Grade, Tone, Embed]
Answer = Any
Outcome = Union[Answer, JudgeError]

T = TypeVar("T")
Steps = Generator[tuple[Question, ...], tuple[Outcome, ...], T]
"""A metric's program: yields tuples of questions, receives as many outcomes, returns ``T``."""


def cache_key(question: Question) -> str:
    """SHA-256 of the question's kind and content (without its role), for stores on disk."""
    content = asdict(question)
    for each in fields(question):
        if not each.compare:
            content.pop(each.name)
    text = json.dumps([question.kind, content], ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def ask(question: Question) -> Steps[Answer]:
    """Ask one question; raises the ``JudgeError`` with which it failed."""
    (outcome,) = yield (question,)
    if isinstance(outcome, JudgeError):
        raise outcome
    return outcome


def ask_all(*questions: Question) -> Steps[list[Answer]]:
    """Ask several questions at once; raises the first failure."""
    outcomes = yield questions
    for outcome in outcomes:
        if isinstance(outcome, JudgeError):
            raise outcome
    return list(outcomes)


def together(*programs: Steps[T]) -> Steps[list[T]]:
    """Run several programs side by side: their questions are asked at the same time.

    Returns their results in order; the first one that raises ends all.
    """
    results: dict[int, T] = {}
    waiting: dict[int, tuple[Question, ...]] = {}

    def advance(index: int, outcomes: tuple[Outcome, ...] | None) -> None:
        try:
            waiting[index] = next(programs[index]) if outcomes is None else programs[index].send(outcomes)
        except StopIteration as end:
            waiting.pop(index, None)
            results[index] = end.value

    for index in range(len(programs)):
        advance(index, None)
    while waiting:
        asked = dict(waiting)
        outcomes = yield tuple(question for questions in asked.values() for question in questions)
        start = 0
        for index, questions in asked.items():
            advance(index, tuple(outcomes[start : start + len(questions)]))
            start += len(questions)
    return [results[index] for index in range(len(programs))]


def of_kind(questions: Sequence[Question], kind: str) -> list[Question]:
    """Those of ``questions`` that are of this kind."""
    return [question for question in questions if question.kind == kind]
