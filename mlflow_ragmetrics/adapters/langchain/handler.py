"""A callback that scores a running chain's answers in the background."""

from __future__ import annotations

import atexit
import logging
import multiprocessing.util
import os
import random
import sqlite3
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from mlflow_ragmetrics.adapters.langchain.recorder import Capture, Exchange, Recorder
from mlflow_ragmetrics.adapters.langchain.sample import Known, Reading
from mlflow_ragmetrics.adapters.langchain.scoring import BackgroundQueue, Counts, Scorer, Taker, untraced_suite
from mlflow_ragmetrics.core.safe_text import for_log
from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.engine.program import Row, is_judged, judge_failure
from mlflow_ragmetrics.engine.threads import after_fork
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.report.marks import diagnoses_of, diagnosis_columns
from mlflow_ragmetrics.rows.tables import has_diagnoses, items_frame, row_without_texts, rows_frame
from mlflow_ragmetrics.suite import Suite, SuiteLike
from mlflow_ragmetrics.text.messages import say
from mlflow_ragmetrics.tracking.home import Home, home_of
from mlflow_ragmetrics.tracking.live import LiveRun, adopt_runs, close_runs, live_run
from mlflow_ragmetrics.tracking.live_writer import Service, packed
from mlflow_ragmetrics.tracking.outbox import open_outbox

if TYPE_CHECKING:
    import pandas as pd

QUEUE_SIZE = 1000
_EXIT_SECONDS = 10.0
_MOST_WAITING = 50_000
_CALLS = ("seen", "scored", "dropped", "failed", "skipped")
_ANSWERS = ("written", "unwritten", "lost", "withheld")
T = TypeVar("T")
_NAMES: dict[Home, str] = {}
_logger = logging.getLogger(__name__)


