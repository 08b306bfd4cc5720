"""Drives every program of every sample against the judges: each question once, concurrently, failures kept apart.

The scheduler runs in the caller's thread. Judges that compute in this process are asked there, in large batches;
remote ones on a bounded number of threads, one call each. A sample goes on as soon as its own answers are there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from mlflow_ragmetrics.core.judge import Call, Embedding, Judge
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.question import Embed, Outcome, Question
from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.engine.program import Job, Row, Run, ScoringRules, start
from mlflow_ragmetrics.engine.questions import Embedder, JudgeSession, Store
from mlflow_ragmetrics.engine.threads import Slots, Workers, check_awaited
from mlflow_ragmetrics.errors import JudgeError

_BATCH = 128
_CHUNK = 512  # samples that are computed together
_PATIENCE = 0.05  # seconds that the first of them waits for the others
_CALLS = 8
_SAMPLES_A_WORKER = 4
_Finished = tuple[JudgeSession, Call, list[Outcome]]
_Computed = tuple[Score, float]  # with its milliseconds
_Prepared = tuple[int, Sample, Mapping[int, _Computed]]


class Engine:
    """Scores samples with metrics, asking ``judges`` and ``embeddings``.

    ``slots`` bounds the calls in flight over all remote judges, and over all engines that share them. ``rules``
    turn the runs of one metric into its final score. One engine serves one evaluation, in one thread.
    """

    def __init__(
        self,
        metrics: Sequence[Metric],
        judges: Sequence[Judge],
        embeddings: Sequence[Embedding],
        *,
        rules: ScoringRules,
        slots: Slots | None = None,
        store: Store | None = None,
    ) -> None:
        self.metrics = metrics
        self.rules = rules
        self.sessions = {judge.name: JudgeSession(judge, store) for judge in judges}
        self.embedder = JudgeSession(Embedder(embeddings))
        self._asked = [(metric, self._judges_of(metric)) for metric in metrics]
        self._batched = [number for number, metric in enumerate(metrics) if metric.definition.batch is not None]
        self._own: dict[Judge, JudgeSession] = {}
        self._all_sessions = [*self.sessions.values(), self.embedder]
        self._batches: dict[JudgeSession, list[Question[Any]]] = {}
        self._workers: Workers[_Finished] = Workers(slots or Slots(_CALLS))
        self._window = max(_BATCH, _SAMPLES_A_WORKER * self._workers.limit)
        self._finished: dict[int, Row] = {}
        self._active = 0

    def rows(self, samples: Iterable[Sample]) -> Iterator[Row]:
        """One ``Row`` per sample, in order, as soon as it and all before it are done."""
        prepared = self._prepared(enumerate(samples))
        following = 0
        try:
            while True:
                check_awaited()
                exhausted = self._admit(prepared)
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
        finally:
            self._workers.close()
            for session in (*self.sessions.values(), *self._own.values()):
                session.end()

    @property
    def stopped(self) -> JudgeError | None:
        """Why no judge answers any more (keys refused, budgets spent), or ``None`` while one does."""
        closed = [session.closed for session in self.sessions.values()]
        return closed[0] if closed and all(closed) else None

    @property
    def ahead(self) -> list[Row]:
        """The rows that are done and not yielded, as one before them is not done."""
        return [self._finished[index] for index in sorted(self._finished)]

    def _admit(self, prepared: Iterator[_Prepared]) -> bool:
        while self._active < self._window and len(self._finished) < 4 * self._window:
            following = next(prepared, None)
            if following is None:
                return True
            self._begin(*following)
            if not self._active:
                return False
        return False

    def _prepared(self, source: Iterator[tuple[int, Sample]]) -> Iterator[_Prepared]:
        """Each sample with its place in the data and, by the places of their metrics, what batch functions gave."""
        for following in _chunks(source, _CHUNK if self._batched else 1):
            samples = [sample for _, sample in following]
            together = [(number, _computed_together(self.metrics[number], samples)) for number in self._batched]
            for place, (index, sample) in enumerate(following):
                yield index, sample, {number: scores[place] for number, scores in together if place in scores}

    def _begin(self, index: int, sample: Sample, computed: Mapping[int, _Computed]) -> None:
        runs = [
            [Run(None, None, *computed[number])]
            if number in computed
            else [Run(start(metric, sample), judge) for judge in judges]
            for number, (metric, judges) in enumerate(self._asked)
        ]
        begun = [run for each in runs for run in each if not run.done]
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
        chosen = metric.settings.models
        picked = [name for name in self.sessions if chosen is None or name in chosen]
        return list(picked or self.sessions)

    def _advance(self, job: Job, run: Run) -> None:
        run.advance()
        while not run.done and not self._register(job, run):
            run.advance()
        if run.done:
            job.open_runs -= 1

    def _register(self, job: Job, run: Run) -> bool:
        """Note what the run asks; False when all of it is known already."""
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
                (job.pending if fresh else job.in_flight).setdefault(session.name, {})[question] = None
            elif fresh:  # in batches over many samples, so that none is grouped
                self._batches.setdefault(session, []).append(question)
        return waits

    def _session_for(self, run: Run, question: Question[Any]) -> JudgeSession:
        if isinstance(question, Embed):
            return self.embedder
        if question.answered_by is not None:
            return self._own_session(question.answered_by)
        return self.sessions[run.judge] if run.judge is not None else next(iter(self.sessions.values()))

    def _own_session(self, judge: Judge) -> JudgeSession:
        """That of a judge which a question brings with it."""
        if judge not in self._own:
            self._own[judge] = JudgeSession(judge)
            self._all_sessions.append(self._own[judge])
        return self._own[judge]

    def _dispatch(self, job: Job) -> None:
        for session in self._all_sessions if job.pending else ():
            pending = job.pending.pop(session.name, None)
            if not pending:
                continue
            in_flight = job.in_flight.setdefault(session.name, {})
            for call in session.calls(tuple(pending), tuple([q for q in in_flight if q not in pending])):
                for question in call:
                    del pending[question]
                    in_flight[question] = None
                # rows begun first end first
                self._workers.submit(partial(_ask, session, call), job.index, idle=session.is_closed)
            if pending:
                job.pending[session.name] = pending

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
                    job.in_flight[session.name].pop(question, None)
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


def _chunks(source: Iterator[tuple[int, Sample]], size: int) -> Iterator[list[tuple[int, Sample]]]:
    """Lists of so many samples, fewer where they come slowly; what reading them raises is raised after them."""
    failure: BaseException | None = None
    while failure is None:
        began = time.perf_counter()
        chunk: list[tuple[int, Sample]] = []
        try:
            while len(chunk) < size and time.perf_counter() - began < _PATIENCE:
                chunk.append(next(source))
        except StopIteration:
            if chunk:
                yield chunk
            return
        except BaseException as error:
            failure = error
        if chunk:
            yield chunk
    raise failure


def _computed_together(metric: Metric, samples: Sequence[Sample]) -> Mapping[int, _Computed]:
    """What the metric's batch function gives, by the places of their samples; each took as long."""
    began = time.perf_counter()
    found = metric.computed_together(samples)
    took = 1000.0 * (time.perf_counter() - began) / len(samples)
    return {place: (score, took) for place, score in found.items()}


def _ask(session: JudgeSession, call: Call) -> _Finished:
    return session, call, session.ask(call)
