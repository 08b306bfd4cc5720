"""What a metric can ask, as data: equal questions are asked once, and any judge may answer them.

A question is a frozen dataclass that derives from ``Question[A]``, where ``A`` is the type of its answer. It knows its
kind, its texts and what answers fit it, so that the engine, the cache and the judges need no list of kinds.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Generic, Literal, TypeVar, Union, cast, get_args, get_origin

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError, JudgeReplyError

A = TypeVar("A")
T = TypeVar("T")
Role = Literal["answer", "reference"]
Against = Literal["contexts", "reference", "answer"]
Outcome = object
"""The answer to a question, of the type that the question says, or the ``JudgeError`` with which it failed."""


@dataclass(frozen=True)
class Question(Generic[A]):
    """What a metric asks and a judge answers with an ``A``. Subclasses are frozen dataclasses with a ``kind``.

    Fields with ``compare=False`` take no part in equality, so that questions that differ in them alone cost one call.
    ``kind`` also names the question in stores on disk: change it when the same fields come to mean something else.
    ``stored=False``: answers are not kept on disk.

    >>> @dataclass(frozen=True)
    ... class LanguageOf(Question[str]):
    ...     text: str
    ...     kind: ClassVar[str] = "language_of"
    >>> LanguageOf("Bonjour").named_texts()
    {'text': ('Bonjour',)}
    """

    kind: ClassVar[str]
    stored: ClassVar[bool] = True

    @property
    def answered_by(self) -> Any:
        """The one judge that answers it, whoever judges otherwise; by default there is none."""
        return None

    @classmethod
    def answer_type(cls) -> Any:
        """The type of the answers, as the base class ``Question[…]`` names it."""
        for each in cls.__mro__:
            for base in vars(each).get("__orig_bases__", ()):
                if get_origin(base) is Question:
                    return get_args(base)[0]
        return object

    def named_texts(self) -> Mapping[str, tuple[str, ...]]:
        """The texts to be read for an answer, by name; by default all fields that are a text or a tuple of texts."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.compare}
        named = {name: (value,) if isinstance(value, str) else value for name, value in values.items()}
        return {
            name: value
            for name, value in named.items()
            if isinstance(value, tuple) and all(isinstance(text, str) for text in value)
        }

    def fits(self, answer: A) -> bool:
        """Whether ``answer``, which has the right type, answers this very question."""
        return True


@dataclass(frozen=True)
class Finding:
    """The answer to one claim of ``Verify``: what the judge says of it, and where that is written.

    ``verdict`` is what the judge said, in any case, and ``reason`` why; a metric reads it and never trusts it blindly.
    ``support`` is graded 0 to 1 or ``None``. ``quotes`` are pairs of (passage number from 1, quote). ``unquoted``: it
    is SUPPORTED by quotes of which no passage has any. ``at_odds``: verdict, support and quotes contradict each other,
    also when the judge was asked again; the claim then counts as not supported.
    """

    verdict: str
    reason: str = ""
    support: float | None = None
    quotes: tuple[tuple[int, str], ...] = ()
    unquoted: bool = False
    at_odds: bool = False


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

    def checked_grade(self, metric: str) -> float:
        """The grade of 1 to 5, from a number or text such as ``"4/5"``; else ``JudgeReplyError``, never clamped."""
        grade = _number(self.value)
        if grade is None or not 1 <= grade <= 5:
            message = f"{metric}: the judge's grade {self.value!r} is not a number from 1 to 5"
            raise JudgeReplyError(message, metric=metric)
        return grade

    def checked_tone(self, metric: str) -> float:
        """The tone of 0, 0.5 or 1; else ``JudgeReplyError``."""
        tone = _number(self.value)
        if tone not in _TONES:
            message = f"{metric}: the judge's tone {self.value!r} is none of 0, 0.5, 1"
            raise JudgeReplyError(message, metric=metric)
        return tone


_GRADE = re.compile(r"([+-]?\d+(?:[.,]\d+)?)\s*(?:(?:/|out of|of|из)\s*5(?:[.,]0+)?)?\.?", re.IGNORECASE)
_TONES = (0.0, 0.5, 1.0)


def _number(value: object) -> float | None:
    if isinstance(value, str):
        match = _GRADE.fullmatch(value.strip())
        return float(match[1].replace(",", ".")) if match else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:  # an int beyond all floats
        return None
    return number if math.isfinite(number) else None


