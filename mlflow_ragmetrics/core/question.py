"""The questions that metrics ask, as data. Equal questions are asked once, and any judge can answer them.

A question is a frozen dataclass derived from ``Question[A]``, where ``A`` is the type of its answer. It defines its
kind, its texts and which answers are valid, so that engine, cache and judges need no list of question types. The
protocols for judges and embedding models are here too.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from itertools import islice
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, cast, runtime_checkable

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.core.safe_text import said_in
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError, JudgeReplyError, MissingExtraError

A = TypeVar("A")
T = TypeVar("T")
Role = Literal["answer", "reference"]
Against = Literal["contexts", "reference", "answer"]
Outcome = object
"""The answer to a question, of the question's answer type, or the ``JudgeError`` if it failed."""


@dataclass(frozen=True)
class Question(Generic[A]):
    """A metric's question, answered by a judge with an ``A``. Subclasses are frozen dataclasses with a ``kind``.

    Fields with ``compare=False`` are ignored for equality; questions that differ only in these share one call.
    ``kind`` also identifies the question in caches on disk: change it if the meaning of the fields changes.
    ``stored=False``: answers are not cached on disk.

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
        """The one judge that must answer this question, regardless of the configured judges; by default ``None``."""
        return None

    def named_texts(self) -> Mapping[str, tuple[str, ...]]:
        """The texts that the judge reads, by name; by default all fields that are a text or a tuple of texts."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.compare}
        named = {name: (value,) if isinstance(value, str) else value for name, value in values.items()}
        return {
            name: value
            for name, value in named.items()
            if isinstance(value, tuple) and all(isinstance(text, str) for text in value)
        }

    def fits(self, answer: A) -> bool:
        """Whether ``answer``, which has the right type, is valid for this question."""
        return True


@dataclass(frozen=True)
class Finding:
    """The answer to one claim of ``Verify``: the judge's verdict and its evidence.

    ``verdict`` is the judge's word, in any case; metrics must validate it. ``reason`` is the explanation. ``support``
    ranges from 0 to 1, or is ``None``. ``quotes`` are pairs of (passage number from 1, quote). ``unquoted``: the
    verdict is SUPPORTED without a quote, as for what the passages do not say. ``at_odds``: verdict, support and quotes
    contradict each other, even after asking again; the claim then counts as not supported.
    """

    verdict: str
    reason: str = ""
    support: float | None = None
    quotes: tuple[tuple[int, str], ...] = ()
    unquoted: bool = False
    at_odds: bool = False


@dataclass(frozen=True)
class Related:
    """One related ``chunk`` (numbered from 1), with a ``quote`` and the ``reason``."""

    chunk: int
    quote: str = ""
    reason: str = ""


Declines = Literal["yes", "partly", "no"]
"""Whether a text only declines to answer its question, answers a part and declines the rest, or declines nothing."""


@dataclass(frozen=True)
class Rating:
    """The judge's grade, unparsed (``value``: a number, or text such as ``"4/5"``), and its ``reason``.

    ``declines``: whether the graded answer declines to answer, if the judge says so.
    """

    value: float | str | None
    reason: str = ""
    declines: Declines | None = None

    def checked_grade(self, metric: str) -> float:
        """The grade as a number from 1 to 5; ``JudgeReplyError`` for anything else, never clamped."""
        return self._checked(metric, "grade", "a number from 1 to 5", lambda grade: 1 <= grade <= 5)

    def checked_tone(self, metric: str) -> float:
        """The tone as 0, 0.5 or 1; ``JudgeReplyError`` for anything else."""
        return self._checked(metric, "tone", "0, 0.5 or 1", lambda tone: tone in (0.0, 0.5, 1.0))

    def _checked(self, metric: str, name: str, wanted: str, fits: Callable[[float], bool]) -> float:
        number = _number(self.value)
        if number is None or not fits(number):
            raise JudgeReplyError(f"{metric}: the judge's {name} {self.value!r} is not {wanted}", metric=metric)
        return number


