"""Scores exchanges: the queue of the scoring thread, its work and its counts, and judges that are not traced."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from mlflow_ragmetrics.adapters.langchain.recorder import Exchange
from mlflow_ragmetrics.adapters.langchain.sample import WHY, Reading
from mlflow_ragmetrics.core.judge import AdaptedJudge
from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.core.safe_text import for_log, redact
from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.embeddings import AdaptedEmbedding
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.engine.threads import start_thread
from mlflow_ragmetrics.judges.chat.capabilities import untraced
from mlflow_ragmetrics.judges.lexical.lexical_judge import LexicalJudge
from mlflow_ragmetrics.suite import Suite
from mlflow_ragmetrics.tracking.live import LiveRun

T = TypeVar("T")
Taker = Callable[[Row, Exchange], None]
_TASKS_PER_BATCH = 16
_GATHER_SECONDS = 0.02
_LONGEST_YIELD = 0.1
_YIELD_STEP = 0.005
_logger = logging.getLogger(__name__)


class Counts:
    """Counts of calls by outcome, in the order of ``names``; safe to use from many threads."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self.reset()

    def add(self, name: str, live: LiveRun | None = None, *, change: int = 1, settled: bool = False) -> int:
        """Change the count of ``name`` and return the new value; ``live`` counts it too, as in ``LiveRun.count``."""
        if live is not None:
            live.count(name, settled=settled)
        with self._lock:
            self._counts[name] += change
            return self._counts[name]

    def reset(self) -> None:
        """Set all counts to 0, as in a forked process, where they belong to the parent."""
        self._lock = threading.Lock()
        self._counts = Counter(dict.fromkeys(self._names, 0))

    def snapshot(self) -> dict[str, int]:
        """Return the current counts."""
        with self._lock:
            return dict(self._counts)


class BackgroundQueue(Generic[T]):
    """A bounded queue; a thread of the pool passes its tasks to ``work`` in batches. ``work`` must not raise.

    It runs in an empty context, so that nothing of the application's (callbacks, open spans) reaches ``work``. It waits
    a moment for tasks to gather, and up to a tenth of a second while the application is ``busy``, unless the queue is
    half full or a caller waits.
    """

    def __init__(self, work: Callable[[Sequence[T]], None], *, busy: Callable[[], bool], size: int) -> None:
        self._work = work
        self._busy = busy
        self._size = size
        self._waiters = 0
        self._tasks: deque[T] = deque()
        self._changed = threading.Condition()
        self._is_working = False
        self._closed = False

    def put(self, task: T) -> bool:
        """Queue a task; return False if the queue is full or closed."""
        with self._changed:
            if self._closed or len(self._tasks) >= self._size:
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
        while wanted() and not self._waiters and 2 * len(self._tasks) < self._size and time.monotonic() < until:
            time.sleep(_YIELD_STEP)


class Scorer:
    """Reads and scores exchanges and passes them to each of ``takers``.

    Failures are counted and logged once per kind, never raised.
    """

    def __init__(self, reading: Reading, suite: Suite, takers: Sequence[Taker], counts: Counts) -> None:
        self._reading = reading
        self._suite = suite
        self._takers = takers
        self._counts = counts
        self._warned_of: set[str] = set()

    def work(self, exchanges: Sequence[Exchange]) -> None:
        """Score a batch of exchanges."""
        read = [(exchange, sample) for exchange in exchanges if (sample := self._read(exchange)) is not None]
        samples = [sample for _, sample in read]
        rows = self._attempt("an answer could not be scored", lambda: list(self._suite.score_samples(samples)))
        if rows is not None:
            for (exchange, _), row in zip(read, rows, strict=True):
                self._hand_over(_with_way_out(row), exchange)
        elif len(read) == 1:
            self._counts.add("failed", read[0][0].live, settled=True)
        else:  # one with on_missing="raise" must not stop the others
            for exchange, _ in read:
                self.work([exchange])

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
        taken = [self._attempt("a sink failed", _taken, take, row, exchange) for take in self._takers]
        outcome = _outcome(row) if all(taken) else "failed"
        self._counts.add(outcome, None if outcome == "scored" else exchange.live)

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


def _cause_of(score: Score) -> str:
    """Return the kind of failure without figures, which is the same for all rows with this cause."""
    text = next((code for code, _ in score.warnings if code.startswith("judge_")), score.error or "")
    return re.sub(r"\d+", "", text)[:100]


def _outcome(row: Row) -> str:
    """Return the outcome of an answer: ``failed`` if a score is in error, ``skipped`` if all are skipped."""
    states = {score.status for score in row.scores.values()}
    if "error" in states:
        return "failed"
    return "scored" if "ok" in states else "skipped"


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


def _taken(take: Taker, row: Row, exchange: Exchange) -> bool:
    take(row, exchange)
    return True


def untraced_suite(suite: Suite) -> Suite:
    """Return the suite with untraced judges and embeddings; the rest is shared.

    The offline judge has no traceable calls and stays as it is.
    """
    judges = [judge if type(judge) is LexicalJudge else _UntracedJudge(judge) for judge in suite.judges]
    embeddings = [_UntracedEmbedding(embedding) for embedding in suite.embeddings]
    changed = suite.replace(judge=judges if suite.several else judges[0])
    return changed.replace(embeddings=embeddings) if embeddings else changed


class _UntracedJudge(AdaptedJudge):
    @untraced()
    def answer(self, questions: Sequence[Any]) -> Sequence[Any]:
        return super().answer(questions)


class _UntracedEmbedding(AdaptedEmbedding):
    @untraced()
    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return super().embed(texts)