@dataclass(frozen=True)
class Extraction:
    """The claims of a text, with what a judge can say besides: a plain tuple of claims is as good an answer.

    Iterating gives the claims, as a tuple of them does.

    ``unclaimed`` are sentences that assert something and that no claim covers, though the judge was asked for them
    again. ``findings``, where there are any, are the verdicts on the claims by the passages with the digest
    ``judged_by``. ``at_odds`` are claims that their sentences do not make, and sentences that assert something though
    the judge twice said that they claim nothing: they count as claims that are not supported.
    """

    claims: tuple[str, ...]
    unclaimed: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    judged_by: str | None = None
    at_odds: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[str]:
        return iter(self.claims)

    def __len__(self) -> int:
        return len(self.claims)

    def findings_on(self, passages: Sequence[str]) -> tuple[Finding, ...] | None:
        """The verdicts on the claims by these very passages, or ``None`` where they are still to be asked for."""
        return self.findings if self.judged_by and self.judged_by == passages_digest(passages) else None


def passages_digest(passages: Sequence[str]) -> str:
    """SHA-256 over the passages."""
    return hashlib.sha256(json.dumps(list(passages)).encode()).hexdigest()


@dataclass(frozen=True)
class Claims(Question[Union[tuple[str, ...], Extraction]]):
    """Split ``text`` into atomic claims, each readable on its own. ``role`` says whose text it is.

    ``question`` is what the text answers, ``history`` the turns before it: they tell what "it" and "yes" mean.
    ``passages`` are those that the claims will be judged by; a judge may judge the claims at once (``Extraction``).
    """

    text: str
    role: Role = field(default="answer", compare=False)
    question: str | None = None
    history: tuple[str, ...] = ()
    passages: tuple[str, ...] = field(default=(), compare=False)
    kind: ClassVar[str] = "claims"

    def named_texts(self) -> Mapping[str, tuple[str, ...]]:
        """The text, under its role."""
        return {self.role: (self.text,)}

    def fits(self, answer: tuple[str, ...] | Extraction) -> bool:
        """Whether ``answer``, where it is an ``Extraction`` with verdicts, has one on each claim."""
        return (
            not isinstance(answer, Extraction) or answer.judged_by is None or len(answer.findings) == len(answer.claims)
        )


@dataclass(frozen=True)
class Verify(Question[tuple[Finding, ...]]):
    """Judge each claim against the passages. Answer: one ``Finding`` per claim, in order.

    ``question`` is what the text that the claims are from answers.
    """

    claims: tuple[str, ...]
    passages: tuple[str, ...]
    against: Against = "contexts"
    role: Role = field(default="answer", compare=False)
    question: str | None = None
    kind: ClassVar[str] = "verify"

    def named_texts(self) -> Mapping[str, tuple[str, ...]]:
        """The claims, under the role of their text, and what they are judged against."""
        return {self.role: self.claims, self.against: self.passages}

    def fits(self, answer: tuple[Finding, ...]) -> bool:
        """Whether ``answer`` has a finding for each claim."""
        return len(answer) == len(self.claims)


@dataclass(frozen=True)
class RelatedChunks(Question[tuple[Related, ...]]):
    """Which chunks state something that ``text`` says? ``question`` is what the text answers."""

    text: str
    chunks: tuple[str, ...]
    role: Role = field(default="answer", compare=False)
    question: str | None = None
    kind: ClassVar[str] = "related_chunks"

    def named_texts(self) -> Mapping[str, tuple[str, ...]]:
        """The text, under its role, and the chunks."""
        return {self.role: (self.text,), "contexts": self.chunks}


@dataclass(frozen=True)
class Sufficiency(Question[Finding]):
    """Do the passages hold what is needed to answer ``question``? ``history``: the user's turns before it.

    Answer: a ``Finding`` whose ``support`` is 0 to 1 (how many of a hundred careful readers would say that they do) and
    whose quotes are what an answer would rest on.
    """

    question: str
    passages: tuple[str, ...]
    history: tuple[str, ...] = ()
    kind: ClassVar[str] = "sufficiency"

    def named_texts(self) -> Mapping[str, tuple[str, ...]]:
        """Question, history and passages."""
        return {"question": (self.question,), "history": self.history, "contexts": self.passages}


@dataclass(frozen=True)
class Nugget:
    """One atomic fact that a good answer holds: ``vital``, or else okay (good to have)."""

    text: str
    vital: bool = True


@dataclass(frozen=True)
class Nuggets(Question[tuple[Nugget, ...]]):
    """The facts that a good answer to ``question`` holds, from the ``sources``: a reference, or else passages.

    The answer that is judged takes no part, so that the facts of a question are found once for all systems.
    """

    question: str
    sources: tuple[str, ...]
    from_reference: bool = True
    kind: ClassVar[str] = "nuggets"

    def named_texts(self) -> Mapping[str, tuple[str, ...]]:
        """Question and sources."""
        return {"question": (self.question,), "reference" if self.from_reference else "contexts": self.sources}


_ASPECTS = ("correctness", "answer_relevance")


