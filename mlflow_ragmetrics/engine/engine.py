"""Runs all metric programs against the judges: each question once, concurrently, with failures isolated.

The scheduler runs in the caller's thread. Judges that run in this process are called there, in large batches; remote
judges are called from a bounded number of threads. Each sample continues as soon as its own answers arrive.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Protocol, TypeVar

from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.question import Call, Declined, Embed, Embedding, Judge, Outcome, Question
from mlflow_ragmetrics.core.safe_text import redact
from mlflow_ragmetrics.core.score import Sample
from mlflow_ragmetrics.engine.memory import Recent, rare_collections
from mlflow_ragmetrics.engine.program import (
    ChargesCaller,
    Job,
    Row,
    Run,
    ScoringRules,
    charged_to,
    expenses_of_caller,
    start,
)
from mlflow_ragmetrics.engine.threads import Slots, Workers, check_awaited
from mlflow_ragmetrics.errors import JudgeError

_REMEMBERED = 20_000
_UNHEARD = JudgeError("the judge does not say whether an answer declines")


A = TypeVar("A")


class Store(Protocol):
    """Answers stored on disk, by judge fingerprint and question."""

    def get(self, fingerprint: str, question: Question[A]) -> A | None:
        """The stored answer, or ``None``."""

    def put(self, fingerprint: str, question: Question[A], answer: A) -> None:
        """Store an answer immediately."""


Waiting = tuple[Job, Run, int]
"""A run that waits for an answer, and the position of the question among those it asked."""


class JudgeSession:
    """A judge with its answers so far and the runs that wait for it.

    ``closed``: the fatal error (a refused key, a spent budget) after which the judge is no longer asked.
    """

    def __init__(self, judge: Judge, store: Store | None = None) -> None:
        self.judge = judge
        self.local = judge.local
        self.waiting: dict[Question[Any], list[Waiting]] = {}
        self.closed: JudgeError | None = None
        self._expenses = expenses_of_caller()
        self._before = self._metered()
        self._fingerprint = judge.fingerprint
        self._store = store if self._fingerprint is not None and not self.local else None
        if store is not None and self._fingerprint is None and not self.local:
            message = f"{judge.name}: its answers are not cached because it has no fingerprint that identifies them"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        self._answers = Recent[Question[Any], object](_REMEMBERED)

    def known(self, question: Question[Any]) -> tuple[Outcome] | None:
        """A 1-tuple with the outcome if it is already available, else ``None``."""
        if isinstance(question, Declined) and not self.judge.knows_declines:
            return (_UNHEARD,)
        if question in self._answers:
            self._answers.move_to_end(question)
            return (self._answers[question],)
        if self._store is not None and self._fingerprint is not None and question not in self.waiting:
            answer = self._store.get(self._fingerprint, question)
            if answer is not None:
                self._expenses.update({"cached": 1})
                self._answers[question] = answer
                return (answer,)
        return None if self.closed is None else (self.closed,)

    def calls(self, pending: Sequence[Question[Any]], in_flight: Sequence[Question[Any]]) -> Sequence[Call]:
        """The judge's calls for the pending questions of one sample.

        If the judge holds back all questions with nothing in flight, each is asked alone, so that no sample hangs.
        """
        calls = self.judge.calls(pending, in_flight)
        return calls if calls or in_flight else [(question,) for question in pending]

    def ask(self, call: Call) -> list[Outcome]:
        """Ask the judge and store its answers; never raises. A closed session fails immediately."""
        if self.closed is not None:
            return [self.closed] * len(call)
        with charged_to(self._expenses):
            outcomes = answer_call(self.judge, call)
        self.closed = next((each for each in outcomes if isinstance(each, JudgeError) and each.fatal), self.closed)
        if self._store is not None and self._fingerprint is not None and self._fingerprint == self.judge.fingerprint:
            for question, outcome in zip(call, outcomes, strict=True):
                if not isinstance(outcome, JudgeError):
                    self._store.put(self._fingerprint, question, outcome)
        return outcomes

    def end(self) -> None:
        """Charge the usage of a meter that does not charge callers itself."""
        self._expenses.update(self._metered() - self._before)

    def _metered(self) -> Counter[str]:
        meter = self.judge.usage
        return Counter() if meter is None or isinstance(meter, ChargesCaller) else Counter(meter.snapshot())

    def settle(self, question: Question[Any], outcome: Outcome) -> list[Waiting]:
        """Record an outcome; returns the runs that waited for it."""
        if not isinstance(outcome, JudgeError):
            self._answers[question] = outcome
        return self.waiting.pop(question, [])


class Embedder(Judge):
    """All embedding models as one judge: answers ``Embed`` with vectors or an error for each model."""

    name = "embeddings"

    def __init__(self, models: Sequence[Embedding]) -> None:
        self.models = {model.name: model for model in models}
        self.local = all(getattr(model, "local", False) for model in models)

    def answer(self, questions: Sequence[Question[Any]]) -> list[Outcome]:
        """Return one mapping per question, from each model's name to its vectors or its error."""
        embeds = [question for question in questions if isinstance(question, Embed)]
        answers: list[dict[str, Outcome]] = [{} for _ in embeds]
        for name, model in self.models.items():
            wanted = [i for i, question in enumerate(embeds) if question.models is None or name in question.models]
            if not wanted:
                continue
            for i, vectors in zip(wanted, _embed(model, [embeds[i].texts for i in wanted]), strict=True):
                answers[i][name] = vectors
        return list[Outcome](answers)