_GRADE = re.compile(r"([+-]?\d+(?:[.,]\d+)?)\s*(?:(?:/|out of|of|из)\s*5(?:[.,]0+)?)?\.?", re.IGNORECASE)


def _number(value: object) -> float | None:
    if isinstance(value, str):
        match = _GRADE.fullmatch(value.strip())
        return float(match[1].replace(",", ".")) if match else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:  # an int too large for a float
        return None
    return number if math.isfinite(number) else None


@dataclass(frozen=True)
class Extraction:
    """The claims of a text with additional findings. Judges may return a plain tuple of claims instead.

    Iterating yields the claims.

    ``unclaimed`` are sentences that the judge left out, even after asking again. ``findings`` are optional verdicts on
    the claims, based on the passages with the digest ``judged_by``. ``at_odds`` are claims that their sentences do not
    make. Both count as unsupported claims. ``sentences`` is the number of the text's sentences, and ``under_none`` the
    number of those that make no claim, if the judge reports them. ``declines``: whether the text declines to answer,
    if the judge says so.
    """

    claims: tuple[str, ...]
    unclaimed: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    judged_by: str | None = None
    at_odds: tuple[str, ...] = ()
    sentences: int = 0
    under_none: int = 0
    declines: Declines | None = None

    def __iter__(self) -> Iterator[str]:
        return iter(self.claims)

    def __len__(self) -> int:
        return len(self.claims)

    def findings_on(self, passages: Sequence[str]) -> tuple[Finding, ...] | None:
        """The verdicts on the claims, if they are based on these passages, else ``None``."""
        return self.findings if self.judged_by and self.judged_by == passages_digest(passages) else None


def passages_digest(passages: Sequence[str]) -> str:
    """SHA-256 over the passages."""
    return hashlib.sha256(json.dumps(list(passages)).encode()).hexdigest()


@dataclass(frozen=True)
class Claims(Question[tuple[str, ...] | Extraction]):
    """Split ``text`` into atomic claims, each readable on its own. ``role`` names the author of the text.

    ``question`` is the question that the text answers, and ``history`` the turns before it; they resolve words such as
    "it" and "yes". ``passages`` are those that the claims will be checked against. A judge may check them in the same
    call and return an ``Extraction``.
    """

    text: str
    role: Role = field(default="answer", compare=False)
    question: str | None = None
    history: tuple[str, ...] = ()
    passages: tuple[str, ...] = field(default=(), compare=False)
    kind: ClassVar[str] = "claims"

    def named_texts(self) -> Mapping[str, tuple[str, ...]]:
        """The text, by its role."""
        return {self.role: (self.text,)}

    def fits(self, answer: tuple[str, ...] | Extraction) -> bool:
        """Whether an ``Extraction`` with verdicts has one per claim; any other answer is valid."""
        return (
            not isinstance(answer, Extraction) or answer.judged_by is None or len(answer.findings) == len(answer.claims)
        )


@dataclass(frozen=True)
class Verify(Question[tuple[Finding, ...]]):
    """Check each claim against the passages. Answer: one ``Finding`` per claim, in order.

    ``question`` is the question that the claims' text answers.
    """

    claims: tuple[str, ...]
    passages: tuple[str, ...]
    against: Against = "contexts"
    role: Role = field(default="answer", compare=False)
    question: str | None = None
    kind: ClassVar[str] = "verify"

    def named_texts(self) -> Mapping[str, tuple[str, ...]]:
        """The claims, by the role of their text, and the passages."""
        return {self.role: self.claims, self.against: self.passages}

    def fits(self, answer: tuple[Finding, ...]) -> bool:
        """Whether ``answer`` has one finding per claim."""
        return len(answer) == len(self.claims)


@dataclass(frozen=True)
class RelatedChunks(Question[tuple[Related, ...]]):
    """Which chunks state something that ``text`` also states? ``question`` is the question that it answers."""

    text: str
    chunks: tuple[str, ...]
    role: Role = field(default="answer", compare=False)
    question: str | None = None
    kind: ClassVar[str] = "related_chunks"

    def named_texts(self) -> Mapping[str, tuple[str, ...]]:
        """The text, by its role, and the chunks."""
        return {self.role: (self.text,), "contexts": self.chunks}


