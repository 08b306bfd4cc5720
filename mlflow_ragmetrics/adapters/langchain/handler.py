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
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict

from mlflow_ragmetrics.adapters.langchain.recorder import Capture, Exchange, Recorder
from mlflow_ragmetrics.adapters.langchain.sample import Known, Reading
from mlflow_ragmetrics.adapters.langchain.scoring import BackgroundQueue, Counts, Scored, Scorer, WhenFull
from mlflow_ragmetrics.adapters.langchain.untraced import untraced_suite
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.report.tables import row_without_texts
from mlflow_ragmetrics.suite import Suite, SuiteLike

if TYPE_CHECKING:
    from mlflow_ragmetrics.adapters.langchain.sink import MLflowSink

__all__ = ["RagMetricsCallback"]

_EXIT_SECONDS = 10.0
_logger = logging.getLogger(__name__)


class RagMetricsCallback(Recorder):
    """Scores each answer of a chain that has this handler among its ``callbacks``, without slowing the chain.

    Args:
        suite: the metrics: what ``Suite.of`` takes.
        input_key, output_key: the entry of dict inputs that is the question, of dict outputs that is the answer.
        question: a function of the inputs that gives the question; ``answer`` and ``contexts`` are functions of the
            outputs. A second parameter gets the other side.
            ``contexts`` may have two more: the lists of documents that retrievers gave, and those of tools and steps.
        tools: the names of the tools whose results are contexts, by default all.
        references, gold_doc_ids: a mapping by question or id, or a function of the question (and the id). What the
            call's ``metadata`` says (``reference``, ``gold_doc_ids``, ``id``, or an alias) comes first.
        sample_rate: the share of answers to score, 0 to 1.
        queue_size: answers that wait at most; ``when_full``: ``"drop"`` the newest, or ``"block"`` the chain
            (and with it, in async chains, the event loop).
        workers: scoring threads.
        sink: a function ``(sample, {key: Score})``, called once for each scored answer.
        log: write into MLflow; by default only where there is no ``sink``.
        run_id: the MLflow run to write into, else the one that is active at the call, else a new one.
        feedback: put the scores on the chain's own MLflow trace, where it is traced.
        texts: ``False`` writes scores, verdicts and ids only, as in ``Report.log``: nothing of what is asked, answered,
            retrieved or said about it goes to MLflow or to disk (what traces the chain itself, writes what it does).
        buffer_size: scored answers that wait for MLflow in memory; further ones wait on disk only, and are dropped only
            where that is full too.
        spill: the folder in which each scored answer is until MLflow has it, ``True`` for one among the temporary
            files, readable by its owner only, ``False`` for none; ``spill_bytes``: how much of it. What is there when a
            process ends, as by ``kill -9``, the next handler for the same store writes, and the run says how many
            answers were not scored yet and are lost.
        trace_judge: let the judge's own model calls be traced (a ``ChatJudge`` only if it was made with ``trace``).

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
        input_key: str | None = None,
        output_key: str | None = None,
        question: Callable[..., Any] | None = None,
        answer: Callable[..., Any] | None = None,
        contexts: Callable[..., Any] | None = None,
        references: Known | None = None,
        gold_doc_ids: Known | None = None,
        tools: Collection[str] | None = None,
        sample_rate: float = 1.0,
        queue_size: int = 1000,
        when_full: WhenFull = "drop",
        workers: int = 1,
        sink: Callable[[Sample, Mapping[str, Score]], Any] | None = None,
        log: bool | None = None,
        run_id: str | None = None,
        feedback: bool = True,
        texts: bool = True,
        buffer_size: int = 5000,
        spill: bool | str | os.PathLike[str] = True,
        spill_bytes: int = 256 * 2**20,
        trace_judge: bool = False,
    ) -> None:
        made_with = {name: each for name, each in locals().items() if name not in ("self", "suite", "__class__")}
        super().__init__()
        suite = Suite.of(suite)
        self._made_with = (suite, made_with)
        _check(sample_rate, when_full, queue_size=queue_size, workers=workers, buffer_size=buffer_size)
        reading = Reading(input_key, output_key, question, answer, contexts, references, gold_doc_ids, tools)
        self._sample_rate = sample_rate
        self._counts = Counts(("seen", "scored", "dropped", "failed", "skipped"))
        self._mlflow: MLflowSink | None = None
        takers: list[Callable[[Scored], None]] = []
        if sink is not None:
            takers.append(lambda scored: sink(scored.row.sample, scored.row.scores))
        if log or (log is None and sink is None):
            from mlflow_ragmetrics.adapters.langchain.sink import shared_sink
            from mlflow_ragmetrics.adapters.langchain.spill import SpillOptions

            where = SpillOptions.of(spill, spill_bytes)
            self._mlflow = shared_sink(
                suite.describe(),
                run_id=run_id,
                feedback=feedback,
                buffer_size=buffer_size,
                spill=where,
            )
            self._mlflow.use(self, self._counts)
            take = partial(self._mlflow.take, counts=self._counts)
            takers.append(take if texts else lambda scored: take(replace(scored, row=row_without_texts(scored.row))))
        self._scorer = Scorer(reading, suite if trace_judge else untraced_suite(suite), takers, self._counts)
        self._queue_options: _QueueOptions = {"size": queue_size, "when_full": when_full, "workers": workers}
        self._queue = self._new_queue()
        _HANDLERS.add(self)
        _flush_when_process_ends()

    def __reduce__(self) -> tuple[Callable[..., RagMetricsCallback], tuple[Suite, dict[str, Any]]]:
        """Another process gets a handler of its own, made with the same options: counts and what waits stay here."""
        return _made_anew, self._made_with

    def _new_queue(self) -> BackgroundQueue[Exchange]:
        # its threads hold the handler, so that one made for a single call lives until that call is scored
        return BackgroundQueue(self._score, busy=self.capture.is_open, **self._queue_options)

    def _score(self, exchanges: Sequence[Exchange]) -> None:
        self._scorer.work(exchanges)
        if self._mlflow is not None:
            for exchange in exchanges:
                self._mlflow.withdraw(exchange)

    def _after_fork(self) -> None:
        """Begin anew in a forked process: calls and counts so far are the parent's, and so are the locks."""
        self.capture = Capture()
        self._counts.reset()
        self._queue = self._new_queue()

    @property
    def counts(self) -> dict[str, int]:
        """Calls ``seen``; of these ``scored``, ``dropped`` (full queue), ``failed`` (the chain, or its scoring: a score
        in error) and ``skipped`` (not sampled, without an answer, as a stream that was left, or without any field that
        the metrics need). Answers that go to MLflow are ``written``, ``unwritten`` so far, or ``lost`` because too many
        waited; ``withheld`` counts those whose trace is not known.
        """
        return self._counts.snapshot()

    def answered(self, exchange: Exchange) -> None:
        """Queue the exchange, unless it is not to be scored."""
        self._counts.add("seen")
        if exchange.outputs is None or random.random() >= self._sample_rate:
            self._counts.add("skipped")
            return
        if self._mlflow is not None:
            self._mlflow.prepare(exchange)
        if not self._queue.put(exchange):
            self._counts.add("dropped")
            if self._mlflow is not None:
                self._mlflow.withdraw(exchange)

    def failed(self, exchange: Exchange) -> None:
        """Count the call of ``exchange``, which raised."""
        self._counts.add("seen")
        self._counts.add("failed")

    def flush(self, timeout: float = 30.0) -> bool:
        """Wait until every answer so far is scored and written, at most ``timeout`` seconds.

        False, with a warning, when that did not succeed.
        """
        deadline = time.monotonic() + timeout
        scored = self._queue.wait(timeout)
        if not scored:
            _logger.warning("answers are still being scored after %g seconds", timeout)
        written = self._mlflow is None or self._mlflow.flush(max(0.0, deadline - time.monotonic()), self._counts)
        return scored and written

    def close(self, timeout: float = 30.0) -> bool:
        """Flush for at most ``timeout`` seconds, then let the threads end; later answers are dropped."""
        done = self.flush(timeout)
        self._queue.close()
        if self._mlflow is not None:
            self._mlflow.release(self, self._counts)
        return done

    def __enter__(self) -> RagMetricsCallback:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _made_anew(suite: Suite, options: dict[str, Any]) -> RagMetricsCallback:
    return RagMetricsCallback(suite, **options)


