"""A callback that scores a running chain's answers in the background."""

from __future__ import annotations

import atexit
import logging
import multiprocessing.util
import os
import random
import sys
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.adapters.langchain.recorder import Capture, Exchange, Recorder
from mlflow_ragmetrics.adapters.langchain.sample import Known, Reading
from mlflow_ragmetrics.adapters.langchain.scoring import BackgroundQueue, Counts, Scorer, Taker
from mlflow_ragmetrics.adapters.langchain.untraced import untraced_suite
from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.engine.threads import after_fork
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.rows.tables import row_without_texts
from mlflow_ragmetrics.suite import Suite, SuiteLike

if TYPE_CHECKING:
    from mlflow_ragmetrics.adapters.langchain.sink import MLflowSink

QUEUE_SIZE = 1000
_EXIT_SECONDS = 10.0
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
        self._counts = Counts(("seen", "scored", "dropped", "failed", "skipped"))
        self._mlflow: MLflowSink | None = None
        takers: list[Taker] = []
        if sink is not None:
            takers.append(lambda row, _: sink(row.sample, row.scores))
        if log or (log is None and sink is None):
            from mlflow_ragmetrics.adapters.langchain.sink import MLflowSink

            self._mlflow = MLflowSink(suite.describe(), run_id, self._counts)
            take = self._mlflow.take
            takers.append(take if texts else lambda row, exchange: take(row_without_texts(row), exchange))
        self._scorer = Scorer(reading, untraced_suite(suite), takers, self._counts)
        self._queue = self._new_queue()
        _HANDLERS.add(self)
        after_fork(self._begin_in_child)

    def __reduce__(self) -> tuple[Callable[..., RagMetricsCallback], tuple[()]]:
        """Pickle only the options: the other process gets a new handler without counts or waiting answers."""
        return self._made_again, ()

    def _new_queue(self) -> BackgroundQueue[Exchange]:
        # the thread holds a reference, so that a handler made for one call lives until that call is scored
        return BackgroundQueue(self._score, busy=lambda: len(self.capture) > 0, size=QUEUE_SIZE)

    def _score(self, exchanges: Sequence[Exchange]) -> None:
        self._scorer.work(exchanges)
        if self._mlflow is not None:
            self._mlflow.settle()

    def _begin_in_child(self) -> None:
        """Reset calls, counts and locks, which belong to the parent process."""
        self.capture = Capture()
        self._counts.reset()
        self._queue = self._new_queue()

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
        _flush_when_process_ends()
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
        if self._counts.add(name) == 1 and name == "dropped":
            _logger.warning("too many answers are waiting to be scored: further answers are dropped and counted")
        if exchange.live is not None:
            exchange.live.count(name, settled=True)

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
    live = sys.modules.get("mlflow_ragmetrics.tracking.live")
    if live is not None:
        live.close_runs(deadline)


_ends_noted_in: int | None = None


def _flush_when_process_ends() -> None:
    """Register a finalizer in processes of ``multiprocessing``, which do not run ``atexit`` functions."""
    global _ends_noted_in
    if _ends_noted_in != os.getpid():
        _ends_noted_in = os.getpid()
        if multiprocessing.parent_process() is not None:
            multiprocessing.util.Finalize(None, _flush_all, exitpriority=10)
