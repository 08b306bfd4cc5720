"""Scored answers into MLflow runs and onto traces, on a thread of its own: what cannot be written yet waits."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from mlflow_ragmetrics.adapters.langchain.recorder import Exchange
from mlflow_ragmetrics.adapters.langchain.scoring import Counts, Scored
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.engine.threads import ThreadTask, start_thread
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.report.tables import items_frame, rows_frame
from mlflow_ragmetrics.tracking.live import LiveRun, TraceAbsentError, add_feedback, end_run, live_run, new_run

if TYPE_CHECKING:
    from mlflow.entities import Metric

__all__ = ["MLflowSink"]

_BUFFER = 5000
_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_SHORTEST_PAUSE_AFTER_FAILURE = 0.1
_IDLE_SECONDS = 5.0
_FEWEST_ROWS = 20
_LONGEST_WAIT = 30.0
_FEEDBACK_ATTEMPTS = 3
_logger = logging.getLogger(__name__)


@dataclass(eq=False)
class _Answer:
    """A scored answer, and how far it is written: its metrics, its row in the tables, the feedback on its trace.

    ``run_id`` is ``None`` where it belongs to the run that the sink makes. ``metrics`` are made once, so that writing
    them again writes the same points; ``row`` is its place in the run's tables, once it has one; ``feedback`` is what
    is not on the trace yet.
    """

    scored_row: Row
    run_id: str | None
    trace_id: str | None
    feedback: dict[str, Score]
    came: float = field(default_factory=time.monotonic)
    time_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    metrics: list[Metric] | None = None
    metrics_written: bool = False
    row: int | None = None
    feedback_attempts: int = 0
    withheld: bool = False
    written: bool = False


class MLflowSink:
    """Writes into the run ``run_id``, else the one active at the call, else the one active before, else a new run.

    A run is active in one thread only: the calls that a server makes in its other threads belong to the run that the
    handler was made in, or saw last. ``feedback``: also onto the chain's trace.

    An answer that was taken is in one of three places: it waits in ``_waiting``, oldest first; the thread is writing
    it (``_writing``), after which it is written or waits again; or a full buffer gave it up, the oldest first.

    It counts ``unwritten`` answers (the first two), ``lost`` ones that were given up, and ``withheld`` answers whose
    trace is not known.
    """

    def __init__(
        self,
        description: Mapping[str, object],
        counts: Counts,
        *,
        run_id: str | None = None,
        feedback: bool = True,
        anytime: bool = False,
    ) -> None:
        self._description = description
        self._counts = counts
        self._feedback = feedback
        self._anytime = anytime
        self._named_run = run_id
        self._last_active_run = _active_run()
        self._own_run: str | None = None
        self._creation_id = uuid4().hex
        self._live_runs: dict[str, LiveRun] = {}
        self._changed = threading.Condition()
        self._waiting: list[_Answer] = []
        self._writing: list[_Answer] = []
        self._failure: str | None = None
        self._flushing = 0
        self._closed = False
        self._thread: ThreadTask | None = None
        counts.add_names(("unwritten", "lost", "withheld"))

    def prepare(self, exchange: Exchange) -> None:
        """Note the run that is active in the chain's thread; called there, when the chain ends."""
        self._last_active_run = _active_run() or self._last_active_run
        exchange.tracking_run = self._named_run or self._last_active_run

    def take(self, scored: Scored) -> None:
        """Take a scored answer, without waiting for the store."""
        exchange = scored.exchange
        feedback: dict[str, Score] = {}
        if self._feedback and exchange.trace_id is not None:
            feedback = {key: score for key, score in scored.row.scores.items() if score.status != "skipped"}
        if self._feedback and not exchange.traceable:
            self._counts.add("withheld")
        with self._changed:
            self._waiting.append(_Answer(scored.row, exchange.tracking_run, exchange.trace_id, feedback))
            self._counts.add("unwritten")
            self._give_up_oldest()
            if self._thread is None or not self._thread.alive:  # it is not in a forked process
                self._thread = start_thread(self._run, name="ragmetrics-mlflow")
            self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Write all that waits; False, and a warning that says how much is left, when the store did not take it."""
        deadline = time.monotonic() + timeout
        with self._changed:
            self._flushing += 1
            self._changed.notify_all()
            while self._unwritten and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            self._flushing -= 1
            unwritten, reason = self._unwritten, self._failure or "there was not enough time"
        lost, withheld = (self._counts.snapshot()[name] for name in ("lost", "withheld"))
        if unwritten or lost:
            message = "%d scored answers are not written into MLflow and wait, %d were given up: %s"
            _logger.warning(message, unwritten, lost, reason)
        if withheld:
            _logger.warning("the feedback on %d answers was withheld: their traces are not known", withheld)
        return not unwritten

    def close(self) -> None:
        """Give up on what still waits, and end the run that was made here: as failed where it lacks answers."""
        with self._changed:
            self._closed = True
            absent = self._unwritten + self._counts.snapshot()["lost"]
            self._changed.notify_all()
        if self._own_run is None:
            return
        run_id, self._own_run, self._creation_id = self._own_run, None, uuid4().hex
        try:
            end_run(run_id, f"{absent} scored answers are not written" if absent else None)
        except RagMetricsError as error:
            _logger.warning("%s", error)

    @property
    def _unwritten(self) -> int:
        return len(self._waiting) + len(self._writing)

    def _give_up_oldest(self) -> None:
        """Keep no more than the buffer holds; the caller holds the lock."""
        surplus = max(0, len(self._waiting) - _BUFFER)
        del self._waiting[:surplus]
        self._counts.add("lost", surplus)
        self._counts.add("unwritten", -surplus)

    def _run(self) -> None:
        """Write until nothing has come for a while; where the store fails, try again after longer and longer pauses."""
        pause = _PAUSE
        while self._begin_writing():
            try:
                self._write()
            finally:
                self._end_writing()
            pause = _PAUSE if self._failure is None else min(2 * pause, _LONGEST_PAUSE)
            self._rest(pause)

    def _begin_writing(self) -> bool:
        """Move what waits to what is being written, once there is something; False when the thread is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, _IDLE_SECONDS)
            if not self._waiting or self._closed:
                self._thread = None
                return False
            self._waiting, self._writing = [], self._waiting
            return True

    def _end_writing(self) -> None:
        """Put back what is not written."""
        with self._changed:
            unwritten = [answer for answer in self._writing if not answer.written]
            self._counts.add("unwritten", len(unwritten) - len(self._writing))
            self._counts.add("withheld", sum(answer.withheld for answer in self._writing if answer.written))
            self._waiting, self._writing = unwritten + self._waiting, []
            self._give_up_oldest()
            self._changed.notify_all()

    def _rest(self, seconds: float) -> None:
        """Let answers gather, or the store recover; a flush cuts it short, but not to nothing where the store fails."""
        with self._changed:
            if self._failure is not None:
                self._changed.wait_for(lambda: self._closed, _SHORTEST_PAUSE_AFTER_FAILURE)
                seconds -= _SHORTEST_PAUSE_AFTER_FAILURE
            self._changed.wait_for(lambda: self._closed or self._flushing, seconds)

    def _write(self) -> None:
        """Write the answers into their runs: a run that cannot be written holds up no other."""
        by_run: dict[str | None, list[_Answer]] = {}
        for answer in self._writing:
            by_run.setdefault(answer.run_id, []).append(answer)
        failures: list[str] = []
        for run_id, answers in by_run.items():
            try:
                live = self._live_run(run_id)
                with live.lock:
                    if not live.begun:
                        live.begin(self._description)
                    _write_answers(answers, live, everything=self._flushing > 0)
            except RagMetricsError as error:
                failures.append(str(error))
        if failures and self._failure is None:
            _logger.warning("%s; it will be tried again", failures[0])
        self._failure = failures[0] if failures else None

    def _live_run(self, run_id: str | None) -> LiveRun:
        if run_id is None:
            run_id = self._own_run = self._own_run or new_run("ragmetrics live", self._creation_id)
        if run_id not in self._live_runs:
            self._live_runs[run_id] = live_run(run_id)
            self._live_runs[run_id].anytime |= self._anytime
        return self._live_runs[run_id]