def _embed(model: Embedding, groups: list[tuple[str, ...]]) -> list[Outcome]:
    outcome = _attempt(model.name, lambda: list(model.embed([text for texts in groups for text in texts])))
    if isinstance(outcome, JudgeError):
        return [outcome] * len(groups)
    vectors = iter(outcome)
    return [tuple(islice(vectors, len(texts))) for texts in groups]


def answer_call(judge: Judge, call: Sequence[Question[Any]]) -> list[Outcome]:
    """Return one outcome per question; an exception becomes the outcome of every question.

    If a local judge raises on a batch, each question is asked alone, so that one sample cannot fail another.
    """
    outcomes = _attempt(judge.name, lambda: list(judge.answer(call)))
    if isinstance(outcomes, JudgeError) and judge.local and len(call) > 1:
        return [answer_call(judge, (question,))[0] for question in call]
    if isinstance(outcomes, JudgeError):
        return [outcomes] * len(call)
    if len(outcomes) != len(call):
        return [JudgeError(f"{judge.name} returned {len(outcomes)} answers to {len(call)} questions")] * len(call)
    return outcomes


def _attempt(name: str, action: Callable[[], list[Any]]) -> list[Any] | JudgeError:
    try:
        return action()
    except JudgeError as error:
        return error
    except Exception as error:  # judges wrap arbitrary clients and networks, which can raise anything
        return JudgeError(redact(f"{name}: {type(error).__name__}: {error}"), origin=error)


_BATCH = 128
_CALLS = 8
_SAMPLES_A_WORKER = 4
_Finished = tuple[JudgeSession, Call, list[Outcome]]


