"""Drives every program of every sample against the judges: each question once, concurrently, failures kept apart.

The scheduler runs in the caller's thread. Judges that compute in this process are asked there, in large batches;
remote ones in a bounded crew of threads, one call each. A sample goes on as soon as its own answers are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

from mlflow_ragmetrics.core.judge import Call, Embedding, Judge, calls_of
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.question import Embed, Outcome, Question
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.engine.program import Job, Row, Run
from mlflow_ragmetrics.engine.questions import Desk, Embedder, Store
from mlflow_ragmetrics.engine.rules import Ruling
from mlflow_ragmetrics.engine.threads import Slots, Workers
from mlflow_ragmetrics.errors import JudgeError

__all__ = ["Engine"]

_BATCH = 128
_CALLS = 8
_SAMPLES_A_WORKER = 4
_Finished = tuple[Desk, Call, list[Outcome]]


class Engine:
    """Scores samples with metrics, asking ``judges`` and ``embeddings``.

    ``slots`` bounds the calls in flight over all remote judges, and over all engines that share them. ``ruling``
    turns the runs of one metric into its final score. One engine serves one evaluation, in one thread.
    """

    def __init__(
        self,
        metrics: Sequence[Metric],
        judges: Sequence[Judge],
        embeddings: Sequence[Embedding],
        *,
        ruling: Ruling,
        slots: Slots | None = None,
        store: Store | None = None,
    ) -> None:
        self.metrics = metrics
        self.ruling = ruling
        self.desks = {judge.name: Desk(judge, store) for judge in judges}
        self.embedder = Desk(Embedder(embeddings))
        self._asked = [(metric, self._judges_of(metric)) for metric in metrics]
        self._all_desks = [*self.desks.values(), self.embedder]
        self._batches: dict[str, list[tuple[Call, Desk]]] = {}
        self._workers: Workers[_Finished] = Workers(slots or Slots(_CALLS))
        self._window = max(_BATCH, _SAMPLES_A_WORKER * self._workers.limit)
        self._finished: dict[int, Row] = {}
        self._active = 0

    def rows(self, samples: Iterable[Sample]) -> Iterator[Row]:
        """One ``Row`` a sample, in order, as soon as it and all before it are done."""
        source = enumerate(samples)
        following = 0
        try:
            while True:
                exhausted = self._admit(source)
                while following in self._finished:
                    yield self._finished.pop(following)
                    following += 1
                if self._batches:
                    self._ask_local()
                elif self._workers.in_flight:
                    for desk, call, outcomes in self._workers.finished():
                        self._deliver(desk, call, outcomes)
                elif exhausted and not self._finished:
                    return
        finally:
            self._workers.close()

    @property
    def cached(self) -> int:
        """How many answers came out of the store."""
        return sum(desk.cached for desk in self.desks.values())

    @property
    def stopped(self) -> JudgeError | None:
        """Why no judge answers any more (keys refused, budgets spent), or ``None`` while one does."""
        closed = [desk.closed for desk in self.desks.values()]
        return closed[0] if closed and all(closed) else None

    def _admit(self, source: Iterator[tuple[int, Sample]]) -> bool:
        while self._active < self._window and len(self._finished) < 4 * self._window:
            following = next(source, None)
            if following is None:
                return True
            self._begin(*following)
            if not self._active and self._finished:
                return False
        return False

    def _begin(self, index: int, sample: Sample) -> None:
        runs = [[Run(metric, sample, judge) for judge in judges] for metric, judges in self._asked]
        job = Job(index, sample, runs, open_runs=sum(map(len, runs)))
        self._active += 1
        for run in chain.from_iterable(runs):
            self._advance(job, run)
        if not job.open_runs:
            self._close(job)
        else:
            self._dispatch(job)

    def _judges_of(self, metric: Metric) -> list[str | None]:
        if "judge" not in metric.definition.asks:
            return [None]
        chosen = metric.settings.models
        picked = [name for name in self.desks if chosen is None or name in chosen]
        return list(picked or self.desks)

    def _advance(self, job: Job, run: Run) -> None:
        run.advance()
        while not run.done and not self._register(job, run):
            run.advance()
        if run.done:
            job.open_runs -= 1

    def _register(self, job: Job, run: Run) -> bool:
        """Note what the run asks; False when all of it is known already."""
        waits = False
        for question in run.wanted:
            desk = self._desk_for(run, question)
            known = desk.known(question)
            if known is not None:
                run.fill(question, known[0])
                continue
            waits = True
            waiting = desk.waiting.setdefault(question, [])
            fresh = not waiting
            waiting.append((job, run))
            (job.pending if fresh else job.in_flight).setdefault(desk.name, {}).setdefault(question)
        return waits

    def _desk_for(self, run: Run, question: Question) -> Desk:
        if isinstance(question, Embed):
            return self.embedder
        return self.desks[run.judge] if run.judge is not None else next(iter(self.desks.values()))

    def _dispatch(self, job: Job) -> None:
        for desk in self._all_desks:
            pending = job.pending.get(desk.name)
            if not pending:
                continue
            in_flight = job.in_flight.setdefault(desk.name, {})
            for call in calls_of(desk.judge, tuple(pending), tuple(q for q in in_flight if q not in pending)):
                for question in call:
                    pending.pop(question)
                    in_flight[question] = None
                self._send(desk, call, job.index)

    def _send(self, desk: Desk, call: Call, index: int) -> None:
        if desk.local:
            self._batches.setdefault(desk.name, []).append((call, desk))
        else:
            self._workers.submit(partial(_ask, desk, call), priority=index)  # rows begun first end first

    def _ask_local(self) -> None:
        for batch in [self._batches.pop(name) for name in list(self._batches)]:
            desk = batch[0][1]
            questions = tuple(question for call, _ in batch for question in call)
            self._deliver(desk, questions, desk.ask(questions))

    def _deliver(self, desk: Desk, call: Call, outcomes: Sequence[Outcome]) -> None:
        touched: dict[Job, None] = {}
        for question, outcome in zip(call, outcomes, strict=True):
            for job, run in desk.settle(question, outcome):
                job.in_flight.get(desk.name, {}).pop(question, None)
                touched[job] = None
                if run.fill(question, outcome):
                    self._advance(job, run)
        for job in touched:
            if job.open_runs:
                self._dispatch(job)
            else:
                self._close(job)

    def _close(self, job: Job) -> None:
        self._active -= 1
        self._finished[job.index] = Row(job.sample, self.ruling.scores(job), job.index)


def _ask(desk: Desk, call: Call) -> _Finished:
    return desk, call, desk.ask(call)