class RagMetricsCallback(Recorder):
    """Scores each answer of a chain that has this handler among its ``callbacks``, without slowing the chain.

    Args:
        suite: the metrics, as ``Suite.of`` takes them.
        question: the entry of dict inputs with the question, or a function of the inputs.
        answer: the same for the answer in the outputs.
        contexts: a function from the outputs to the contexts, or the names of the tools that return them (default:
            all). Each of these functions may take a second argument: the outputs after the inputs, or the inputs after
            the outputs. ``contexts`` may take two more: the lists of documents from retrievers, and those from tools
            and steps.
        references, gold_doc_ids: a mapping by question or id, or a function of the question (and the id). Values in the
            call's ``metadata`` (``reference``, ``gold_doc_ids``, ``id``, or an alias) come first.
        sample_rate: the share of answers to score, 0 to 1.
        sink: a function ``(sample, {key: Score})``, called once for each scored answer.
        log: write to MLflow, to the current store and experiment (default: only without ``sink``).
        run_id: the MLflow run to write to, else the one active at the call, else a new one.
        texts: ``False`` writes only scores, verdicts and ids, as in ``Report.log``: no question, answer, context or
            reason reaches MLflow or the disk. A tracer of the chain itself still writes its own data.

    If the chain is traced, the scores also go onto its MLflow trace. Answers wait for MLflow in the outbox, an SQLite
    file in the user's data folder or at ``RAGMETRICS_OUTBOX``. If a process is killed, the next one with the same
    store, experiment and suite writes its answers to their run, and the run records how many were lost.

    One handler can serve many calls of many chains at once. Handlers of one suite share a run, even if you make one per
    call, and so do forked processes. ``counts`` reports the outcome of the calls. A full queue, a failing judge or an
    unreachable MLflow server never affects the chain.

    Raises:
        InvalidOptionError: if an option cannot be used.
    """

    def __init__(
        self,
        suite: SuiteLike,
        *,
        question: str | Callable[..., Any] | None = None,
        answer: str | Callable[..., Any] | None = None,
        contexts: Callable[..., Any] | Collection[str] | None = None,
        references: Known | None = None,
        gold_doc_ids: Known | None = None,
        sample_rate: float = 1.0,
        sink: Callable[[Sample, Mapping[str, Score]], Any] | None = None,
        log: bool | None = None,
        run_id: str | None = None,
        texts: bool = True,
    ) -> None:
        made_with = {name: each for name, each in locals().items() if name not in ("self", "suite", "__class__")}
        super().__init__()
        if not 0 <= sample_rate <= 1:
            raise InvalidOptionError(f"sample_rate={sample_rate!r} must be from 0 to 1", param="sample_rate")
        suite = Suite.of(suite)
        self._made_again = partial(RagMetricsCallback, suite, **made_with)
        reading = Reading(question, answer, contexts, references, gold_doc_ids)
        self._sample_rate = sample_rate
        logs = log or (log is None and sink is None)
        self._counts = Counts((*_CALLS, *(_ANSWERS if logs else ())))
        self._mlflow: MLflowSink | None = None
        takers: list[Taker] = []
        if sink is not None:
            takers.append(lambda row, _: sink(row.sample, row.scores))
        if logs:
            self._mlflow = MLflowSink(suite.describe(), run_id, self._counts)
            take = self._mlflow.take
            takers.append(take if texts else lambda row, exchange: take(row_without_texts(row), exchange))
        self._scorer = Scorer(reading, untraced_suite(suite), takers, self._counts)
        self._begin()
        _HANDLERS.add(self)
        after_fork(self._begin)

    def __reduce__(self) -> tuple[Callable[..., RagMetricsCallback], tuple[()]]:
        """Pickle only the options: the other process gets a new handler without counts or waiting answers."""
        return self._made_again, ()

    def _begin(self) -> None:
        """Begin without calls, counts and locks: in a forked process, these belong to the parent."""
        self.capture = Capture()
        self._counts.reset()
        # the thread holds a reference, so that a handler made for one call lives until that call is scored
        self._queue = BackgroundQueue(self._score, busy=lambda: len(self.capture) > 0, size=QUEUE_SIZE)

    def _score(self, exchanges: Sequence[Exchange]) -> None:
        self._scorer.work(exchanges)
        if self._mlflow is not None:
            self._mlflow.settle()

    @property
    def counts(self) -> dict[str, int]:
        """The number of calls by outcome.

        Calls ``seen``, and of these ``scored``, ``dropped`` (the queue was full), ``failed`` (the chain or a score
        failed) and ``skipped`` (not sampled, no answer, as in an abandoned stream, or no field that the metrics need).
        Answers for MLflow: ``written``, ``unwritten`` so far, ``lost`` (the outbox could not store them), and
        ``withheld`` (feedback not written because the trace is unknown).
        """
        return self._counts.snapshot()

    def answered(self, exchange: Exchange) -> None:
        """Queue the exchange if it is to be scored."""
        self._counts.add("seen")
        if exchange.outputs is None or random.random() >= self._sample_rate:
            self._counts.add("skipped")
            return
        _flush_at_end_of(os.getpid())
        if self._mlflow is not None:
            self._mlflow.prepare(exchange)
        if not self._queue.put(exchange):
            self._lose(exchange, "dropped")

    def failed(self, exchange: Exchange) -> None:
        """Count the call of ``exchange``, which raised."""
        self._counts.add("seen")
        if self._mlflow is not None:
            self._mlflow.prepare(exchange)
        self._lose(exchange, "failed")

    def _lose(self, exchange: Exchange, name: str) -> None:
        if self._counts.add(name, exchange.live, settled=True) == 1 and name == "dropped":
            _logger.warning("too many answers are waiting to be scored: further answers are dropped and counted")

    def flush(self, timeout: float = 30.0) -> bool:
        """Wait at most ``timeout`` seconds until all answers so far are scored and written.

        Returns False, with a warning, if this fails.
        """
        deadline = time.monotonic() + timeout
        scored = self._queue.wait(timeout)
        if not scored:
            _logger.warning("answers are still being scored after %g seconds", timeout)
        written = self._mlflow is None or self._mlflow.flush(max(0.0, deadline - time.monotonic()))
        return scored and written

    def close(self, timeout: float = 30.0) -> bool:
        """Flush for at most ``timeout`` seconds, then stop the threads; later answers are dropped."""
        done = self.flush(timeout)
        self._queue.close()
        if self._mlflow is not None:
            self._mlflow.close()
        return done

    def __enter__(self) -> RagMetricsCallback:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


_HANDLERS: weakref.WeakSet[RagMetricsCallback] = weakref.WeakSet()


@atexit.register
def _flush_all() -> None:
    """Flush all handlers when the process ends, within a time limit."""
    deadline = time.monotonic() + _EXIT_SECONDS
    for handler in list(_HANDLERS):
        handler.close(max(0.0, deadline - time.monotonic()))
    close_runs(deadline)


@lru_cache
def _flush_at_end_of(process: int) -> None:
    """Register a finalizer in a process of ``multiprocessing``, which does not run ``atexit`` functions."""
    if multiprocessing.parent_process() is not None:
        multiprocessing.util.Finalize(None, _flush_all, exitpriority=10)


