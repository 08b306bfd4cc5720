"""From an exchange to its scores: the queue of the scoring threads, what they do, and what is counted on the way."""

from __future__ import annotations

import logging
import queue
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from mlflow_ragmetrics.adapters.langchain.recorder import Exchange
from mlflow_ragmetrics.adapters.langchain.sample import WHY, Reading
from mlflow_ragmetrics.core.json_text import as_json
from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.core.secrets import for_log, redact
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.engine.threads import ThreadTask, start_thread
from mlflow_ragmetrics.suite import Suite

if TYPE_CHECKING:
    from mlflow.entities import Metric

    from mlflow_ragmetrics.tracking.live import Journal, Place

__all__ = ["Answer", "BackgroundQueue", "Counts", "Scored", "Scorer", "WhenFull", "packed", "unpacked"]

T = TypeVar("T")
WhenFull = Literal["drop", "block"]
_TASKS_PER_BATCH = 16
_IDLE_SECONDS = 2.0
_GATHER_SECONDS = 0.02
_LONGEST_YIELD = 0.1
_YIELD_STEP = 0.005
_logger = logging.getLogger(__name__)


class Counts:
    """What became of the calls, by name, in the order in which the names were added; safe to use from many threads."""

    def __init__(self, names: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._counts = Counter(dict.fromkeys(names, 0))

    def add_names(self, names: Iterable[str]) -> None:
        """Count further things, from 0."""
        with self._lock:
            self._counts.update(dict.fromkeys(names, 0))

    def add(self, name: str, change: int = 1) -> None:
        """Change the count of ``name``."""
        with self._lock:
            self._counts[name] += change

    def reset(self) -> None:
        """All counts from 0, as in a forked process: those so far are the parent's."""
        self._lock = threading.Lock()
        self._counts = Counter(dict.fromkeys(self._counts, 0))

    def snapshot(self) -> dict[str, int]:
        """All counts as they are now."""
        with self._lock:
            return dict(self._counts)


class BackgroundQueue(Generic[T]):
    """A bounded queue whose tasks daemon threads hand to ``work``, in batches; ``work`` must not raise.

    Threads begin when there is something to do, also after a fork, and end when there has been nothing for a while.
    They run in an empty context: nothing of the application's (callbacks, open spans) reaches what they call. They let
    tasks gather for a moment, and while the application is ``busy`` they let it go first, for a tenth of a second, both
    as long as the queue is not half full and nobody waits.
    """

    def __init__(
        self,
        work: Callable[[Sequence[T]], None],
        *,
        busy: Callable[[], bool],
        size: int,
        when_full: WhenFull,
        workers: int,
    ) -> None:
        self._work = work
        self._busy = busy
        self._size = size
        self._waiters = 0
        self._tasks: queue.Queue[T] = queue.Queue(size)
        self._when_full = when_full
        self._workers = workers
        self._threads: dict[int, ThreadTask] = {}
        self._numbers = count()
        self._starting = threading.Lock()
        self._closed = threading.Event()

    def put(self, task: T) -> bool:
        """Queue a task; False where there is no room for it, or the queue is closed."""
        while not self._closed.is_set():
            try:
                self._tasks.put(task, block=self._when_full == "block", timeout=1.0)
            except queue.Full:
                if self._when_full == "drop":
                    return False
            else:
                self._start_thread()
                return True
        return False

    def wait(self, timeout: float) -> bool:
        """Wait until everything that was put in is done; False when ``timeout`` seconds were not enough."""
        deadline = time.monotonic() + timeout
        with self._tasks.all_tasks_done:
            self._waiters += 1
            while self._tasks.unfinished_tasks and (left := deadline - time.monotonic()) > 0:
                self._tasks.all_tasks_done.wait(left)
            self._waiters -= 1
            return not self._tasks.unfinished_tasks

    def close(self) -> None:
        """Let the threads end; what is still queued is left."""
        self._closed.set()

    def _start_thread(self) -> None:
        with self._starting:
            self._threads = {number: thread for number, thread in self._threads.items() if thread.alive}
            if len(self._threads) < self._workers:
                number = next(self._numbers)
                self._threads[number] = start_thread(partial(self._run, number), name="ragmetrics-scoring")

    def _run(self, number: int) -> None:
        while not self._closed.is_set():
            batch = self._next_batch()
            if not batch and self._end_thread(number):
                return
            self._yield_to_application()
            count = len(batch)
            try:
                self._work(batch)
            finally:
                del batch  # nothing is kept of what is done
                for _ in range(count):
                    self._tasks.task_done()

    def _next_batch(self) -> list[T]:
        """What is there, at most ``_TASKS_PER_BATCH``; empty when nothing came for a while."""
        batch: list[T] = []
        try:
            batch.append(self._tasks.get(timeout=_IDLE_SECONDS))
            self._let_pass(_GATHER_SECONDS, lambda: True)  # one batch costs the application less than many
            while len(batch) < _TASKS_PER_BATCH:
                batch.append(self._tasks.get_nowait())
        except queue.Empty:
            pass
        return batch

    def _yield_to_application(self) -> None:
        """Scoring may be pure computing, which in one process slows the chain down, however many threads there are."""
        self._let_pass(_LONGEST_YIELD, self._busy)

    def _let_pass(self, seconds: float, wanted: Callable[[], bool]) -> None:
        until = time.monotonic() + seconds
        while wanted() and not self._waiters and 2 * self._tasks.qsize() < self._size and time.monotonic() < until:
            time.sleep(_YIELD_STEP)

    def _end_thread(self, number: int) -> bool:
        """Whether this thread may end: decided under the lock that starting one takes after a task was put in."""
        with self._starting:
            if not self._tasks.empty():
                return False
            self._threads.pop(number, None)
            return True


@dataclass(frozen=True)
class Scored:
    """A scored answer with the call that it came from."""

    row: Row
    exchange: Exchange


class Scorer:
    """Reads and scores exchanges and hands them to each of ``takers``.

    Whatever fails is counted and named once in the log; it is never raised.
    """

    def __init__(
        self, reading: Reading, suite: Suite, takers: Sequence[Callable[[Scored], None]], counts: Counts
    ) -> None:
        self._reading = reading
        self._suite = suite
        self._takers = takers
        self._counts = counts
        self._warned_of: set[str] = set()

    def work(self, exchanges: Sequence[Exchange]) -> None:
        """Score a batch of exchanges."""
        pairs = [(exchange, self._read(exchange)) for exchange in exchanges]
        readable = [(exchange, sample) for exchange, sample in pairs if sample is not None]
        rows = self._score([sample for _, sample in readable])
        for (exchange, _), row in zip(readable, rows, strict=True):
            if row is not None:
                self._hand_over(Scored(_with_way_out(row), exchange))

    def _read(self, exchange: Exchange) -> Sample | None:
        sample = self._attempt("an answer could not be read", self._reading.sample, exchange)
        if sample is None:
            self._counts.add("failed")
            return None
        if sample.answer is None and "answer" not in sample.invalid:
            self._counts.add("skipped")
            if exchange.left:
                self._warn_once("a call that was interrupted, or whose stream was left, has no answer to score")
                return None
            kind = kind_of(exchange.outputs)
            self._warn_once(f"no answer was found in the chain's outputs ({kind}); name it with output_key= or answer=")
            return None
        if sample.question is None:
            kind = kind_of(exchange.inputs)
            message = f"no question was found in the chain's inputs ({kind}); name it with input_key= or question="
            self._warn_once(message)
        return sample

    def _score(self, samples: Sequence[Sample]) -> Sequence[Row | None]:
        """The rows; where they cannot be scored together, each by itself."""
        rows = self._attempt("an answer could not be scored", lambda: list(self._suite.score_samples(samples)))
        if rows is not None:
            return rows
        if len(samples) > 1:
            return [row for sample in samples for row in self._score([sample])]
        self._counts.add("failed")
        return [None]

    def _hand_over(self, scored: Scored) -> None:
        for key, score in scored.row.scores.items():
            if score.status == "skipped":
                self._warn_once(f"{key} is skipped: {score.reason}", key)
            elif score.status == "error":
                self._warn_once(redact(f"{key} could not be scored: {score.error}"), _cause_of(score))
            for code, text in score.warnings:
                if code == "contexts_assumed":
                    self._warn_once(text)
        taken = [self._attempt("a sink failed", _taken, take, scored) for take in self._takers]
        self._counts.add(_outcome(scored.row) if all(taken) else "failed")

    def _attempt(self, failure: str, action: Callable[..., T], *arguments: Any) -> T | None:
        try:
            return action(*arguments)
        except Exception as error:  # functions of the application run here: whatever they raise, the others go on
            self._warn_once(redact(f"{failure}: {type(error).__name__}: {error}"), failure + type(error).__name__)
            return None

    def _warn_once(self, message: str, subject: str | None = None) -> None:
        if (subject or message) not in self._warned_of:
            self._warned_of.add(subject or message)
            _logger.warning("%s", for_log(message))


def _cause_of(score: Score) -> str:
    """What is the same in the failures of many rows that have one cause: the kind of failure, without its figures."""
    text = next((code for code, _ in score.warnings if code.startswith("judge_")), score.error or "")
    return re.sub(r"\d+", "", text)[:100]


def _outcome(row: Row) -> str:
    """What became of an answer: ``failed`` where a score is in error, ``skipped`` where there is none at all."""
    states = {score.status for score in row.scores.values()}
    if "error" in states:
        return "failed"
    return "scored" if "ok" in states else "skipped"


def _with_way_out(row: Row) -> Row:
    """The row, where a score is skipped for want of contexts with the reason why there are none, and the way out."""
    why = row.sample.metadata.get(WHY)
    if why is None:
        return row
    way_out = f"; {why}: name them with contexts="
    scores = {
        key: replace(score, reason=score.reason + way_out)
        if score.status == "skipped" and "'contexts'" in score.reason
        else score
        for key, score in row.scores.items()
    }
    return replace(row, scores=scores)


def _taken(take: Callable[[Scored], None], scored: Scored) -> bool:
    take(scored)
    return True


@dataclass(eq=False)
class Answer:
    """A scored answer, and how far it is written: its metrics, its row in the tables, the feedback on its trace.

    ``run_id`` is ``None`` where it belongs to the run that the sink makes. ``metrics`` are made once, so that writing
    them again writes the same points; ``place`` is that of its row in the run's tables, once it has one, and
    ``left_at`` the one that it had in a process that ended, which may have written it or not; ``feedback`` is what is
    not on the trace yet. In ``journal`` it has the ``number``, where it could be put there. ``counts`` are those of the
    handler that it came from, ``time_ms`` is when it was scored.
    """

    scored_row: Row
    run_id: str | None
    trace_id: str | None
    feedback: dict[str, Score]
    counts: Counts
    time_ms: int
    journal: Journal | None = None
    number: int | None = None
    came: float = field(default_factory=time.monotonic)
    metrics: list[Metric] | None = None
    metrics_written: bool = False
    place: Place | None = None
    left_at: Place | None = None
    feedback_attempts: int = 0
    withheld: bool = False
    written: bool = False


def packed(answer: Answer) -> str:
    """What of an answer has to be kept on disk, as JSON."""
    about = {"trace_id": answer.trace_id, "feedback": list(answer.feedback), "time_ms": answer.time_ms}
    try:
        row = _rows().dump_json(answer.scored_row, warnings=False).decode("utf-8")
    except ValueError:  # metadata of any kind, or half a character
        row = as_json(_rows().dump_python(answer.scored_row, warnings=False))
    return f'{as_json(about)[:-1]}, "row": {row}}}'


def unpacked(entry: Mapping[str, Any], run_id: str | None, counts: Counts) -> Answer | None:
    """The answer that was packed, as far as it came; ``None``, and a line in the log, where it cannot be read."""
    from mlflow.entities import Metric

    try:
        row = _rows().validate_python(entry["row"])
        feedback = {key: row.scores[key] for key in entry["feedback"] if key in row.scores}
        answer = Answer(row, run_id, entry["trace_id"], feedback, counts, entry["time_ms"])
        if entry.get("place"):
            answer.left_at = (entry["place"][0], entry["place"][1])
        if entry.get("metrics"):
            answer.metrics = [Metric(*each) for each in entry["metrics"]]
    except (ValidationError, KeyError, TypeError):
        _logger.warning("a scored answer on disk cannot be read; it is left out")
        return None
    return answer


@lru_cache(maxsize=1)
def _rows() -> TypeAdapter[Row]:
    return TypeAdapter(Row)
