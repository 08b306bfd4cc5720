"""One judge during one evaluation: each question is asked once, and its cost is charged to who asked."""

from __future__ import annotations

import threading
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any, Protocol, TypeVar

from mlflow_ragmetrics.core.judge import Call, Embedding, Judge
from mlflow_ragmetrics.core.question import Embed, Outcome, Question
from mlflow_ragmetrics.core.safe_text import redact
from mlflow_ragmetrics.engine.program import Job, Run
from mlflow_ragmetrics.errors import JudgeError


class Expenses:
    """What the judges cost one caller: counts by name, added up by the threads that work for it; and their warnings."""

    def __init__(self) -> None:
        self.warnings: dict[str, None] = {}
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def update(self, counts: Mapping[str, float]) -> None:
        """Add to the counts of these names."""
        with self._lock:
            self._counts.update(counts)

    def counts(self) -> Counter[str]:
        """All counts so far."""
        with self._lock:
            return Counter(self._counts)

    def usage(self, seconds: float) -> dict[str, float]:
        """What a report says that it cost: the counts that are not 0, answers of the cache, and the time."""
        counts = {"cached": 0.0, **self.counts()}
        return {name: count for name, count in counts.items() if count or name == "cached"} | {"wall_seconds": seconds}


_CALLER: ContextVar[Expenses | None] = ContextVar("ragmetrics_expenses", default=None)


@contextmanager
def charged_to(expenses: Expenses) -> Iterator[Expenses]:
    """While this lasts, what this context asks of judges is added to ``expenses``, and nothing that others ask."""
    charged = _CALLER.set(expenses)
    try:
        yield expenses
    finally:
        _CALLER.reset(charged)


def charge(counts: Mapping[str, float]) -> None:
    """Add to what the caller of this context has to pay, if there is one."""
    caller = _CALLER.get()
    if caller is not None:
        caller.update(counts)


def warn_caller(message: str) -> None:
    """Warn of how a judge is asked: as Python does, and in the report of the caller of this context."""
    caller = _CALLER.get()
    if caller is not None:
        caller.warnings[message] = None
    warnings.warn(message, RuntimeWarning, stacklevel=3)


class ChargesCaller:
    """A judge's meter that charges each request to its caller as well, so that one caller's share of it is known."""


_REMEMBERED = 20_000


A = TypeVar("A")


class Store(Protocol):
    """Answers kept on disk, by judge fingerprint and question."""

    def get(self, fingerprint: str, question: Question[A]) -> A | None:
        """The stored answer, or ``None``."""

    def put(self, fingerprint: str, question: Question[A], answer: A) -> None:
        """Keep an answer at once."""


Waiting = tuple[Job, Run, int]
"""A run that waits for an answer, and the place of the question among those that it asked."""


