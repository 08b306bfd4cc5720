"""What of each scored answer is written into MLflow already, and what is left to write."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from mlflow_ragmetrics.adapters.langchain.sinks import Scored
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.frames import items_frame, rows_frame
from mlflow_ragmetrics.tracking.live import LiveRun, TraceAbsentError, end_run, log_feedback, new_run

__all__ = ["Entry", "Ledger"]

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
