"""Scored answers into MLflow runs and onto traces, on a thread of its own: what cannot be written waits."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol
from uuid import uuid4

from mlflow_ragmetrics.adapters.langchain.capture import Exchange
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.report.tables import items_frame, rows_frame
from mlflow_ragmetrics.tracking.live import LiveRun, TraceAbsentError, end_run, log_feedback, new_run

__all__ = ["FunctionSink", "Scored", "Sink", "Entry", "Ledger", "MLflowSink"]


@dataclass(frozen=True)
class Scored:
    """A scored answer with the call that it came from."""

    row: Row
    exchange: Exchange


class Sink(Protocol):
    """Takes each scored answer once; called from the scoring threads."""

    @property
    def counts(self) -> Mapping[str, int]:
        """What it has to say about what it took."""

    def prepare(self, exchange: Exchange) -> None:
        """Note what only the chain's own thread knows; called there, when the chain ends."""

    def take(self, scored: Scored) -> None:
        """Take a scored answer, without waiting for anybody's network."""

    def flush(self, timeout: float) -> bool:
        """Write what is still here; False when something could not be written within ``timeout`` seconds."""

    def close(self) -> None:
        """Let threads end."""


class FunctionSink:
    """Calls ``function(sample, {key: Score})``."""

    counts: Mapping[str, int] = MappingProxyType({})

    def __init__(self, function: Callable[[Sample, Mapping[str, Score]], Any]) -> None:
        self._function = function

    def prepare(self, exchange: Exchange) -> None:
        """There is nothing to note."""

    def take(self, scored: Scored) -> None:
        """Call the function."""
        self._function(scored.row.sample, scored.row.scores)

    def flush(self, timeout: float) -> bool:
        """There is nothing left to write."""
        return True

    def close(self) -> None:
        """There is nothing to end."""


_FEWEST_ROWS = 20
_LONGEST_WAIT = 30.0
_FEEDBACK_ATTEMPTS = 3
_LIVE_RUNS: weakref.WeakValueDictionary[str, LiveRun] = weakref.WeakValueDictionary()
_LIVE_RUNS_LOCK = threading.Lock()


@dataclass(eq=False)
class Entry:
    """One scored answer: its metrics' points, the feedback not on the trace yet, and its way into the tables."""

    scored: Scored
    feedback: dict[str, Score] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    time_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    points: list[Any] | None = None
    pointed: bool = False
    listed: bool = False
    published: bool = False
    attempts: int = 0
    withheld: bool = False

    @property
    def done(self) -> bool:
        """Whether nothing of it is left to write."""
        return self.pointed and self.published and not self.feedback