class JudgeSession:
    """A judge with what it was asked, what it answered and who is waiting.

    ``closed``: the fatal failure after which it is not asked any more (a refused key, a spent budget).
    """

    def __init__(self, judge: Judge, store: Store | None = None) -> None:
        self.judge = judge
        self.name = judge.name
        self.local = judge.local
        self.waiting: dict[Question[Any], list[Waiting]] = {}
        self.closed: JudgeError | None = None
        self._expenses = _CALLER.get() or Expenses()
        self._before = self._metered()
        self._fingerprint = judge.fingerprint
        self._store = store if self._fingerprint is not None and not self.local else None
        if store is not None and self._fingerprint is None and not self.local:
            message = f"{self.name}: its answers are not cached, as nothing identifies all that decides them"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        self._answers: OrderedDict[Question[Any], object] = OrderedDict()

    def known(self, question: Question[Any]) -> tuple[Outcome] | None:
        """A 1-tuple with the outcome where it is already known, else ``None``."""
        if question in self._answers:
            self._answers.move_to_end(question)
            return (self._answers[question],)
        if self._store is not None and self._fingerprint is not None and question not in self.waiting:
            answer = self._store.get(self._fingerprint, question)
            if answer is not None:
                self._expenses.update({"cached": 1})
                self._remember(question, answer)
                return (answer,)
        return None if self.closed is None else (self.closed,)

    def calls(self, pending: Sequence[Question[Any]], in_flight: Sequence[Question[Any]]) -> Sequence[Call]:
        """The judge's calls for the pending questions of one sample.

        One that holds everything back with nothing in flight is asked each question alone: no sample may hang.
        """
        calls = self.judge.calls(pending, in_flight)
        return calls if calls or in_flight else [(question,) for question in pending]

    def ask(self, call: Call) -> list[Outcome]:
        """Ask the judge and store what it answered; never raises. A closed session fails at once."""
        if self.closed is not None:
            return [self.closed] * len(call)
        with charged_to(self._expenses):
            outcomes = answer_call(self.judge, call)
        self.closed = next((each for each in outcomes if isinstance(each, JudgeError) and each.fatal), self.closed)
        if self._store is not None and self._fingerprint is not None:
            for question, outcome in zip(call, outcomes, strict=True):
                if not isinstance(outcome, JudgeError):
                    self._store.put(self._fingerprint, question, outcome)
        return outcomes

    def is_closed(self) -> bool:
        """Whether the judge is not asked any more."""
        return self.closed is not None

    def end(self) -> None:
        """Charge what a meter that knows no callers advanced by meanwhile."""
        self._expenses.update(self._metered() - self._before)

    def _metered(self) -> Counter[str]:
        meter = self.judge.usage
        return Counter() if meter is None or isinstance(meter, ChargesCaller) else Counter(meter.snapshot())

    def settle(self, question: Question[Any], outcome: Outcome) -> list[Waiting]:
        """Note an outcome; returns who waited for it."""
        if not isinstance(outcome, JudgeError):
            self._remember(question, outcome)
        return self.waiting.pop(question, [])

    def _remember(self, question: Question[Any], answer: object) -> None:
        self._answers[question] = answer
        if len(self._answers) > _REMEMBERED:
            self._answers.popitem(last=False)


class Embedder(Judge):
    """All embedding models as one judge: answers ``Embed`` with vectors or a failure for each model."""

    name = "embeddings"

    def __init__(self, models: Sequence[Embedding]) -> None:
        self.models = {model.name: model for model in models}
        self.local = all(model.local for model in models)

    def answer(self, questions: Sequence[Question[Any]]) -> list[Outcome]:
        """One mapping per question: the model's name to its vectors, or to the error with which it failed."""
        asked = [question for question in questions if isinstance(question, Embed)]
        answers: list[dict[str, Outcome]] = [{} for _ in asked]
        for name, model in self.models.items():
            wanted = [i for i, question in enumerate(asked) if question.models is None or name in question.models]
            if not wanted:
                continue
            for i, vectors in zip(wanted, _embed(model, [asked[i].texts for i in wanted]), strict=True):
                answers[i][name] = vectors
        return list[Outcome](answers)


def _embed(model: Embedding, groups: list[tuple[str, ...]]) -> list[Outcome]:
    outcome = _attempt(model.name, lambda: list(model.embed([text for texts in groups for text in texts])))
    if isinstance(outcome, JudgeError):
        return [outcome] * len(groups)
    vectors = iter(outcome)
    return [tuple(islice(vectors, len(texts))) for texts in groups]


def answer_call(judge: Judge, call: Sequence[Question[Any]]) -> list[Outcome]:
    """The judge's outcomes, as many as questions; whatever it raises becomes the outcome of each.

    A local judge that raises on a batch is asked each question alone, so that one sample cannot fail another.
    """
    outcomes = _attempt(judge.name, lambda: list(judge.answer(call)))
    if isinstance(outcomes, JudgeError) and judge.local and len(call) > 1:
        return [answer_call(judge, (question,))[0] for question in call]
    if isinstance(outcomes, JudgeError):
        return [outcomes] * len(call)
    if len(outcomes) != len(call):
        return [JudgeError(f"{judge.name} gave {len(outcomes)} answers to {len(call)} questions")] * len(call)
    return outcomes


def _attempt(name: str, action: Callable[[], list[Any]]) -> list[Any] | JudgeError:
    try:
        return action()
    except JudgeError as error:
        return error
    except Exception as error:  # a judge is somebody's client on somebody's network: it may fail in any way
        return JudgeError(redact(f"{name}: {type(error).__name__}: {error}"))
