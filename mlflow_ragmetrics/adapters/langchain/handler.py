"""The callback that scores a running chain's answers in the background."""

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
        suite: the metrics: what ``Suite.of`` takes.
        question: the entry of dict inputs that is the question, or a function of the inputs that returns it.
        answer: the same for the outputs and the answer.
        contexts: a function of the outputs that returns the contexts, or the names of the tools whose results they are,
            by default all. A second parameter of any of these functions gets the other side. ``contexts`` may have two
            more: the lists of documents that retrievers gave, and those of tools and steps.
        references, gold_doc_ids: a mapping by question or id, or a function of the question (and the id). What the
            call's ``metadata`` says (``reference``, ``gold_doc_ids``, ``id``, or an alias) comes first.
        sample_rate: the share of answers to score, 0 to 1.
        sink: a function ``(sample, {key: Score})``, called once for each scored answer.
        log: write into MLflow, into the store and experiment that are set now; by default only without ``sink``.
        run_id: the MLflow run to write into, else the one that is active at the call, else a new one.
        texts: ``False`` writes scores, verdicts and ids only, as in ``Report.log``: nothing of what is asked, answered,
            retrieved or said about it goes to MLflow or to disk (what traces the chain itself, writes what it does).

    The scores are also put on the chain's own MLflow trace, if it is traced. An answer waits for MLflow in the outbox,
    an SQLite file in the user's data folder or in ``RAGMETRICS_OUTBOX``. When a process is killed, the next one with
    the same store, experiment and suite writes its answers into their run, and the run says how many were lost.

    One handler may serve many calls of many chains at once; handlers of one suite, made in each call, share one run,
    as do the processes that are forked from one. ``counts`` says what became of the calls. A full queue, a failing
    judge or a dead MLflow server never reaches the chain.

    Raises:
        InvalidOptionError: for an option that cannot be used.
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
            raise InvalidOptionError(f"sample_rate={sample_rate!r} must lie in 0 to 1", param="sample_rate")
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
        """Another process gets a handler of its own, made with the same options: counts and what waits stay here."""
        return self._made_again, ()

    def _new_queue(self) -> BackgroundQueue[Exchange]:
        # its thread holds the handler, so that one made for a single call lives until that call is scored
        return BackgroundQueue(self._score, busy=lambda: len(self.capture) > 0, size=QUEUE_SIZE)

    def _score(self, exchanges: Sequence[Exchange]) -> None:
        self._scorer.work(exchanges)
        if self._mlflow is not None:
            self._mlflow.settle()

    def _begin_in_child(self) -> None:
        """Calls and counts so far, and the locks, are the parent's."""
        self.capture = Capture()
        self._counts.reset()
        self._queue = self._new_queue()

    @property
    def counts(self) -> dict[str, int]:
        """Calls ``seen``; of these ``scored``, ``dropped`` (full queue), ``failed`` (the chain, or its scoring: a score
        in error) and ``skipped`` (not sampled, without an answer, as a stream that was left, or without any field that
        the metrics need). Answers that go to MLflow are ``written``, ``unwritten`` so far, or ``lost`` because the
        outbox could not keep them; ``withheld`` counts those whose trace is not known.
        """
        return self._counts.snapshot()

    def answered(self, exchange: Exchange) -> None:
        """Queue the exchange, unless it is not to be scored."""
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
            _logger.warning("answers are dropped from now on (they are counted): too many wait to be scored")
        if exchange.live is not None:
            exchange.live.count(name, settled=True)

    def flush(self, timeout: float = 30.0) -> bool:
        """Wait until every answer so far is scored and written, at most ``timeout`` seconds.

        False, with a warning, when that did not succeed.
        """
        deadline = time.monotonic() + timeout
        scored = self._queue.wait(timeout)
        if not scored:
            _logger.warning("answers are still being scored after %g seconds", timeout)
        written = self._mlflow is None or self._mlflow.flush(max(0.0, deadline - time.monotonic()))
        return scored and written

    def close(self, timeout: float = 30.0) -> bool:
        """Flush for at most ``timeout`` seconds, then let the threads end; later answers are dropped."""
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
    """Give what is still under way a last chance when the process ends, within a bound."""
    deadline = time.monotonic() + _EXIT_SECONDS
    for handler in list(_HANDLERS):
        handler.close(max(0.0, deadline - time.monotonic()))
    live = sys.modules.get("mlflow_ragmetrics.tracking.live")
    if live is not None:
        live.close_runs(deadline)


_ends_noted_in: int | None = None


def _flush_when_process_ends() -> None:
    """The processes of ``multiprocessing`` do not call what ``atexit`` registers, but have finalizers of their own."""
    global _ends_noted_in
    if _ends_noted_in != os.getpid():
        _ends_noted_in = os.getpid()
        if multiprocessing.parent_process() is not None:
            multiprocessing.util.Finalize(None, _flush_all, exitpriority=10)