@dataclass(frozen=True)
class Sufficiency(Question[Finding]):
    """Do the passages contain enough to answer ``question``? ``history``: the user's turns before it.

    Answer: a ``Finding``. Its ``support`` is the share of careful readers, 0 to 1, who would say yes. Its quotes are
    the basis for an answer.
    """

    question: str
    passages: tuple[str, ...]
    history: tuple[str, ...] = ()
    kind: ClassVar[str] = "sufficiency"

    def named_texts(self) -> Mapping[str, tuple[str, ...]]:
        """Question, history and passages."""
        return {"question": (self.question,), "history": self.history, "contexts": self.passages}


@dataclass(frozen=True)
class Declined(Question[Declines]):
    """Does ``answer`` decline to answer ``question``? Judges take this from their other replies about the answer.

    A judge that has none does not answer. Metrics then use rules.
    """

    answer: str
    question: str | None = None
    kind: ClassVar[str] = "declined"


@dataclass(frozen=True)
class PassageGrade:
    """How far one passage answers the question, with the deciding words (``quote``) and the ``reason``.

    ``grade``: 0 unrelated, 1 on the subject, 2 part of an answer, 3 a full answer. A judge that can only tell yes from
    no gives 3 or 0 with ``is_yes_or_no``. ``unquoted``: no words of the passage are quoted for a grade of 2 or 3.
    """

    grade: float
    quote: str = ""
    reason: str = ""
    is_yes_or_no: bool = False
    unquoted: bool = False

    @property
    def at_odds(self) -> bool:
        """Whether to ask again: the words that decide are missing."""
        return self.unquoted


@dataclass(frozen=True)
class Relevance(Question[tuple[PassageGrade, ...]]):
    """How far does each passage, for itself, answer ``question``? ``history``: the turns before it.

    Answer: one ``PassageGrade`` per passage, in order.
    """

    question: str
    passages: tuple[str, ...]
    history: tuple[str, ...] = ()
    kind: ClassVar[str] = "relevance"

    def named_texts(self) -> Mapping[str, tuple[str, ...]]:
        """Question, history and passages."""
        return {"question": (self.question,), "history": self.history, "contexts": self.passages}

    def fits(self, answer: tuple[PassageGrade, ...]) -> bool:
        """Whether ``answer`` has one grade from 0 to 3 per passage."""
        return len(answer) == len(self.passages) and all(0 <= passage.grade <= 3 for passage in answer)


@dataclass(frozen=True)
class Nugget:
    """One atomic fact of a good answer: ``vital``, or merely good to have."""

    text: str
    vital: bool = True


