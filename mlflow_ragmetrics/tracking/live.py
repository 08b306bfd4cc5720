"""Answers into an MLflow run while they come: metrics with steps, tables that grow, feedback on the chain's traces.

Answers wait in the outbox until the run has them. What is written for an answer follows from the answers before it,
and how far the run has come is noted after each step, so that a step is repeated as it was after any failure.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from mlflow_ragmetrics.core.safe_text import as_json, for_log
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.engine.threads import ThreadTask, after_fork, start_thread
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.text.non_answers import gives_no_answer
from mlflow_ragmetrics.tracking.describe import DIAGNOSIS, cause_figure
from mlflow_ragmetrics.tracking.feedback import feedback_of, write_assessment
from mlflow_ragmetrics.tracking.outbox import Home, Lines, Outbox, Waiting
from mlflow_ragmetrics.tracking.run import COMPLETE, status_of
from mlflow_ragmetrics.tracking.writer import (
    CLAIMS,
    ROWS,
    STATUS_TAG,
    WRITER_TAG,
    RunWriter,
    explained,
    table_rows,
    this_process,
)

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient
    from mlflow.entities import Metric

_CREATION_TAG = "ragmetrics.live"
_ROWS_TAG = "ragmetrics.rows"
_WINDOW = 50
_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_SHORTEST_PAUSE_AFTER_FAILURE = 0.1
_FEWEST_ROWS = 20
_LONGEST_WAIT = 30.0
_FEEDBACK_ATTEMPTS = 3
_LAST_WRITE_SECONDS = 3.0
_TOLERATED = 0.05
_CALLS = ("seen", "dropped", "failed", "skipped", "withheld")
_logger = logging.getLogger(__name__)

Tables = Callable[[Sequence[Row]], "tuple[pd.DataFrame, pd.DataFrame]"]
"""The tables of rows and of items."""


@dataclass(frozen=True)
class Service:
    """Who writes: the outbox, where runs are made, and what describes the suite and makes its tables."""

    outbox: Outbox
    home: Home
    description: Mapping[str, Any]
    tables: Tables


class TraceAbsentError(RagMetricsError):
    """There is no trace of that id in the store (yet)."""


class LiveFigures:
    """The figures of a run so far, from which those of the next answer follow."""

    def __init__(self, state: Mapping[str, Any] | None) -> None:
        state = state or {}
        self.step: int = state.get("step", 0)
        self._sums: dict[str, list[float]] = state.get("sums", {})
        self._windows = {key: deque(values, _WINDOW) for key, values in state.get("windows", {}).items()}
        self._marks = Counter[str](state.get("marks", {}))

    @property
    def state(self) -> dict[str, Any]:
        """All of it, as JSON takes it."""
        windows = {key: list(values) for key, values in self._windows.items()}
        return {"step": self.step, "sums": self._sums, "windows": windows, "marks": self._marks}

    @property
    def means(self) -> dict[str, float]:
        """``<key>/mean`` so far."""
        return {f"{key}/mean": total / count for key, (total, count) in self._sums.items()}

    def _add(self, key: str, value: float) -> None:
        total, count = self._sums.get(key, (0.0, 0))
        self._sums[key] = [total + value, count + 1]
        self._windows.setdefault(key, deque(maxlen=_WINDOW)).append(value)

    def add_table(self, table: Lines) -> None:
        """Take rows that another process has written into the run's table."""
        self.step += len(table.rows)
        for row in table.rows:
            own = dict(zip(table.columns, row, strict=True))
            for column, value in own.items():
                if isinstance(value, float) and own.get(f"{column}_measured") is not False:
                    self._add(column, value)
                elif column == DIAGNOSIS and value:
                    self._marks[cause_figure(value)] += 1
                elif column.endswith("_status") and value in ("error", "skipped"):
                    self._marks[f"{column.removesuffix('_status')}/n_{value}"] += 1

    def add(
        self, scores: Mapping[str, Score], time_ms: int, cause: str | None = None, is_non_answer: bool = False
    ) -> list[Metric]:
        """The metrics of the next answer: ``<key>``, ``<key>/mean`` so far and ``<key>/rolling_mean`` (last 50).

        ``<key>/n_error``, ``/n_skipped``, ``/n_no_context`` and the like (``Score.marks``) count the answers so far
        that the mean leaves out or that were not measured; ``n_non_answers`` counts the answers that give none;
        ``diagnosis/n_<cause>`` those whose part ``cause`` failed.
        """
        from mlflow.entities import Metric

        found: dict[str, float] = {}
        self._marks.update([] if cause is None else [cause_figure(cause)])
        self._marks["n_non_answers"] += is_non_answer
        for key, score in scores.items():
            self._marks.update(f"{key}/{mark}" for mark in score.marks)
            if score.measurement is not None:
                self._add(key, score.measurement)
                total, count = self._sums[key]
                mean = fmean(self._windows[key])
                found |= {key: score.measurement, f"{key}/mean": total / count, f"{key}/rolling_mean": mean}
        found |= {name: float(count) for name, count in self._marks.items() if count}
        self.step += 1
        return [Metric(name, value, time_ms, self.step - 1) for name, value in found.items()]