_HANDLERS: weakref.WeakSet[RagMetricsCallback] = weakref.WeakSet()


@atexit.register
def _flush_all() -> None:
    """Give what is still under way a last chance when the process ends, within a bound."""
    deadline = time.monotonic() + _EXIT_SECONDS
    for handler in list(_HANDLERS):
        handler.close(max(0.0, deadline - time.monotonic()))
    sinks = sys.modules.get("mlflow_ragmetrics.adapters.langchain.sink")
    if sinks is not None:
        sinks.close_sinks(deadline)


_ends_noted_in: int | None = None


def _flush_when_process_ends() -> None:
    """The processes of ``multiprocessing`` do not call what ``atexit`` registers, but have finalizers of their own."""
    global _ends_noted_in
    if multiprocessing.parent_process() is not None and _ends_noted_in != os.getpid():
        _ends_noted_in = os.getpid()
        multiprocessing.util.Finalize(None, _flush_all, exitpriority=10)


def _after_fork() -> None:
    for handler in list(_HANDLERS):
        handler._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
multiprocessing.util.register_after_fork(_HANDLERS, lambda _: _flush_when_process_ends())


class _QueueOptions(TypedDict):
    size: int
    when_full: WhenFull
    workers: int


def _check(sample_rate: float, when_full: str, **numbers: int) -> None:
    if not 0 <= sample_rate <= 1:
        raise InvalidOptionError(f"sample_rate={sample_rate!r} must lie in 0 to 1", param="sample_rate")
    if when_full not in ("drop", "block"):
        raise InvalidOptionError(f"when_full={when_full!r} is not one of drop, block", param="when_full")
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidOptionError(f"{name}={value!r} must be a whole number from 1", param=name)