class Engine:
    """Scores samples with the metrics of ``rules``, asking ``judges`` and ``embeddings``.

    ``slots`` limits the calls in flight over all remote judges, and over all engines that share it. An engine serves
    one evaluation, in one thread.
    """

    def __init__(
        self,
        rules: ScoringRules,
        judges: Sequence[Judge],
        embeddings: Sequence[Embedding],
        *,
        slots: Slots | None = None,
        store: Store | None = None,
    ) -> None:
        self.rules = rules
        self.sessions = {judge.name: JudgeSession(judge, store) for judge in judges}
        self.embedder = JudgeSession(Embedder(embeddings))
        self._asked = [(metric, self._judges_of(metric)) for metric in rules.metrics]
        self._own: dict[Judge, JudgeSession] = {}
        self._batches: dict[JudgeSession, list[Question[Any]]] = {}
        self._workers: Workers[_Finished] = Workers(slots or Slots(_CALLS))
        self._window = max(_BATCH, _SAMPLES_A_WORKER * self._workers.limit)
        self._finished: dict[int, Row] = {}
        self._active = 0

    def rows(self, samples: Iterable[Sample]) -> Iterator[Row]:
        """Yield one ``Row`` per sample, in order, as soon as it and all rows before it are done."""
        try:
            with rare_collections():
                yield from self._rows(enumerate(samples))
        finally:
            self._workers.close()
            for session in (*self.sessions.values(), *self._own.values()):
                session.end()

    def _rows(self, source: Iterator[tuple[int, Sample]]) -> Iterator[Row]:
        following = 0
        while True:
            check_awaited()
            exhausted = self._admit(source)
            while following in self._finished:
                yield self._finished.pop(following)
                following += 1
            if self._batches:
                self._ask_local()
            elif self._workers.in_flight:
                for session, call, outcomes in self._workers.finished():
                    self._deliver(session, call, outcomes)
            elif exhausted and not self._finished:
                return

    @property
    def stopped(self) -> JudgeError | None:
        """The error that closed all judges (keys refused, budgets spent); ``None`` while any judge is open."""
        closed = [session.closed for session in self.sessions.values()]
        return closed[0] if closed and all(closed) else None

    @property
    def ahead(self) -> list[Row]:
        """Finished rows not yet yielded because an earlier row is unfinished."""
        return [self._finished[index] for index in sorted(self._finished)]

    def _admit(self, source: Iterator[tuple[int, Sample]]) -> bool:
        while self._active < self._window and len(self._finished) < 4 * self._window:
            following = next(source, None)
            if following is None:
                return True
            self._begin(*following)
            if not self._active:
                return False
        return False

    def _begin(self, index: int, sample: Sample) -> None:
        runs = [[Run(start(metric, sample), judge) for judge in judges] for metric, judges in self._asked]
        begun = [run for runs_of_metric in runs for run in runs_of_metric]
        job = Job(index, sample, runs, open_runs=len(begun))
        self._active += 1
        for run in begun:
            self._advance(job, run)
        if not job.open_runs:
            self._close(job)
        else:
            self._dispatch(job)

    def _judges_of(self, metric: Metric) -> list[str | None]:
        if "judge" not in metric.definition.asks:
            return [None]
        chosen = metric.options.models
        picked = [name for name in self.sessions if chosen is None or name in chosen]
        return list(picked or self.sessions)

    def _advance(self, job: Job, run: Run) -> None:
        run.advance()
        while not run.done and not self._register(job, run):
            run.advance()
        if run.done:
            job.open_runs -= 1

    def _register(self, job: Job, run: Run) -> bool:
        """Register the run's questions; False if all have answers already."""
        waits = False
        for place, question in enumerate(run.asked):
            session = self._session_for(run, question)
            known = session.known(question)
            if known is not None:
                run.fill(place, known[0])
                continue
            waits = True
            waiting = session.waiting.setdefault(question, [])
            fresh = not waiting
            waiting.append((job, run, place))
            if not session.local:
                (job.pending if fresh else job.in_flight).setdefault(session, {})[question] = None
            elif fresh:  # batched over many samples, so not grouped by sample
                self._batches.setdefault(session, []).append(question)
        return waits

    def _session_for(self, run: Run, question: Question[Any]) -> JudgeSession:
        if isinstance(question, Embed):
            return self.embedder
        if question.answered_by is not None:  # a judge that the question brings with it
            if question.answered_by not in self._own:
                self._own[question.answered_by] = JudgeSession(question.answered_by)
            return self._own[question.answered_by]
        return self.sessions[run.judge] if run.judge is not None else next(iter(self.sessions.values()))

    def _dispatch(self, job: Job) -> None:
        for session, pending in job.pending.items():
            in_flight = job.in_flight.setdefault(session, {})
            others = tuple([question for question in in_flight if question not in pending])
            for call in session.calls(tuple(pending), others) if pending else ():
                for question in call:
                    del pending[question]
                    in_flight[question] = None
                self._workers.submit(partial(_ask, session, call), job.index)  # rows that began first get priority

    def _ask_local(self) -> None:
        batches, self._batches = self._batches, {}
        for session, questions in batches.items():
            call = tuple(questions)
            self._deliver(session, call, session.ask(call))

    def _deliver(self, session: JudgeSession, call: Call, outcomes: Sequence[Outcome]) -> None:
        touched: dict[Job, None] = {}
        for question, outcome in zip(call, outcomes, strict=True):
            for job, run, place in session.settle(question, outcome):
                if not session.local:
                    job.in_flight[session].pop(question, None)
                touched[job] = None
                if run.fill(place, outcome):
                    self._advance(job, run)
        for job in touched:
            if job.open_runs:
                self._dispatch(job)
            else:
                self._close(job)

    def _close(self, job: Job) -> None:
        self._active -= 1
        self._finished[job.index] = Row(job.sample, self.rules.scores(job), job.index)


def _ask(session: JudgeSession, call: Call) -> _Finished:
    return session, call, session.ask(call)