class LiveRun:
    """A run that answers go into while they come, written by a thread of its own.

    It is the run ``run_id``, or one that is made for ``name`` when the first answer is written. A failure of the store
    is logged once, and tried again after longer and longer pauses.
    """

    def __init__(self, service: Service, name: str, run_id: str | None, *, adopted: bool) -> None:
        self.name = name
        self._service = service
        self._home = service.home
        self._is_made_here = name != run_id
        self._adopted = adopted
        self._outbox = service.outbox
        self._number = self._outbox.join(self._home, name, run_id)
        self.users: weakref.WeakSet[object] = weakref.WeakSet()
        """Whoever uses the run in this process."""
        self._begin()
        after_fork(self._begin)
        if self._outbox.waiting(self._number) or adopted:
            self._start()

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._counting = threading.Lock()
        self._writing = threading.Lock()
        self._pending: dict[int, Callable[[int], object]] = {}
        self._losses = Counter[str]()
        self._settled = 0
        self.silence: str | None = None  # why no judge answered, as long as none has
        self._flushing = 0
        self.closed = False
        """Whether this process writes here no more."""
        self._is_over = False
        self._thread: ThreadTask | None = None
        self.failure: str | None = None

    def accept(self) -> None:
        """An answer is to come. This never waits."""
        self._outbox.accept(self._number)

    def count(self, name: str, *, settled: bool = False) -> None:
        """Count a loss of an accepted answer (``dropped``, ``failed``, …); ``settled``: no scores will come."""
        with self._counting:
            self._losses[name] += 1
            self._settled += settled

    def settle(self) -> None:
        """Keep what was counted; a count that the outbox does not take is kept later."""
        with self._counting:
            if self._losses:
                with suppress(sqlite3.Error):
                    self._outbox.settle(self._number, self._losses, self._settled)
                    self._losses, self._settled = Counter(), 0

    def append(self, row: Row, trace_id: str | None, done: Callable[[int], object]) -> int:
        """Keep a scored answer until it is written; then ``done`` gets 0, or 1 if its feedback was withheld, or 2 if it
        was lost.
        """
        content = _packed(row, trace_id, int(time.time() * 1000))
        with self._changed:
            number = self._outbox.append(self._number, content)
            self._pending[number] = done
            self._start()
        return number

    def hurry(self, by: int = 1) -> None:
        """Write all rows now, until this is called with -1."""
        with self._changed:
            self._flushing += by
            if self._pending:
                self._start()

    def wait(self, deadline: float) -> bool:
        """Wait until all is written; False if the store did not take it in time."""
        with self._changed:
            while self._is_busy and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            return not self._pending

    @property
    def _is_busy(self) -> bool:
        return bool(self._pending) or (self._adopted and not self._is_over and self.failure is None)

    def _start(self) -> None:
        with self._changed:
            if not self.closed and (self._thread is None or not self._thread.alive):
                self._thread = start_thread(self._run, name="ragmetrics-mlflow")
            self._changed.notify_all()

    def _run(self) -> None:
        pause = _PAUSE
        while True:
            self._try_to_write()
            pause = _PAUSE if self.failure is None else min(2 * pause, _LONGEST_PAUSE)
            with self._changed:
                if self.closed or not (self._pending or self._outbox.waiting(self._number)):
                    self._thread = None
                    break
                if self.failure is not None:
                    self._changed.wait_for(lambda: self.closed, _SHORTEST_PAUSE_AFTER_FAILURE)
                self._changed.wait_for(lambda: self.closed or self._flushing, pause)
        if self._adopted:
            self.leave()

    def _try_to_write(self) -> None:
        failure = None
        try:
            self._write()
            with self._changed:
                for number, outcome in self._outbox.take_written(self._number).items():
                    self._pending.pop(number, _ignored)(outcome)
        except Exception as error:  # whatever it is, the answers wait and the log says why
            failure = str(error) or type(error).__name__
            if self.failure is None and not self.closed:
                _logger.warning("%s; it will be tried again", for_log(failure))
        with self._changed:
            self.failure = failure
            self._changed.notify_all()

    def _write(self) -> None:
        """Write what waits, unless another process is doing so: metrics, then feedback, then rows in batches."""
        with self._writing:
            if not self._outbox.take_lease(self._number):
                return
            try:
                run_id = self._made_run()
                with explained(run_id):
                    writer = RunWriter(run_id, self._home.uri)
                    if self._outbox.run(self._number, "figures") is None:
                        writer.params(self._service.description)
                        self._take_rows_of_others(writer)
                    while waiting := self._outbox.answers(self._number, measured=False):
                        self._measure(writer, waiting)
                    self._tell(writer)
                    self._publish(writer)
            finally:
                self._outbox.end_lease(self._number)

    def _made_run(self) -> str:
        found = self._outbox.run(self._number, "run_id")
        if found is not None:
            return str(found)
        run_id = new_run("ragmetrics live", self.name, home=self._home)
        self._outbox.note_run(self._number, run_id)
        return run_id

    def _measure(self, writer: RunWriter, waiting: Sequence[Waiting]) -> None:
        found = [(each, row) for each in waiting if (row := self._unpacked(each)) is not None]
        frames = self._service.tables([row for _, row in found])
        causes = frames[0][DIAGNOSIS] if DIAGNOSIS in frames[0] else [None] * len(found)
        figures = LiveFigures(self._outbox.run(self._number, "figures"))
        points: list[Metric] = []
        for (each, row), cause in zip(found, causes, strict=True):
            points += figures.add(row.scores, each.content["time_ms"], cause, gives_no_answer(row.sample.answer))
        writer.metrics(points)
        named = zip((ROWS, CLAIMS), frames, strict=True)
        lines = [Lines(name, list(frame.columns), table_rows(frame)) for name, frame in named]
        self._outbox.note_measured(self._number, [each.number for each, _ in found], figures.state, lines)

    def _unpacked(self, waiting: Waiting) -> Row | None:
        try:
            return _rows().validate_python(waiting.content["row"])
        except ValidationError:  # written by another version
            _logger.warning("a scored answer in the outbox cannot be read; it is left out")
            self._outbox.note_unreadable(self._number, waiting.number)
            return None

    def _tell(self, writer: RunWriter) -> None:
        """Put scores on traces; withhold them if there is no trace, or the store refuses, after a few attempts."""
        last = 0
        while waiting := self._outbox.answers(self._number, measured=True, after=last):
            for each in waiting:
                last, trace_id, is_absent = each.number, each.content["trace_id"], False
                try:
                    for key, score in _rows().validate_python(each.content["row"]).scores.items() if trace_id else ():
                        if score.status != "skipped":
                            add_feedback(trace_id, key, score, writer.run_id, each.content["time_ms"])
                except RagMetricsError as error:
                    if not isinstance(error, TraceAbsentError):
                        writer.check()  # a store that does not answer at all is another matter: then all of it waits
                    is_absent = True
                if is_absent and each.attempts + 1 < _FEEDBACK_ATTEMPTS:
                    self._outbox.note_refused(each.number)
                else:
                    self._outbox.note_told(each.number, withheld=is_absent)

    def _publish(self, writer: RunWriter) -> None:
        """Write the tables, whole, if enough answers are not in them: the longer they are, the more have to wait."""
        count, last, oldest = self._outbox.unlisted(self._number)
        listed = self._outbox.run(self._number, "figures")["step"] - count
        is_old = time.time() - oldest > _LONGEST_WAIT and listed < 100 * count
        if not count or not (self._flushing or self.closed or is_old or count >= max(_FEWEST_ROWS, listed // 10)):
            return
        means = self._take_rows_of_others(writer)
        writer.files({name: partial(self._write_table, name) for name in (ROWS, CLAIMS)}, tables=(ROWS, CLAIMS))
        if means:
            writer.figures(means, step=listed + count)
        mark = uuid4().hex
        writer.tags({_ROWS_TAG: mark})
        self._outbox.note_listed(self._number, last, mark)

    def _take_rows_of_others(self, writer: RunWriter) -> Mapping[str, float]:
        """Take over rows of the run's tables that are not ours; returns the means if there are such rows.

        They are from before, or of processes on other machines, which have an outbox of their own.
        """
        state, mark = self._outbox.run(self._number, "figures"), self._outbox.run(self._number, "mark")
        if state is not None and writer.present_tags().get(_ROWS_TAG) == mark:
            return {}
        figures, taken = LiveFigures(state), []
        for name in (ROWS, CLAIMS):
            stored = writer.table(name)
            if stored is not None:
                taken.append(self._not_ours(Lines(name, stored["columns"], stored["data"])))
                if name == ROWS:
                    figures.add_table(taken[0])
        losses = {} if state is not None else self._former_losses()
        self._outbox.note_measured(self._number, (), figures.state, taken, losses)
        return figures.means if any(each.rows for each in taken) and state is not None else {}

    def _former_losses(self) -> dict[str, int]:
        """What handlers before have said that the run lacks."""
        from mlflow import MlflowClient

        metrics = MlflowClient(self._home.uri).get_run(self._outbox.run(self._number, "run_id")).data.metrics
        return {name: int(metrics.get(f"calls/{name}", 0)) for name in (*_CALLS, "lost")}

    def _not_ours(self, stored: Lines) -> Lines:
        ours = Counter(
            _record(each.columns, row) for each in self._outbox.lines(self._number, stored.name) for row in each.rows
        )
        others = []
        for row in stored.rows:
            record = _record(stored.columns, row)
            if ours[record]:
                ours[record] -= 1
            else:
                others.append(row)
        return stored._replace(rows=others)

    def _write_table(self, name: str, path: Path) -> None:
        columns = self._outbox.columns(self._number, name)
        with path.open("w", encoding="utf-8") as target:
            target.write('{"columns": ' + as_json(columns) + ', "data": [')
            between = "\n"
            for each in self._outbox.lines(self._number, name):
                places = [each.columns.index(column) if column in each.columns else None for column in columns]
                for row in each.rows:
                    target.write(between + as_json([None if place is None else row[place] for place in places]))
                    between = ",\n"
            target.write("]}")

    def leave(self) -> None:
        """Write here no more, unless there are users.

        The last process that leaves says in the run what it lacks, and ends it if it was made here.
        """
        with _LOCK, self._changed:
            if self.closed or self.users:
                return
            del _LIVE_RUNS[self._home.store, self.name]
            self.closed = True
            self._changed.notify_all()
        try:
            self.settle()
            is_last = self._outbox.leave(self._number)
            if self._writing.acquire(timeout=_LAST_WRITE_SECONDS):
                self._writing.release()
                if is_last:
                    self._finish()
            waiting = self._outbox.waiting(self._number)
            if waiting:
                message = "%d scored answers wait in %s, to be written by the next process of this service"
                _logger.warning(message, waiting, self._outbox.path)
        except Exception as error:  # it stays in the outbox
            _logger.warning("%s", for_log(str(error)))
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _finish(self) -> None:
        waiting = self._outbox.waiting(self._number)
        if waiting and self.failure is None:  # of processes that have ended
            self._try_to_write()
            waiting = self._outbox.waiting(self._number)
        losses = Counter[str](self._outbox.run(self._number, "losses"))
        absent = waiting + losses["killed"] + losses["unscored"] + losses["lost"]
        run_id = self._outbox.run(self._number, "run_id") or (self._made_run() if absent else None)
        if run_id is not None:
            with explained(run_id):
                self._say(RunWriter(run_id, self._home.uri), losses, waiting, absent)
        self._outbox.forget(self._number)

    def _say(self, writer: RunWriter, losses: Counter[str], waiting: int, absent: int) -> None:
        """Write the losses as ``calls/dropped``, … and ``ragmetrics.status``."""
        calls = {f"calls/{name}": losses[name] for name in _CALLS if losses[name]} | {"calls/lost": absent - waiting}
        if absent or calls.keys() - {"calls/seen", "calls/lost"}:
            writer.figures(calls)
            _logger.warning("run %s lacks answers: %s, %d unwritten", writer.run_id, calls, waiting)
        failure, status = None, COMPLETE if self._is_made_here else None
        missing = losses["dropped"] + losses["failed"]
        if losses["killed"]:
            failure = f"{absent} answers were accepted and neither written nor dropped: a process was ended"
        elif absent:
            failure = f"{absent} answers are not written"
        elif losses["silent"] and not losses["judged"]:
            failure = self.silence or "no judge answered"
        elif missing > _TOLERATED * losses["seen"]:
            status = f"partial: {losses['dropped']} of {losses['seen']} answers were dropped, {losses['failed']} failed"
        if failure is not None and not self._is_made_here:
            status = status_of(failure)
        if status is not None:
            writer.tags({STATUS_TAG: status})
        if self._is_made_here:
            writer.end(failure)


def _ignored(outcome: int) -> None:
    """An answer of a process that had this number before."""


def _record(columns: Sequence[str], row: Sequence[Any]) -> str:
    return as_json(sorted((column, value) for column, value in zip(columns, row, strict=True) if value is not None))


_LIVE_RUNS: dict[tuple[str, str], LiveRun] = {}
_LOCK = threading.RLock()


def live_run(service: Service, name: str, run_id: str | None, user: object = None) -> LiveRun:
    """The one ``LiveRun`` of that name in this process, for one more ``user``; ``None``: only what waits is written."""
    with _LOCK:
        key = service.home.store, name
        live = _LIVE_RUNS.get(key)
        if live is None:
            live = _LIVE_RUNS[key] = LiveRun(service, name, run_id, adopted=user is None)
        if user is not None:
            live.users.add(user)
        return live


def adopt_runs(service: Service) -> list[LiveRun]:
    """The runs of ended processes of the same store, experiment and suite, whose answers are being written now."""
    with _LOCK:
        return [live_run(service, *each) for each in service.outbox.adopt(service.home)]


def close_runs(deadline: float) -> None:
    """Flush and leave the runs that handlers which nobody closed have used."""
    for live in list(_LIVE_RUNS.values()):
        live.hurry()
        live.wait(deadline)
        live.users.clear()
        live.leave()


@after_fork
def _renew_lock() -> None:
    global _LOCK
    _LOCK = threading.RLock()


_EXPERIMENTS = {"id": "MLFLOW_EXPERIMENT_ID", "name": "MLFLOW_EXPERIMENT_NAME"}


def home_of(suite: Mapping[str, Any]) -> Home:
    """Where a service with a suite of that description makes its run, as MLflow is set up now."""
    import mlflow

    uri = mlflow.get_tracking_uri()
    names = (f"{kind} {os.environ[name]}" for kind, name in _EXPERIMENTS.items() if os.environ.get(name))
    return Home(uri, resolved_store(uri), next(names, ""), hashlib.sha256(as_json(suite).encode()).hexdigest())


def resolved_store(uri: str) -> str:
    """The tracking URI with its path, if it has one, made absolute."""
    scheme, _, path = uri.partition("///")
    if scheme.startswith("sqlite"):
        return f"{scheme}///{Path(path).absolute()}"
    return uri if "://" in uri else str(Path(uri.removeprefix("file:")).absolute())


def new_run(name: str, creation_id: str, *, home: Home | None = None) -> str:
    """The id of a new run in the active experiment. It stays open until ``end_run``, and is active in no thread.

    Called again with the same ``creation_id`` after a failure, it finds the run that the store may have made before it
    failed. With ``home``, the run is made there, whatever store and experiment are active now.
    """
    import mlflow
    from mlflow.tracking.context.registry import resolve_tags

    client = mlflow.MlflowClient(home.uri if home is not None else None)
    created = f"tags.`{_CREATION_TAG}` = '{creation_id}'"
    with explained("(new)"):
        experiment = _experiment(client, home)
        if not client.search_runs([experiment], created):
            tags = resolve_tags({_CREATION_TAG: creation_id, WRITER_TAG: this_process()})
            client.create_run(experiment, run_name=name, tags=tags)
        found = sorted((run.info.start_time, run.info.run_id) for run in client.search_runs([experiment], created))
        for _, surplus in found[1:]:  # made at the same time by another process
            client.delete_run(surplus)
        run_id = str(found[0][1])
        client.update_run(run_id, status="RUNNING")
    return run_id


def _experiment(client: MlflowClient, home: Home | None) -> str:
    from mlflow.tracking.fluent import _get_experiment_id

    kind, _, name = home.experiment.partition(" ") if home is not None else ("", "", "")
    if kind == "name":
        found = client.get_experiment_by_name(name)
        return str(found.experiment_id) if found is not None else client.create_experiment(name)
    return name if kind == "id" else str(_get_experiment_id())


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


def _packed(row: Row, trace_id: str | None, time_ms: int) -> str:
    """A scored answer as JSON."""
    try:
        text = _rows().dump_json(row, warnings=False).decode("utf-8")
    except ValueError:  # metadata of any kind, or half a character
        text = as_json(_rows().dump_python(row, warnings=False))
    return f'{{"trace_id": {as_json(trace_id)}, "time_ms": {time_ms}, "row": {text}}}'


@lru_cache(maxsize=1)
def _rows() -> TypeAdapter[Row]:
    return TypeAdapter(Row)
