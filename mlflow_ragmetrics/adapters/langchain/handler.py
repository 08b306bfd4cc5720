"""A callback that scores a running chain's answers in the background."""

from __future__ import annotations

import atexit
import logging
import multiprocessing.util
import os
import random
import re
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, TypeVar

from mlflow_ragmetrics.adapters.langchain.exchange import Exchange
from mlflow_ragmetrics.adapters.langchain.recorder import WHY, Reading, Recorder
from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.core.safe_text import for_log, redact
from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.engine.threads import after_fork, start_thread
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.judges.chat.client import untraced
from mlflow_ragmetrics.judges.lexical.lexical_judge import LexicalJudge
from mlflow_ragmetrics.results.tables import row_without_texts
from mlflow_ragmetrics.suite import Suite, SuiteLike
from mlflow_ragmetrics.tracking.live import Counts, MLflowSink, close_runs

QUEUE_SIZE = 1000
_EXIT_SECONDS = 10.0
_CALLS = ("seen", "scored", "dropped", "failed", "skipped")
_ANSWERS = ("written", "unwritten", "lost", "withheld")
T = TypeVar("T")
_TASKS_PER_BATCH = 16
_GATHER_SECONDS = 0.02
_LONGEST_YIELD = 0.1
_YIELD_STEP = 0.005
_logger = logging.getLogger(__name__)