class Ledger:
    """Writes entries into their runs; what failed is left in the entries and may be tried again."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        self._description = description
        self._runs: dict[str, LiveRun] = {}
        self._own_run: str | None = None
        self._mark = uuid4().hex

    def write(self, entries: Sequence[Entry], *, everything: bool) -> None:
        """Write what is left of ``entries``; rows go into the tables in batches, unless ``everything`` must.

        Raises:
            RagMetricsError: the first failure, after all runs were tried.
        """
        by_run: dict[str | None, list[Entry]] = {}
        for entry in entries:
            by_run.setdefault(entry.scored.exchange.tracking_run, []).append(entry)
        failures: list[RagMetricsError] = []
        for run_id, group in by_run.items():
            try:
                live = self._live(run_id)
                with live.lock:
                    if not live.begun:
                        live.begin(self._description)
                    self._write_group(live, group, everything)
            except RagMetricsError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def close(self, failure: str | None = None) -> None:
        """End the run that was made here; as failed where ``failure`` says what it lacks."""
        if self._own_run is not None:
            run_id, self._own_run, self._mark = self._own_run, None, uuid4().hex
            end_run(run_id, failure)

    def _live(self, run_id: str | None) -> LiveRun:
        if run_id is None:
            run_id = self._own_run = self._own_run or new_run("ragmetrics live", self._mark)
        if run_id not in self._runs:
            with _LIVE_RUNS_LOCK:
                self._runs[run_id] = _LIVE_RUNS.setdefault(run_id, LiveRun(run_id))
        return self._runs[run_id]

    def _write_group(self, live: LiveRun, entries: Sequence[Entry], everything: bool) -> None:
        fresh = [entry for entry in entries if not entry.pointed]
        for entry in fresh:
            if entry.points is None:
                entry.points = live.points(entry.scored.row.scores, entry.time_ms)
        live.log_points([point for entry in fresh for point in entry.points or ()])
        for entry in fresh:
            entry.pointed = True
        rows = [entry for entry in entries if not entry.listed]
        if rows and (everything or _are_due(rows, live.rows)):
            finished = [entry.scored.row for entry in rows]
            live.append(rows_frame(finished), items_frame(finished))
            for entry in rows:
                entry.listed = True
        listed = [entry for entry in entries if entry.listed and not entry.published]
        if listed:
            live.publish()
            for entry in listed:
                entry.published = True
        for entry in entries:
            _give_feedback(entry, live)


def _are_due(rows: Sequence[Entry], written: int) -> bool:
    """A table is rewritten as a whole: the longer it is, the more rows wait for it."""
    waited = time.monotonic() - rows[0].began
    return len(rows) >= max(_FEWEST_ROWS, written // 10) or (waited >= _LONGEST_WAIT and written < 100 * len(rows))


def _give_feedback(entry: Entry, live: LiveRun) -> None:
    """Put the scores on the trace. Where there is none, or the store takes no feedback, it is given up in the end."""
    trace_id = entry.scored.exchange.trace_id
    try:
        while entry.feedback and trace_id is not None:
            key = next(iter(entry.feedback))
            log_feedback(trace_id, key, entry.feedback[key], live.run_id)
            del entry.feedback[key]
    except RagMetricsError as error:
        if not isinstance(error, TraceAbsentError):
            live.check()  # a store that does not answer at all is another matter: then all of it waits
        entry.attempts += 1
        if entry.attempts >= _FEEDBACK_ATTEMPTS:
            entry.feedback.clear()
            entry.withheld = True


_BUFFER = 5000
_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_IDLE_SECONDS = 5.0
_logger = logging.getLogger(__name__)


class MLflowSink:
    """Writes into the run ``run_id``, else the one active at the call, else the one active before, else a new run.

    A run is active in one thread only: the calls that a server makes in its other threads belong to the run that the
    handler was made in, or saw last. ``feedback``: also onto the chain's trace.

    ``counts``: ``unwritten`` answers that still wait, ``lost`` ones that a full buffer gave up (the oldest), and
    ``withheld`` answers whose trace could not be told or found.
    """

    def __init__(self, description: Mapping[str, Any], *, run_id: str | None = None, feedback: bool = True) -> None:
        self._named = run_id
        self._seen = _active_run()
        self._feedback = feedback
        self._ledger = Ledger(description)
        self._waiting: list[Entry] = []
        self._lost = 0
        self._withheld = 0
        self._failure: str | None = None
        self._hurry = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()

    @property
    def counts(self) -> Mapping[str, int]:
        """What waits, what was given up, and what had no trace to go to."""
        with self._changed:
            return {"unwritten": len(self._waiting), "lost": self._lost, "withheld": self._withheld}

    def prepare(self, exchange: Exchange) -> None:
        """Note the run that is active in the chain's thread."""
        self._seen = _active_run() or self._seen
        exchange.tracking_run = self._named or self._seen

    def take(self, scored: Scored) -> None:
        """Put a scored answer into the buffer."""
        exchange = scored.exchange
        entry = Entry(scored)
        if self._feedback and exchange.trace_id is not None:
            entry.feedback.update({key: s for key, s in scored.row.scores.items() if s.status != "skipped"})
        with self._changed:
            self._withheld += self._feedback and not exchange.traceable
            self._waiting.append(entry)
            if len(self._waiting) > _BUFFER:
                self._waiting.pop(0)
                self._lost += 1
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="ragmetrics-mlflow", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Write all that waits; False, and a warning that names what was left, when the store did not take it."""
        deadline = time.monotonic() + timeout
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
            while self._waiting and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            self._hurry = False
            if self._waiting or self._lost:
                reason = self._failure or "there was not enough time"
                _logger.warning(
                    "%d scored answers are not written into MLflow and wait, %d were given up: %s",
                    len(self._waiting),
                    self._lost,
                    reason,
                )
            if self._withheld:
                _logger.warning("the feedback on %d answers was kept back: their traces are not known", self._withheld)
            return not self._waiting

    def close(self) -> None:
        """Give up on what still waits, and end the run that was made here: as failed where it lacks answers."""
        with self._changed:
            self._closed = True
            absent = len(self._waiting) + self._lost
            self._changed.notify_all()
        try:
            self._ledger.close(f"{absent} scored answers are not written" if absent else None)
        except RagMetricsError as error:
            _logger.warning("%s", error)

    def _run(self) -> None:
        pause = _PAUSE
        while True:
            with self._changed:
                idle = not self._waiting and not self._changed.wait(_IDLE_SECONDS) and not self._waiting
                if idle or self._closed:
                    self._thread = None
                    return
                entries, hurry = list(self._waiting), self._hurry
            self._write(entries, hurry)
            pause = _PAUSE if self._failure is None else min(2 * pause, _LONGEST_PAUSE)
            self._rest(pause)

    def _write(self, entries: list[Entry], hurry: bool) -> None:
        try:
            self._ledger.write(entries, everything=hurry)
            self._failure = None
        except RagMetricsError as error:
            if self._failure is None:
                _logger.warning("%s; it will be tried again", error)
            self._failure = str(error)
        with self._changed:
            self._withheld += sum(entry.withheld for entry in entries if entry.done)
            self._waiting = [entry for entry in self._waiting if not entry.done]
            self._changed.notify_all()

    def _rest(self, pause: float) -> None:
        """Let answers gather; a flush cuts it short, but not below a tenth of a second where the store fails."""
        with self._changed:
            if self._hurry:
                pause = 0.1 if self._waiting else 0.0
            self._changed.wait_for(lambda: self._closed or (self._hurry and bool(self._waiting)), timeout=pause)


def _active_run() -> str | None:
    import mlflow

    active = mlflow.active_run()
    return None if active is None else str(active.info.run_id)