def _write_answers(answers: Sequence[_Answer], live: LiveRun, *, everything: bool) -> None:
    """Write what is left of ``answers``: metrics, rows of the tables (in batches, unless ``everything``), feedback.

    Where it raises, the answers know how far it came, and it may be called again.
    """
    fresh = [answer for answer in answers if not answer.metrics_written]
    for answer in fresh:
        if answer.metrics is None:
            answer.metrics = live.next_metrics(answer.scored_row.scores, answer.time_ms)
    live.write_metrics([metric for answer in fresh for metric in answer.metrics or ()])
    for answer in fresh:
        answer.metrics_written = True
    unlisted = [answer for answer in answers if answer.row is None]
    if unlisted and (everything or _are_due(unlisted, live.rows)):
        rows, first = [answer.scored_row for answer in unlisted], live.rows
        live.append(rows_frame(rows), items_frame(rows))
        for number, answer in enumerate(unlisted, first):
            answer.row = number
    live.publish()
    for answer in answers:
        _give_feedback(answer, live)
        answer.written = answer.row is not None and not answer.feedback


def _are_due(unlisted: Sequence[_Answer], listed: int) -> bool:
    """Whether rows go into the table now. It is rewritten as a whole: the longer it is, the more rows wait for it."""
    waited = time.monotonic() - unlisted[0].came
    return len(unlisted) >= max(_FEWEST_ROWS, listed // 10) or (
        waited >= _LONGEST_WAIT and listed < 100 * len(unlisted)
    )


def _give_feedback(answer: _Answer, live: LiveRun) -> None:
    """Put the scores on the trace; give up after a few attempts where there is none, or the store takes no feedback."""
    try:
        while answer.feedback and answer.trace_id is not None:
            key = next(iter(answer.feedback))
            add_feedback(answer.trace_id, key, answer.feedback[key], live.run_id)
            del answer.feedback[key]
    except RagMetricsError as error:
        if not isinstance(error, TraceAbsentError):
            live.check()  # a store that does not answer at all is another matter: then all of it waits
        answer.feedback_attempts += 1
        if answer.feedback_attempts >= _FEEDBACK_ATTEMPTS:
            answer.feedback.clear()
            answer.withheld = True


def _active_run() -> str | None:
    import mlflow

    active = mlflow.active_run()
    return None if active is None else str(active.info.run_id)
