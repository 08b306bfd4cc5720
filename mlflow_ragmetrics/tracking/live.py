"""Rows into an MLflow run while they come: metrics with steps, tables that grow, feedback on the chain's traces."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.statistics.anytime import ConfidenceSequence
from mlflow_ragmetrics.tracking.describe import DIAGNOSIS, cause_figure
from mlflow_ragmetrics.tracking.feedback import feedback_of, write_assessment
from mlflow_ragmetrics.tracking.run import status_of
from mlflow_ragmetrics.tracking.tables import GrowingTable, Parts, Place, table_rows
from mlflow_ragmetrics.tracking.writer import (
    CLAIMS,
    ROWS,
    STATUS_TAG,
    WRITER_TAG,
    RunWriter,
    explained,
    this_process,
)

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.entities import Metric

__all__ = ["LiveRun", "Place", "TraceAbsentError", "add_feedback", "end_run", "live_run", "new_run"]


WINDOW = 50
_CREATION_TAG = "ragmetrics.live"


class TraceAbsentError(RagMetricsError):
    """There is no trace of that id in the store (yet)."""


class LiveRun:
    """A run that rows are appended to. Each method may be called again after it failed, and repeats nothing.

    The caller holds ``lock`` while it writes. Where the store does not take something, a ``RagMetricsError`` of one
    sentence is raised.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.begun = False
        self.language = "en"
        self.published = 0
        """How many rows of the table the store has."""
        self.lock = threading.Lock()
        self._writer = RunWriter(run_id)
        self._step = 0
        self._sums: dict[str, tuple[float, int]] = {}
        self._windows: dict[str, deque[float]] = {}
        self.anytime = False
        """Whether metrics have intervals that stay valid however often one looks."""
        self._sequences: dict[str, ConfidenceSequence] = {}
        self._off_scale: set[str] = set()  # keys with a score that is not from 0 to 1, which is what the bets are for
        self._marks: Counter[str] = Counter()
        folder = tempfile.mkdtemp(prefix="ragmetrics-")
        weakref.finalize(self, _remove_own, folder, os.getpid())
        self._tables = [GrowingTable(Path(folder), name) for name in (ROWS, CLAIMS)]
        self._parts = Parts(self._writer, self._tables, Path(folder))

    @property
    def rows(self) -> int:
        """How many rows the table has here."""
        return self._tables[0].rows

    def begin(self, description: Mapping[str, Any]) -> None:
        """Write what explains the run as params, and go on from the rows that it has already."""
        self.language = str(description.get("language", "en"))
        with explained(self.run_id):
            self._writer.params(description)
            stored = self._parts.register()[ROWS]
        if stored is not None:
            self._continue_from(stored)
        self.published = self.rows
        self.begun = True

    def _continue_from(self, table: Mapping[str, Any]) -> None:
        self._step = len(table["data"])
        for column, values in zip(table["columns"], zip(*table["data"], strict=True), strict=False):
            numbers = [value for value in values if isinstance(value, float)]
            self._sums[column] = (sum(numbers), len(numbers))
            self._windows[column] = deque(numbers[-WINDOW:], WINDOW)
            if not all(0 <= value <= 1 for value in numbers):
                self._off_scale.add(column)
            elif self.anytime:
                self._sequences[column] = ConfidenceSequence()
                self._sequences[column].update(numbers)
            if column == DIAGNOSIS:
                self._marks.update(map(cause_figure, filter(None, values)))
            if column.endswith("_status"):
                for status in ("error", "skipped"):
                    self._marks[f"{column.removesuffix('_status')}/n_{status}"] = values.count(status)

    def check(self) -> None:
        """Nothing where the store answers; else the error."""
        with explained(self.run_id):
            self._writer.check()

    def next_metrics(self, scores: Mapping[str, Score], time_ms: int, cause: str | None = None) -> list[Metric]:
        """The metrics of the next row: ``<key>``, ``<key>/mean`` so far and ``<key>/rolling_mean`` (last 50).

        With ``anytime``, ``<key>/anytime_low`` and ``/anytime_high`` as well, for scores from 0 to 1.
        ``<key>/n_error``, ``/n_skipped``, ``/n_no_context`` and the like (``Score.marks``) count the rows so far that
        the mean leaves out or that were not measured; ``diagnosis/n_<cause>`` those in which the part ``cause`` failed.
        """
        from mlflow.entities import Metric

        figures: dict[str, float] = {}
        self._marks.update([] if cause is None else [cause_figure(cause)])
        for key, score in scores.items():
            self._marks.update(f"{key}/{mark}" for mark in score.marks)
            if score.value is None:
                continue
            total, count = self._sums.get(key, (0.0, 0))
            self._sums[key] = total, count = total + score.value, count + 1
            window = self._windows.setdefault(key, deque(maxlen=WINDOW))
            window.append(score.value)
            figures |= {key: score.value, f"{key}/mean": total / count, f"{key}/rolling_mean": fmean(window)}
            if self.anytime:
                figures |= self._anytime_interval(key, score.value)
        figures |= {name: float(count) for name, count in self._marks.items() if count}
        step, self._step = self._step, self._step + 1
        return [Metric(name, value, time_ms, step) for name, value in figures.items()]

    def _anytime_interval(self, key: str, value: float) -> dict[str, float]:
        if not 0 <= value <= 1:
            self._off_scale.add(key)
        if key in self._off_scale:
            return {}
        sequence = self._sequences.setdefault(key, ConfidenceSequence())
        sequence.update(value)
        low, high = sequence.interval()
        return {f"{key}/anytime_low": low, f"{key}/anytime_high": high}

    def write_metrics(self, metrics: Sequence[Metric], received: int = 0) -> None:
        """Write metrics; the store knows those that it has already.

        ``received``: how many answers this process has for the run so far, written or not. The run's tag
        ``ragmetrics.received.<part>`` has it until the process leaves, so that one which is killed leaves behind how
        many it had.
        """
        with explained(self.run_id):
            self._writer.metrics(metrics, {self._parts.received_tag: received} if received else {})

    def append(self, rows: pd.DataFrame, items: pd.DataFrame) -> list[Place]:
        """Add to the tables, here for now: ``publish`` takes them to the store. Returns the place of each row."""
        first = self.rows
        for table, frame in zip(self._tables, (rows, items), strict=True):
            table.extend(list(frame.columns), table_rows(frame))
        return [(self._parts.id, number) for number in range(first, self.rows)]

    def held(self, places: Iterable[Place]) -> set[Place]:
        """Those of the places, of a process that ended, whose rows the run holds; ``publish`` sees to its tables."""
        asked = list(places)
        with explained(self.run_id):
            held = self._parts.held(asked) if asked else set()
        if held:
            self.published = -1
        return held

    def publish(self) -> None:
        """Write the tables, whole, in place of those in the store, where these have more rows."""
        if self.published == self.rows:
            return
        with explained(self.run_id):
            everything = self._parts.publish()
            if everything is not None:
                self._writer.metrics(self._means(everything))
        self.published = self.rows

    def leave(
        self,
        incomplete: str | None = None,
        calls: Mapping[str, int] = MappingProxyType({}),
        *,
        is_whole: bool = True,
    ) -> None:
        """Say that this process writes here no more, and why the figures are ``incomplete``, where they are.

        ``calls``: how many were ``seen``, and how many of them the figures lack, for whatever reason; where there are
        such, they are written as ``calls/seen``, ``calls/skipped``, …. ``is_whole``: all answers are written.
        """
        if self.begun:
            with explained(self.run_id):
                if any(number for name, number in calls.items() if name != "seen"):
                    self._writer.figures({f"calls/{name}": number for name, number in calls.items() if number})
                if incomplete is not None:
                    self._writer.tags({STATUS_TAG: status_of(incomplete)})
                if self.published == self.rows:
                    self._parts.leave(is_whole=is_whole)

    def _means(self, everything: GrowingTable) -> list[Metric]:
        """``<key>/mean`` and ``diagnosis/n_<cause>`` over the rows of all processes, a step after the last of them."""
        from mlflow.entities import Metric

        means = {key: everything.mean(key) for key in self._sums if key in everything.columns}
        figures = {f"{key}/mean": mean for key, mean in means.items() if mean is not None}
        causes = everything.counts(DIAGNOSIS) if DIAGNOSIS in everything.columns else {}
        figures |= {cause_figure(cause): float(count) for cause, count in causes.items()}
        now = int(time.time() * 1000)
        return [Metric(name, value, now, everything.rows) for name, value in figures.items()]