@dataclass(frozen=True)
class Grade(Question[Rating]):
    """Grade ``answer`` from 1 to 5 for one aspect.

    ``aspect`` is an identifier. The rubrics of ``correctness`` and ``answer_relevance`` are built in; any other aspect
    brings its own: a text that says what the grades mean. The rubric may speak of the answer and of whatever is given
    beside it: question, reference and contexts (the passages). ``InvalidOptionError`` for an aspect without a rubric.

    >>> Grade("politeness", "Go away.", rubric="5 friendly, 3 neutral, 1 rude").aspect
    'politeness'
    """

    aspect: str
    answer: str
    question: str | None = None
    reference: str | None = None
    contexts: tuple[str, ...] | None = None
    rubric: str | None = None
    kind: ClassVar[str] = "grade"

    def __post_init__(self) -> None:
        if not self.aspect.isidentifier():
            message = f"Grade: aspect={shown(self.aspect)} must be an identifier, such as politeness"
            raise InvalidOptionError(message, param="aspect")
        if self.rubric is None and self.aspect not in _ASPECTS:
            message = (
                f"Grade({self.aspect!r}) needs rubric=…, a text that says what the grades from 1 to 5 mean; only "
                f"{' and '.join(_ASPECTS)} have one built in"
            )
            raise InvalidOptionError(message, param="rubric")
        if self.rubric is not None and not self.rubric.strip():
            raise InvalidOptionError(f"Grade({self.aspect!r}): the rubric is blank", param="rubric")
        if self.contexts is not None:
            object.__setattr__(self, "contexts", tuple(self.contexts))  # a list cannot be part of a question's key

    def named_texts(self) -> Mapping[str, tuple[str, ...]]:
        """Answer, question, reference and contexts, those that are given."""
        named = {"answer": self.answer, "question": self.question, "reference": self.reference}
        single = {name: (text,) for name, text in named.items() if text is not None}
        return single if self.contexts is None else {**single, "contexts": self.contexts}


@dataclass(frozen=True)
class Tone(Question[Rating]):
    """Both texts give no answer: is the answer's tone cautious (1.0), neutral (0.5), misleading (0.0)?

    Cautious means consistent with the reference. Answer: a ``Rating`` of 0, 0.5 or 1.
    """

    answer: str
    reference: str
    question: str | None = None
    kind: ClassVar[str] = "tone"


@dataclass(frozen=True)
class Prefer(Question[Finding]):
    """Which of two answers to ``question`` is better, ``first`` or ``second``?

    ``references`` are the accepted answers, ``contexts`` the passages that both answers were made from, ``history`` the
    user's turns before the question, ``rubric`` says what is better (default: a built-in one). Answer: a ``Finding``
    with the verdict ``"first"``, ``"second"`` or ``"tie"``, whose ``support`` is how many of a hundred careful readers
    would choose that answer (0.5 to 1).
    """

    question: str
    first: str
    second: str
    references: tuple[str, ...] = ()
    contexts: tuple[str, ...] = ()
    history: tuple[str, ...] = ()
    rubric: str | None = None
    kind: ClassVar[str] = "preference"


Vectors = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Embed(Question[Mapping[str, Union[Vectors, JudgeError]]]):
    """Embed each text with every embedding model.

    Answer: a mapping from the model's name to a tuple of vectors (sequences of floats, one per text), or to the
    ``JudgeError`` with which that model failed. ``models`` names those wanted; ``None`` means all.
    """

    texts: tuple[str, ...]
    models: tuple[str, ...] | None = None
    kind: ClassVar[str] = "embed"
    stored: ClassVar[bool] = False


Steps = Generator[tuple[Question[Any], ...], tuple[Outcome, ...], T]
"""A metric's program: yields tuples of questions, receives as many outcomes, returns ``T``."""


def cache_key(question: Question[Any]) -> str:
    """SHA-256 of the question's kind and content (without its role), for stores on disk."""
    content = asdict(question)
    for each in fields(question):
        if not each.compare:
            content.pop(each.name)
    text = json.dumps([question.kind, content], ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def ask(question: Question[A]) -> Steps[A]:
    """Ask one question; raises the ``JudgeError`` with which it failed."""
    (outcome,) = yield (question,)
    if isinstance(outcome, JudgeError):
        raise outcome
    return cast(A, outcome)


def together(*programs: Steps[T]) -> Steps[list[T]]:
    """Run several programs side by side: their questions are asked at the same time.

    Returns their results in order; the first one that raises ends all.
    """
    results: dict[int, T] = {}
    waiting: list[tuple[int, tuple[Question[Any], ...]]] = []
    for place, program in enumerate(programs):
        try:
            waiting.append((place, next(program)))
        except StopIteration as end:
            results[place] = end.value
    while waiting:
        outcomes = yield tuple([question for _, questions in waiting for question in questions])
        asked, waiting, begin = waiting, [], 0
        for place, questions in asked:
            mine = outcomes[begin : begin + len(questions)]
            begin += len(questions)
            try:
                waiting.append((place, programs[place].send(mine)))
            except StopIteration as end:
                results[place] = end.value
    return [results[place] for place in range(len(programs))]