@dataclass(frozen=True)
class Nuggets(Question[tuple[Nugget, ...]]):
    """The facts of a good answer to ``question``, taken from ``sources``: a reference, or else passages.

    The chain's answer is not included, so the facts of a question are found once for all systems.
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

    ``aspect`` is an identifier. The rubrics of ``correctness`` and ``answer_relevance`` are built in. Any other aspect
    needs a ``rubric``, a text that defines the grades, else ``InvalidOptionError``. The rubric can refer to the answer
    and, if given, to the question, the reference and the contexts (passages).

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
        has_rubric = self.aspect in _ASPECTS if self.rubric is None else bool(self.rubric.strip())
        if not self.aspect.isidentifier() or not has_rubric:
            message = (
                f"Grade({shown(self.aspect)}): the aspect must be an identifier, such as politeness, with rubric=…, a "
                f"text that defines the grades from 1 to 5; only {' and '.join(_ASPECTS)} have a built-in rubric"
            )
            raise InvalidOptionError(message, param="rubric" if self.aspect.isidentifier() else "aspect")
        if self.contexts is not None:
            object.__setattr__(self, "contexts", tuple(self.contexts))  # questions must be hashable

    def named_texts(self) -> Mapping[str, tuple[str, ...]]:
        """The answer and, if given, the question, reference and contexts."""
        named = {"answer": self.answer, "question": self.question, "reference": self.reference}
        single = {name: (text,) for name, text in named.items() if text is not None}
        return single if self.contexts is None else {**single, "contexts": self.contexts}


@dataclass(frozen=True)
class Tone(Question[Rating]):
    """Neither text gives an answer: is the answer's tone cautious (1.0), neutral (0.5) or misleading (0.0)?

    Cautious means consistent with the reference. Answer: a ``Rating`` of 0, 0.5 or 1.
    """

    answer: str
    reference: str
    question: str | None = None
    kind: ClassVar[str] = "tone"


@dataclass(frozen=True)
class Prefer(Question[Finding]):
    """Which of two answers to ``question`` is better, ``first`` or ``second``?

    ``references`` are the accepted answers, ``contexts`` the passages behind both answers, ``history`` the user's turns
    before the question. ``rubric`` defines "better" (default: a built-in one). Answer: a ``Finding`` with the verdict
    ``"first"``, ``"second"`` or ``"tie"``. Its ``support`` is the share of careful readers who would choose that
    answer, 0.5 to 1.
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
class Embed(Question[Mapping[str, Vectors | JudgeError]]):
    """Embed each text with every embedding model.

    Answer: a mapping from each model's name to a tuple of vectors (sequences of floats, one per text), or to the
    ``JudgeError`` if that model failed. ``models`` names the models to use; ``None`` means all.
    """

    texts: tuple[str, ...]
    models: tuple[str, ...] | None = None
    kind: ClassVar[str] = "embed"
    stored: ClassVar[bool] = False


Steps = Generator[tuple[Question[Any], ...], tuple[Outcome, ...], T]
"""A metric's program: yields tuples of questions, receives one outcome per question, returns ``T``."""