def _remove_own(folder: str, process: int) -> None:
    """Remove a temporary folder, but not that of the parent in a forked process."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


_LIVE_RUNS: weakref.WeakValueDictionary[str, LiveRun] = weakref.WeakValueDictionary()
_LIVE_RUNS_LOCK = threading.Lock()


def _forget_parents_runs() -> None:
    """A forked process has live runs of its own: other parts, other folders, and locks that nobody holds."""
    global _LIVE_RUNS_LOCK
    _LIVE_RUNS_LOCK = threading.Lock()
    _LIVE_RUNS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parents_runs)


def live_run(run_id: str) -> LiveRun:
    """The one ``LiveRun`` that all handlers of this process share which write into the run ``run_id``."""
    with _LIVE_RUNS_LOCK:
        live = _LIVE_RUNS.get(run_id)
        if live is None:
            live = _LIVE_RUNS[run_id] = LiveRun(run_id)
        return live


def new_run(name: str, creation_id: str) -> str:
    """The id of a new run in the active experiment. It stays open until ``end_run``, and is active in no thread.

    Called again with the same ``creation_id`` after a failure, it finds the run that the store may have made before it
    failed.
    """
    import mlflow

    created = f"tags.`{_CREATION_TAG}` = '{creation_id}'"
    with explained("(new)"):
        run_id = _first(created) or _created(name, creation_id, created)
        mlflow.MlflowClient().update_run(run_id, status="RUNNING")
    return run_id


def _created(name: str, creation_id: str, created: str) -> str:
    """The id of a run made now; where another process made one for the same handler at the same time, of the first."""
    import mlflow

    with mlflow.start_run(run_name=name, tags={_CREATION_TAG: creation_id, WRITER_TAG: this_process()}) as run:
        run_id = str(run.info.run_id)
    first = _first(created) or run_id
    if first != run_id:
        mlflow.MlflowClient().delete_run(run_id)
    return first


def _first(created: str) -> str | None:
    """The id of the run on which all processes agree that made one at the same time; ``None`` where there is none."""
    import mlflow

    found = mlflow.search_runs(filter_string=created, output_format="list")
    return min(((each.info.start_time, str(each.info.run_id)) for each in found), default=(0, None))[1]


def end_run(run_id: str, failure: str | None = None) -> None:
    """Mark a run as finished; where ``failure`` says what it lacks, as failed."""
    with explained(run_id):
        RunWriter(run_id).end(failure)


def add_feedback(trace_id: str, key: str, score: Score, run_id: str | None = None, time_ms: int = 0) -> None:
    """Put ``score`` on the trace as the feedback ``key``; a second time only where ``time_ms`` is another one.

    Raises:
        TraceAbsentError: the store has no such trace, even after MLflow has exported what was under way.
        RagMetricsError: the store does not take it.
    """
    import mlflow
    from mlflow.exceptions import MlflowException

    assessment = feedback_of(key, score, run_id)
    with explained(run_id or "(none)"):
        for is_exported in (False, True):
            try:
                write_assessment(trace_id, assessment, f"{run_id} {key} {time_ms}")
                return
            except MlflowException as error:
                if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                    raise
                if is_exported:
                    raise TraceAbsentError(f"there is no trace {trace_id} in the store") from error
                mlflow.flush_trace_async_logging()