class RagMetricsCallback(Recorder):
    """Scores each answer of a chain that has this handler among its ``callbacks``, without slowing the chain.

    Args:
        suite: the metrics, as ``Suite.of`` takes them.
        question: the entry of dict inputs with the question, or a function of the inputs.
        answer: the same for the answer in the outputs.
        contexts: a function from the outputs to the contexts, or the names of the tools that return them (default:
            all). Each of these functions may take a second argument: the outputs after the inputs, or the inputs
            after the outputs.
        sample_rate: the share of answers to score, 0 to 1.
        sink: a function ``(sample, {key: Score})``, called once for each scored answer.
        log: write to MLflow, to the current store and experiment (default: only without ``sink``).
        run_id: the MLflow run to write to, else the one active at the call, else a new one.
        texts: ``False`` writes only scores, verdicts and ids, as in ``Report.log``: no question, answer, context or
            reason reaches MLflow or the disk. A tracer of the chain itself still writes its own data.

    Id, reference and gold ids of a call come from its ``metadata``: ``chain.invoke(question, {"callbacks": [handler],
    "metadata": {"reference": "…", "gold_doc_ids": ["…"]}})``.

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
        sample_rate: float = 1.0,
        sink: Callable[[Sample, Mapping[str, Score]], Any] | None = None,
        log: bool | None = None,
        run_id: str | None = None,
        texts: bool = True,
    ) -> None:
        made_with = {name: value for name, value in locals().items() if name not in ("self", "suite", "__class__")}
        super().__init__()
        if not 0 <= sample_rate <= 1:
            raise InvalidOptionError(f"sample_rate={sample_rate!r} must be from 0 to 1", param="sample_rate")
        suite = Suite.of(suite)
        self._made_again = partial(RagMetricsCallback, suite, **made_with)
        self._reading = Reading(question, answer, contexts)
        self._scoring_suite = untraced_suite(suite)
        self._sample_rate = sample_rate
        self._sink = sink
        self._texts = texts
        logs = log or (log is None and sink is None)
        self._counts = Counts((*_CALLS, *(_ANSWERS if logs else ())))
        self._mlflow = MLflowSink(suite.describe(), run_id, self._counts) if logs else None
        self._warned_of: set[str] = set()
        self._begin()
        _HANDLERS.add(self)
        after_fork(self._begin)

    def __reduce__(self) -> tuple[Callable[..., RagMetricsCallback], tuple[()]]:
        """Pickle only the options: the other process gets a new handler without counts or waiting answers."""
        return self._made_again, ()

    def _begin(self) -> None:
        """Begin without calls, counts and locks: in a forked process, these belong to the parent."""
        self._forget()
        self._counts.reset()
        # the thread holds a reference, so that a handler made for one call lives until that call is scored
        self._queue = BackgroundQueue(self._score, busy=lambda: bool(self.open_runs))

    @property
    def counts(self) -> dict[str, int]:
        """The number of calls by outcome.

        Calls ``seen``, and of these ``scored``, ``dropped`` (the queue was full), ``failed`` (the chain or a score
        failed) and ``skipped`` (not sampled, no answer, as in an abandoned stream, or no field that the metrics need).
        Answers for MLflow: ``written``, ``unwritten`` so far, ``lost`` (the outbox could not store them), and
        ``withheld`` (feedback not written because the trace is unknown).
        """
        return self._counts.snapshot()

    def ended(self, exchange: Exchange, *, failed: bool = False) -> None:
        """Queue the exchange if it is to be scored, and count its call."""
        self._counts.add("seen")
        if not failed and (exchange.outputs is None or random.random() >= self._sample_rate):
            self._counts.add("skipped")
            return
        _flush_at_end_of(os.getpid())
        if self._mlflow is not None:
            exchange.live = self._mlflow.prepare()
        if failed:
            self._counts.add("failed", exchange.live, settled=True)
        elif not self._queue.put(exchange) and self._counts.add("dropped", exchange.live, settled=True) == 1:
            _logger.warning("too many answers are waiting to be scored: further answers are dropped and counted")

    def _score(self, exchanges: Sequence[Exchange]) -> None:
        """Score a batch of exchanges. Failures are counted, and logged once per kind, never raised."""
        read = [(exchange, sample) for exchange in exchanges if (sample := self._read(exchange)) is not None]
        samples = [sample for _, sample in read]
        rows = self._attempt("an answer could not be scored", lambda: list(self._scoring_suite.score_samples(samples)))
        if rows is not None:
            for (exchange, _), row in zip(read, rows, strict=True):
                self._hand_over(_with_way_out(row), exchange)
        elif len(read) == 1:
            self._counts.add("failed", read[0][0].live, settled=True)
        else:  # one with on_missing="raise" must not stop the others
            for exchange, _ in read:
                self._score([exchange])

    def _read(self, exchange: Exchange) -> Sample | None:
        sample = self._attempt("an answer could not be read", self._reading.sample, exchange)
        if sample is None:
            self._counts.add("failed", exchange.live, settled=True)
            return None
        if sample.answer is None and "answer" not in sample.invalid:
            self._counts.add("skipped", exchange.live, settled=True)
            unnamed = f"no answer was found in the chain's outputs ({kind_of(exchange.outputs)}); name it with answer="
            left = "a call that was interrupted, or whose stream was not read to the end, has no answer to score"
            self._warn_once(left if exchange.left else unnamed)
            return None
        if sample.question is None:
            kind = kind_of(exchange.inputs)
            self._warn_once(f"no question was found in the chain's inputs ({kind}); name it with question=")
        return sample

    def _hand_over(self, row: Row, exchange: Exchange) -> None:
        for key, score in row.scores.items():
            if score.status == "skipped":
                self._warn_once(f"{key} is skipped: {score.reason}", key)
            elif score.status == "error":
                self._warn_once(redact(f"{key} could not be scored: {score.error}"), _cause_of(score))
            for code, text in score.warnings:
                if code == "contexts_assumed":
                    self._warn_once(text)
        logged = self._attempt("MLflow failed", self._log, row, exchange)
        taken = self._attempt("a sink failed", self._call_sink, row)
        states = {score.status for score in row.scores.values()}
        outcome = "scored" if "ok" in states else "skipped"
        if not (logged and taken) or "error" in states:
            outcome = "failed"
        self._counts.add(outcome, None if outcome == "scored" else exchange.live)

    def _log(self, row: Row, exchange: Exchange) -> bool:
        if self._mlflow is not None:
            kept = row if self._texts else row_without_texts(row)
            self._mlflow.take(kept, exchange.live, exchange.trace_id, exchange.traceable)
        return True

    def _call_sink(self, row: Row) -> bool:
        if self._sink is not None:
            self._sink(row.sample, row.scores)
        return True

    def _attempt(self, failure: str, action: Callable[..., T], *arguments: Any) -> T | None:
        try:
            return action(*arguments)
        except Exception as error:  # application code may raise anything; the other exchanges continue
            self._warn_once(redact(f"{failure}: {type(error).__name__}: {error}"), failure + type(error).__name__)
            return None

    def _warn_once(self, message: str, subject: str | None = None) -> None:
        if (subject or message) not in self._warned_of:
            self._warned_of.add(subject or message)
            _logger.warning("%s", for_log(message))

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


class BackgroundQueue:
    """A bounded queue; a background thread passes its tasks to ``work`` in batches. ``work`` must not raise.

    It runs in an empty context, so that nothing of the application's (callbacks, open spans) reaches ``work``. It waits
    a moment for tasks to gather, and up to a tenth of a second while the application is ``busy``, unless the queue is
    half full or a caller waits.
    """

    def __init__(self, work: Callable[[Sequence[Exchange]], None], *, busy: Callable[[], bool]) -> None:
        self._work = work
        self._busy = busy
        self._waiters = 0
        self._tasks: deque[Exchange] = deque()
        self._changed = threading.Condition()
        self._is_working = False
        self._closed = False

    def put(self, task: Exchange) -> bool:
        """Queue a task; return False if the queue is full or closed."""
        with self._changed:
            if self._closed or len(self._tasks) >= QUEUE_SIZE:
                return False
            self._tasks.append(task)
            if not self._is_working:
                self._is_working = True
                start_thread(self._work_on_batch, name="ragmetrics-scoring")
            return True

    def wait(self, timeout: float) -> bool:
        """Wait until all tasks are done; return False after ``timeout`` seconds."""
        with self._changed:
            self._waiters += 1
            self._changed.wait_for(lambda: not self._is_working, timeout)
            self._waiters -= 1
            return not (self._is_working or self._tasks)

    def close(self) -> None:
        """Stop working; queued tasks are abandoned."""
        self._closed = True

    def _work_on_batch(self) -> None:
        self._let_pass(_GATHER_SECONDS, lambda: True)  # one batch costs the application less than several
        self._let_pass(_LONGEST_YIELD, self._busy)  # pure computation here would slow the chain down
        with self._changed:
            batch = [self._tasks.popleft() for _ in range(min(_TASKS_PER_BATCH, len(self._tasks)))]
        try:
            self._work(batch)
        finally:
            with self._changed:
                self._is_working = bool(self._tasks) and not self._closed
                if self._is_working:
                    start_thread(self._work_on_batch, name="ragmetrics-scoring")
                self._changed.notify_all()

    def _let_pass(self, seconds: float, wanted: Callable[[], bool]) -> None:
        until = time.monotonic() + seconds
        while wanted() and not self._waiters and 2 * len(self._tasks) < QUEUE_SIZE and time.monotonic() < until:
            time.sleep(_YIELD_STEP)


def _cause_of(score: Score) -> str:
    """Return the kind of failure without figures, which is the same for all rows with this cause."""
    text = next((code for code, _ in score.warnings if code.startswith("judge_")), score.error or "")
    return re.sub(r"\d+", "", text)[:100]


def _with_way_out(row: Row) -> Row:
    """Return the row; if contexts are missing, the reasons of skipped scores say why, and how to name them."""
    why = row.sample.metadata.get(WHY)
    if why is None:
        return row
    scores = dict(row.scores)
    for key, score in row.scores.items():
        if score.status == "skipped" and "'contexts'" in score.reason:
            scores[key] = replace(score, reason=f"{score.reason}; {why}: name them with contexts=")
    return replace(row, scores=scores)


def untraced_suite(suite: Suite) -> Suite:
    """Return the suite with untraced judges and embeddings; the rest is shared.

    The offline judge has no traceable calls and stays as it is.
    """
    judges = [judge if type(judge) is LexicalJudge else _Untraced(judge) for judge in suite.judges]
    embeddings = [_Untraced(embedding) for embedding in suite.embeddings]
    changed = suite.replace(judge=judges if suite.several else judges[0])
    return changed.replace(embeddings=embeddings) if embeddings else changed


class _Untraced:
    """A judge or an embedding model whose calls leave no trace."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._model, name)
        return untraced()(member) if name in ("answer", "embed") else member