def cache_key(question: Question[Any]) -> str:
    """SHA-256 of the question's kind and compared fields, the key for caches on disk."""
    content = asdict(question)
    for entry in fields(question):
        if not entry.compare:
            content.pop(entry.name)
    text = json.dumps([question.kind, content], ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def ask(question: Question[A]) -> Steps[A]:
    """Ask one question; raises the ``JudgeError`` if it failed."""
    (outcome,) = yield (question,)
    if isinstance(outcome, JudgeError):
        raise outcome
    return cast(A, outcome)


def together(*programs: Steps[T]) -> Steps[list[T]]:
    """Run several programs concurrently: their questions are asked at the same time.

    Returns their results in order. If one raises, all end.
    """
    results: dict[int, T] = {}
    waiting: list[tuple[int, tuple[Question[Any], ...]]] = []

    def advance(place: int, outcomes: tuple[Outcome, ...] | None) -> None:
        try:
            waiting.append((place, programs[place].send(outcomes)))  # type: ignore[arg-type]
        except StopIteration as end:
            results[place] = end.value

    for place in range(len(programs)):
        advance(place, None)  # starts the program
    while waiting:
        outcomes = iter((yield tuple([question for _, questions in waiting for question in questions])))
        current = waiting.copy()
        waiting.clear()
        for place, questions in current:
            advance(place, tuple(islice(outcomes, len(questions))))
    return [results[place] for place in range(len(programs))]


Call = tuple[Question[Any], ...]


class UsageMeter(Protocol):
    """A judge's usage and cost so far."""

    def snapshot(self) -> dict[str, float]:
        """Counts by name: ``calls``, ``prompt_tokens``, …, and ``cost`` if prices are known."""


@runtime_checkable
class Judge(Protocol):
    """Answers questions. Derive from it and define ``name`` and ``answer``; everything else has a default.

    ``name``: the judge's name in results. ``local=True``: the judge runs in this process and receives large batches of
    questions about many samples; other judges are called from several threads at once. ``fingerprint``: the judge's
    identity in caches on disk (name, parameters, prompt version); ``None`` disables caching. ``usage``: its cost.
    ``form``: a chat model's call form (``full``, ``compact``, ``single``); ``None`` for other judges.
    ``knows_declines``: the judge's replies say whether an answer declines, so it answers ``Declined``.

    >>> class Yes(Judge):
    ...     name = "yes"
    ...     def answer(self, questions):
    ...         return [JudgeError("yes cannot answer") for question in questions]
    >>> Yes().local, Yes().fingerprint
    (False, None)
    """

    name: str
    local: bool = False
    fingerprint: str | None = None
    usage: UsageMeter | None = None
    form: str | None = None
    knows_declines: bool = False

    def answer(self, questions: Sequence[Question[Any]]) -> Sequence[Outcome]:
        """Return one outcome per question, in order: an answer, or the ``JudgeError`` for a question that failed."""
        raise NotImplementedError

    def calls(self, pending: Sequence[Question[Any]], in_flight: Sequence[Question[Any]]) -> Sequence[Call]:
        """Group the pending questions of one sample into calls to make now; by default, one call per question.

        A question left out waits until other questions of the sample, those ``in_flight``, are answered.
        """
        return [(question,) for question in pending]


@runtime_checkable
class Embedding(Protocol):
    """Turns texts into vectors. Derive from it and define ``name`` and ``embed``.

    ``local=True``: the model runs in this process.
    """

    name: str
    local: bool = False

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector per text, all of the same length."""
        raise NotImplementedError


@runtime_checkable
class AnswersQuestions(Protocol):
    """The minimal interface of a judge."""

    @property
    def name(self) -> str:
        """The judge's name in results."""

    def answer(self, questions: Sequence[Question[Any]]) -> Sequence[Outcome]:
        """Return one outcome per question, in order."""


def as_judge(given: AnswersQuestions) -> Judge:
    """``given`` if it is a complete ``Judge``, else a ``Judge`` with its members and default values."""
    return given if isinstance(given, Judge) else _CompletedJudge(given)  # type: ignore[abstract]


class _CompletedJudge(Judge):
    def __init__(self, given: AnswersQuestions) -> None:
        self._given = given
        for member in {"name", *dir(Judge)} - {"fingerprint"}:
            if not member.startswith("_") and hasattr(given, member):
                setattr(self, member, getattr(given, member))

    @property
    def fingerprint(self) -> str | None:  # type: ignore[override]
        """The identity of the completed judge, which may change."""
        return getattr(self._given, "fingerprint", None)


def name_of_model(model: object) -> str:
    """The name of a LangChain model: its ``model`` or ``model_name``, or its class name."""
    named = [getattr(model, attribute, None) for attribute in ("model", "model_name")]
    return next((name for name in named if isinstance(name, str) and name), type(model).__name__)


_DECISIONS = re.compile(r"langchain_(?:core|openai)\.decisions\b")  # modules of decision models and their questions


def decision_class_of(model: object) -> type | None:
    """The class of LangChain that makes ``model`` a decision model, or ``None`` if it is not one."""
    return next((kind for kind in type(model).__mro__ if _DECISIONS.match(kind.__module__)), None)


_KEY_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:API_KEY|TOKEN)\b")


@contextmanager
def created_by_langchain(what: str, param: str) -> Iterator[None]:
    """Convert LangChain's errors in this block: a missing package or key, an unknown provider, a wrong option."""
    try:
        yield
    except ImportError as error:
        lacks_langchain = (error.name or "").partition(".")[0] == "langchain"
        way_out = "pip install 'mlflow_ragmetrics[langchain]'" if lacks_langchain else said_in(error)
        raise MissingExtraError(f"{what} needs another package: {way_out}") from error
    except Exception as error:  # a provider's own check of its options or key
        problem = f"cannot be created: {said_in(error, 1000)}"  # enough for the names of all providers
        if variable := _KEY_VARIABLE.search(problem):
            problem = f"needs a key: set the environment variable {variable[0]}"
        raise InvalidOptionError(f"{what} {problem}", param=param) from error