class MLflowSink:
    """Writes to the run ``run_id``, else the one active at the call, else the last active one, else a new run.

    A run is active in one thread only. Calls in a server's other threads belong to the run in which the handler was
    made, or the last one it saw. Handlers of one process that need a new run in the same place share it.

    ``counts`` belongs to the handler: answers ``written``, ``unwritten`` so far, ``lost`` because the outbox could not
    store them, and ``withheld`` because their trace is unknown.
    """

    def __init__(self, description: Mapping[str, object], run_id: str | None, counts: Counts) -> None:
        self._counts = counts
        self._home = home_of(description)
        tables = partial(_tables, language=str(description.get("language", "en")))
        self._service = Service(open_outbox(), self._home, description, tables)
        self._named_run = run_id
        self._last_active_run = self._active_run()
        self._name = _NAMES.setdefault(self._home, uuid4().hex)
        self._lives: dict[str, LiveRun] = {}
        self._adopted: list[LiveRun] = []
        self._is_closed = self._has_failed = False
        self._adopt()

    def _adopt(self) -> None:
        self._adopted += self._tried(partial(adopt_runs, self._service)) or []

    def _tried(self, action: Callable[[], T]) -> T | None:
        """Return the result of an action on the outbox; ``None``, with a log line, if it fails."""
        try:
            return action()
        except (OSError, sqlite3.Error) as error:  # SQLite itself waits for a locked file
            if not self._has_failed:
                message = "the outbox cannot be written; answers are lost and counted from now on: %s"
                _logger.warning(message, for_log(str(error)))
            self._has_failed = True
            return None

    def _active_run(self) -> str | None:
        import mlflow

        active = mlflow.active_run()
        is_elsewhere = mlflow.get_tracking_uri() != self._home.uri
        return None if active is None or is_elsewhere else str(active.info.run_id)

    def prepare(self, exchange: Exchange) -> None:
        """Assign a call to the run active in the chain's thread; call this there, when the chain ends."""
        self._last_active_run = self._active_run() or self._last_active_run
        run_id = self._named_run or self._last_active_run
        name = run_id or self._name
        if name not in self._lives:
            live = self._tried(partial(live_run, self._service, name, run_id, self))
            if live is None:
                return
            self._lives[name] = live
        exchange.live = self._lives[name]
        exchange.live.accept()

    def take(self, row: Row, exchange: Exchange) -> None:
        """Store a scored answer until it is written, without waiting for MLflow."""
        live: LiveRun | None = exchange.live
        if live is None:
            self._counts.add("lost")
            return
        if not exchange.traceable:
            self._counts.add("withheld", live)
        if is_judged(row):
            live.count("judged")
        elif failure := judge_failure(row):
            live.count("silent")
            live.silence = say("marks.silent", error=failure)
        self._counts.add("unwritten")
        is_kept = None
        if not live.closed and self._counts.snapshot()["unwritten"] <= _MOST_WAITING:
            append = partial(live.append, packed(row, exchange.trace_id), partial(self._note_done, live))
            is_kept = self._tried(append)
        if is_kept is None:
            self._counts.add("unwritten", change=-1)
            self._counts.add("lost", live, settled=True)

    def _note_done(self, live: LiveRun, outcome: int) -> None:
        self._counts.add("unwritten", change=-1)
        self._counts.add("lost" if outcome == 2 else "written")
        if outcome == 1:
            self._counts.add("withheld", live)

    def settle(self) -> None:
        """Store the counts of a batch of calls."""
        for live in list(self._lives.values()):
            live.settle()

    def flush(self, timeout: float) -> bool:
        """Write all waiting answers; False, with a warning and their number, if MLflow did not accept them."""
        deadline = time.monotonic() + timeout
        if self._is_closed:
            return not self._counts.snapshot()["unwritten"]
        self._adopt()
        lives = [*self._lives.values(), *self._adopted]
        for live in lives:
            live.hurry()
        for live in lives:
            live.wait(deadline)
            live.hurry(-1)
        self._adopted = [live for live in self._adopted if not live.closed]
        said = self._counts.snapshot()
        if said["unwritten"] or said["lost"]:
            reasons = [live.failure for live in self._lives.values() if live.failure]
            why = for_log(reasons[0] if reasons else "there was not enough time")
            message = "scored answers not yet written to MLflow: %d, lost: %d (%s)"
            _logger.warning(message, said["unwritten"], said["lost"], why)
        if said["withheld"]:
            _logger.warning("answers whose feedback was withheld because their trace is unknown: %d", said["withheld"])
        return not said["unwritten"]

    def close(self) -> None:
        """Stop writing; leave each run that no other handler uses."""
        self._is_closed = True
        for live in self._lives.values():
            live.users.discard(self)
            live.leave()
            if live.closed and _NAMES.get(self._home) == live.name:
                del _NAMES[self._home]


def _tables(rows: Sequence[Row], language: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    told = has_diagnoses(key for row in rows for key in row.scores)
    causes = diagnosis_columns(diagnoses_of([row.scores for row in rows], language)) if told else None
    return rows_frame(rows, causes), items_frame(rows)
