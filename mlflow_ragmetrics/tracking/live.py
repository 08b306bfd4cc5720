"""Writes answers to MLflow runs as they arrive, in background threads: running figures, and scores on traces.

An answer's scores go to the chain's own trace, or to a new one if the chain made none. Several outboxes may write to
one run: each stores its sums in a tag of the run, and the figures come from their total. The data of an answer depends
only on the answers before it, and progress is stored after each step. So a step can be repeated after a failure.
"""

from __future__ import annotations

import base64
import json
import logging
import sqlite3
import threading
import time
import weakref
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from mlflow_ragmetrics.core.safe_text import as_json, for_log
from mlflow_ragmetrics.engine.program import Row, is_judged, judge_failure
from mlflow_ragmetrics.engine.threads import after_fork, start_thread
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.results.tables import record_of, row_of
from mlflow_ragmetrics.text.messages import say
from mlflow_ragmetrics.tracking.outbox import ANSWERS, LiveFigures, Outbox, Waiting, open_outbox, outbox_in_memory
from mlflow_ragmetrics.tracking.run import Home, home_of, new_run, status_of
from mlflow_ragmetrics.tracking.traces import add_feedback, feedback_on, write_live_traces
from mlflow_ragmetrics.tracking.writer import STATUS_TAG, RunWriter, explained, unless_absent, write_errors

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Run

T = TypeVar("T")
WRITTEN, WITHHELD, UNREADABLE = range(3)
"""Outcomes of an answer."""
_MOST_WAITING = 50_000
_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_SHORTEST_PAUSE_AFTER_FAILURE = 0.1
_LAST_WRITE_SECONDS = 3.0
_ATTEMPTS = 3
_TOLERATED = 0.05
_CALLS = ("seen", "dropped", "failed", "skipped", "withheld")
_SUMS_TAG = "ragmetrics.sums."
_logger = logging.getLogger(__name__)
_NAMES: dict[Home, str] = {}


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


@dataclass(frozen=True)
class Service:
    """The outbox, the home of its runs, and the suite's description."""

    outbox: Outbox
    home: Home
    description: Mapping[str, Any]


class MLflowSink:
    """Writes to the run ``run_id``, else the one active at the call, else the last active one, else a new run.

    A run is active in one thread only. Calls in a server's other threads belong to the run in which the handler was
    made, or the last one it saw. Handlers of one process that need a new run in the same place share it.

    ``counts`` belongs to the handler: answers ``written``, ``unwritten`` so far, ``lost`` because the outbox could not
    store them, and ``withheld`` because their trace is unknown.
    """

    def __init__(self, description: Mapping[str, Any], run_id: str | None, counts: Counts) -> None:
        self._counts = counts
        self._service = Service(open_outbox(), home_of(description), description)
        self._named_run = run_id
        self._last_active_run = self._active_run()
        self._name = _NAMES.setdefault(self._service.home, uuid4().hex)
        self._lives: dict[tuple[Outbox, str], LiveRun] = {}
        self._adopted: list[LiveRun] = []
        self._is_closed = False
        self._adopt()

    def _adopt(self) -> None:
        self._adopted += self._tried(lambda: adopt_runs(self._service))

    def _tried(self, action: Callable[[], T]) -> T:
        """Return the result of an action on the outbox; if it fails twice, on one in memory, from then on."""
        failure = ""
        for _ in range(2):
            try:
                return action()
            except (OSError, sqlite3.Error) as error:
                failure = str(error)
        message = "the outbox cannot be written; answers wait for MLflow in memory from now on: %s"
        _logger.warning(message, for_log(failure))
        self._service = replace(self._service, outbox=outbox_in_memory())
        return action()

    def _active_run(self) -> str | None:
        import mlflow

        active = mlflow.active_run()
        is_elsewhere = mlflow.get_tracking_uri() != self._service.home.uri
        return None if active is None or is_elsewhere else str(active.info.run_id)

    def prepare(self) -> LiveRun:
        """Return the run of a call, which counts the call; use this in the chain's thread, when the chain ends."""
        self._last_active_run = self._active_run() or self._last_active_run
        live = self._tried(self._live)
        live.count("seen")
        return live

    def _live(self) -> LiveRun:
        run_id = self._named_run or self._last_active_run
        place = self._service.outbox, run_id or self._name
        if place not in self._lives:
            self._lives[place] = live_run(self._service, place[1], run_id, self)
        return self._lives[place]

    def take(self, row: Row, live: LiveRun, trace_id: str | None, traceable: bool) -> None:
        """Store a scored answer until it is written, without waiting for MLflow.

        ``live`` is from ``prepare``; ``traceable`` is False if the chain has a trace with an unknown id.
        """
        if not traceable:
            self._counts.add("withheld", live)
        if is_judged(row):
            live.count("judged")
        elif failure := judge_failure(row):
            live.count("silent")
            live.silence = say("marks.silent", error=failure)
        if self._counts.add("unwritten") > _MOST_WAITING or live.closed:
            self._counts.add("unwritten", change=-1)
            self._counts.add("lost", live, settled=True)
            return
        is_new = traceable and trace_id is None

        def append() -> None:
            nonlocal live
            if live.outbox is not self._service.outbox:  # since the outbox cannot be written
                live.count("seen", by=-1)
                live = self.prepare()
            live.append(row, f"tr-{uuid4().hex}" if is_new else trace_id, partial(self._note_done, live), is_new=is_new)

        self._tried(append)

    def _note_done(self, live: LiveRun, outcome: int) -> None:
        self._counts.add("unwritten", change=-1)
        self._counts.add("lost" if outcome == UNREADABLE else "written")
        if outcome == WITHHELD:
            self._counts.add("withheld", live)

    def flush(self, timeout: float) -> bool:
        """Write all waiting answers; False, with a warning and their number, if MLflow did not accept them."""
        deadline = time.monotonic() + timeout
        if self._is_closed:
            return not self._counts.snapshot()["unwritten"]
        self._adopt()
        lives = [*self._lives.values(), *self._adopted]
        for live in lives:
            live.wait(deadline)
        self._adopted = [live for live in self._adopted if not live.closed]
        counts = self._counts.snapshot()
        if counts["unwritten"] or counts["lost"]:
            reasons = [live.failure for live in self._lives.values() if live.failure]
            why = for_log(reasons[0] if reasons else "there was not enough time")
            message = "scored answers not yet written to MLflow: %d, lost: %d (%s)"
            _logger.warning(message, counts["unwritten"], counts["lost"], why)
        if counts["withheld"]:
            message = "answers without feedback, because their trace is unknown or the store does not accept it: %d"
            _logger.warning(message, counts["withheld"])
        return not counts["unwritten"]

    def close(self) -> None:
        """Stop writing; leave each run that no other handler uses."""
        self._is_closed, stuck = True, 0
        for live in self._lives.values():
            live.users.discard(self)
            if live.outbox is not self._service.outbox:
                stuck += len(live.pending)
            elif stuck:  # in an outbox that cannot be written
                live.count("lost", by=stuck)
            live.leave()
            if live.closed and _NAMES.get(self._service.home) == live.name:
                del _NAMES[self._service.home]


class LiveRun:
    """A run that receives answers as they arrive, written by a background thread.

    It is the run ``run_id``, or a run that is created for ``name`` with the first answer. Answers stay in the outbox
    until they are written. If the store fails, the failure is logged once, and writing is retried after increasing
    pauses.
    """

    def __init__(self, service: Service, name: str, run_id: str | None, *, adopted: bool) -> None:
        self.name = name
        self.outbox = service.outbox
        self.users: weakref.WeakSet[object] = weakref.WeakSet()
        """The objects that use the run in this process; see ``use``."""
        self._service = service
        self._run_id = run_id
        self._adopted = adopted
        self._language = str(service.description.get("language", "en"))
        self._tag = f"{_SUMS_TAG}{service.outbox.id}"
        self._join()
        self._begin()
        after_fork(self._begin_in_fork)
        if self.outbox.waiting(self._number) or adopted:
            self._start()

    def _join(self) -> None:
        self._number = self.outbox.join(self._service.home, self.name, self._run_id)

    def _begin_in_fork(self) -> None:
        if self.outbox.is_in_memory:  # which is empty there
            self._join()
        self._begin()

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self.pending: dict[int, Callable[[int], object]] = {}
        """This process's answers that are not written, by number, with what is called when they are."""
        self.silence: str | None = None  # why no judge has answered so far
        self._flushing = 0
        self.closed = False
        """Whether this process has stopped writing to the run."""
        self._is_over = False
        self._ended: threading.Event | None = None  # of the writing thread
        self.failure: str | None = None

    def use(self, user: object) -> None:
        """Keep the run open until ``user`` leaves, also if it was opened only to write waiting answers."""
        with self._changed:
            self.users.add(user)
            self._adopted = False
            self._changed.notify_all()

    def count(self, name: str, *, by: int = 1, settled: bool = False) -> None:
        """Count an answer (``seen``, ``dropped``, ``failed``, …); ``settled``: it will not get scores here."""
        self.outbox.count(self._number, name, *(("settled",) if settled else ()), by=by)

    def append(self, row: Row, trace_id: str | None, done: Callable[[int], object], *, is_new: bool) -> None:
        """Store a scored answer until it is written to its trace, which ``is_new`` or the chain's.

        Then ``done`` is called with its outcome, such as ``WRITTEN``.
        """
        content = {"trace_id": trace_id, "is_new": is_new, "time_ms": int(time.time() * 1000), "row": record_of(row)}
        with self._changed:
            self.pending[self.outbox.append(self._number, content)] = done
            self._start()

    def wait(self, deadline: float) -> bool:
        """Write without pauses until all answers are written; ``False`` if the deadline passes first."""
        with self._changed:
            self._flushing += 1
            if self.pending:
                self._start()
            while self._is_writing and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            self._flushing -= 1
            return not self.pending

    @property
    def _is_writing(self) -> bool:
        return bool(self.pending) or (self._adopted and not self._is_over and self.failure is None)

    def _start(self) -> None:
        with self._changed:
            if not self.closed and (self._ended is None or self._ended.is_set()):
                self._ended = start_thread(self._run, name="ragmetrics-mlflow")
            self._changed.notify_all()

    def _run(self) -> None:
        pause = _PAUSE
        while True:
            waiting = self._try_to_write()
            pause = _PAUSE if self.failure is None else min(2 * pause, _LONGEST_PAUSE)
            with self._changed:
                if self.closed or not (self.pending or waiting):
                    self._ended = None
                    break
                if self.failure is not None:
                    self._changed.wait_for(lambda: self.closed, _SHORTEST_PAUSE_AFTER_FAILURE)
                self._changed.wait_for(lambda: self.closed or self._flushing, pause)
        if self._adopted:
            self.leave()

    def _try_to_write(self) -> bool:
        """Write waiting answers; returns whether some still wait."""
        waiting, failure = True, None
        try:
            with self._writing:
                self._write()
            with self._changed:
                for number, outcome in self.outbox.take_written(self._number).items():
                    if (done := self.pending.pop(number, None)) is not None:  # else of an earlier process
                        done(outcome)
            waiting = self.outbox.waiting(self._number) > 0
        except Exception as error:  # after any error, the answers wait and the error is logged
            failure = str(error) or type(error).__name__
            if self.failure is None and not self.closed:
                _logger.warning("%s; will be retried", for_log(failure))
        with self._changed:
            self.failure = failure
            self._changed.notify_all()
        return waiting

    def leave(self) -> None:
        """Stop writing to the run, unless it has users.

        When the last process leaves, it records losses in the run, and ends the run if it was created here.
        """
        with _LOCK, self._changed:
            if self.closed or self.users:
                return
            del _LIVE_RUNS[self.outbox, self._service.home.store, self.name]
            self.closed = True
            self._changed.notify_all()
        try:
            is_last = self.outbox.leave(self._number)
            if self._writing.acquire(timeout=_LAST_WRITE_SECONDS):
                self._writing.release()
                if is_last:
                    if self.failure is None and self.outbox.waiting(self._number):  # from processes that have ended
                        self._try_to_write()
                    self._finish()
            waiting = self.outbox.waiting(self._number)
            if waiting:
                message = "scored answers left in %s for the next process of this service: %d"
                _logger.warning(message, self.outbox.path, waiting)
        except Exception as error:  # it stays in the outbox
            _logger.warning("%s", for_log(str(error)))
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _write(self) -> None:
        """Write figures, then traces, unless another process is writing."""
        if not self.outbox.take_lease(self._number):
            return
        try:
            run = self._present_run() or self._made_run()
            with explained(run.info.run_id):
                writer = RunWriter(run.info.run_id, self._service.home.uri)
                others = self._others(run)
                if self.outbox.figures(self._number) is None:
                    writer.suite(self._service.description)
                    self.outbox.note_measured(self._number, (), LiveFigures(None).state)
                while waiting := self.outbox.answers(self._number, measured=False):
                    self._measure(writer, waiting, others)
                self._share(writer, run, others)
                self._deliver(writer, run.info.experiment_id)
        except RagMetricsError:
            if self.outbox.run_id(self._number) is None or self._present_run() is not None:
                raise  # else the run was deleted meanwhile: its answers go to a new one
        finally:
            self.outbox.end_lease(self._number)

    @cached_property
    def _client(self) -> MlflowClient:
        from mlflow import MlflowClient

        return MlflowClient(self._service.home.uri)

    def _present_run(self) -> Run | None:
        """The run; ``None``, with a warning, if it was deleted, and ``None`` if it is not created yet."""
        run_id = self.outbox.run_id(self._number)
        if run_id is None:
            return None
        with explained(run_id):
            run = unless_absent(lambda: self._client.get_run(run_id))
        if run is not None and run.info.lifecycle_stage == "active":
            return run
        _logger.warning("run %s does not exist or was deleted: its waiting answers go to a new run", run_id)
        self.outbox.note_run(self._number, None)
        return None

    def _made_run(self) -> Run:
        run_id = new_run(f"ragmetrics live {self.name[:6]}", self.name, home=self._service.home)
        self.outbox.note_run(self._number, run_id)
        return self._client.get_run(run_id)

    def _others(self, run: Run) -> list[Mapping[str, Any]]:
        """The sums of other outboxes in the run.

        If the run has sums of this outbox that the outbox lacks, it continues from them. It lacks them if it has
        forgotten the run since, or after a power failure.
        """
        packed_sums = {name: text for name, text in run.data.tags.items() if name.startswith(_SUMS_TAG)}
        sums = {name: json.loads(zlib.decompress(base64.b85decode(text))) for name, text in packed_sums.items()}
        shared, state = sums.pop(self._tag, None), self.outbox.figures(self._number)
        if shared is not None and (state is None or state["sums"].get(ANSWERS, 0) < shared["sums"].get(ANSWERS, 0)):
            self.outbox.note_measured(self._number, (), {"sums": shared["sums"], "windows": {}})
            losses = {"damaged": 1} if shared["run"] == self._number else shared["losses"]
            for name, number in {**losses, "settled": losses.get("seen", 0)}.items():
                self.outbox.count(self._number, name, by=number)
        return list(sums.values())

    def _measure(self, writer: RunWriter, waiting: Sequence[Waiting], others: Sequence[Mapping[str, Any]]) -> None:
        figures = LiveFigures(self.outbox.figures(self._number), others)
        points: list[Metric] = []
        for answer in waiting:
            if (row := self._row_of(answer)) is not None:
                points += figures.add(row, answer.content["time_ms"])
        writer.metrics(points)
        self.outbox.note_measured(self._number, [answer.number for answer in waiting], figures.state)

    def _row_of(self, answer: Waiting) -> Row | None:
        try:
            return row_of(answer.content["row"])
        except (ValueError, KeyError):  # written by another version
            _logger.warning("a scored answer in the outbox cannot be read and is left out")
            self.outbox.count(self._number, "lost")
            self.outbox.note([answer.number], measured=1, outcome=UNREADABLE)
            return None

    def _share(self, writer: RunWriter, run: Run, others: Sequence[Mapping[str, Any]]) -> None:
        """Store the sums in the run, then add up those of all outboxes.

        Each outbox writes before it reads, so the last of several that write at once knows all sums.
        """
        state = self.outbox.figures(self._number) or LiveFigures(None).state
        losses = self.outbox.counts(self._number)
        sums = as_json({"sums": state["sums"], "losses": losses, "run": self._number})
        text = base64.b85encode(zlib.compress(sums.encode(), 9)).decode()  # fits into a tag
        if run.data.tags.get(self._tag) == text:
            return
        writer.tags({self._tag: text})
        present = self._others(self._client.get_run(writer.run_id))
        if present != list(others):
            figures = LiveFigures(state, present)
            writer.figures(figures.figures, step=figures.step)

    def _deliver(self, writer: RunWriter, experiment_id: str) -> None:
        """Write scores to traces; after a few failed attempts, withhold them."""
        last = 0
        while waiting := self.outbox.answers(self._number, measured=True, after=last):
            last = waiting[-1].number
            new = [answer for answer in waiting if answer.content["is_new"]]
            written = set(self._make_traces(new, writer, experiment_id))
            written |= {answer.number for answer in waiting if answer not in new and self._has_feedback(answer, writer)}
            ids = {answer.content["trace_id"] for answer in waiting if answer.number in written} - {None}
            self._client.link_traces_to_run(trace_ids=sorted(ids), run_id=writer.run_id)
            self.outbox.note(written, outcome=WRITTEN)
            for answer in waiting:
                if answer.number not in written:
                    outcome = {"outcome": WITHHELD} if answer.attempts + 1 >= _ATTEMPTS else {}
                    self.outbox.note([answer.number], attempts=answer.attempts + 1, **outcome)

    def _make_traces(self, answers: Sequence[Waiting], writer: RunWriter, experiment_id: str) -> Iterable[int]:
        """Write a trace for each answer; returns the numbers of those that the store accepts."""
        contents = [answer.content for answer in answers]
        rows = {str(content["trace_id"]): (row_of(content["row"]), int(content["time_ms"])) for content in contents}
        try:
            write_live_traces(rows, writer.run_id, experiment_id, self._service.home.uri, self._language)
            return [answer.number for answer in answers]
        except write_errors():
            writer.present_tags()  # raises if the store does not answer: then everything waits
            if len(answers) == 1:
                return []
        return [number for answer in answers for number in self._make_traces([answer], writer, experiment_id)]

    def _has_feedback(self, answer: Waiting, writer: RunWriter) -> bool:
        """Write the scores to the chain's own trace, if it is known; ``False`` if the store does not accept them."""
        trace_id, row = answer.content["trace_id"], row_of(answer.content["row"])
        answered = {key: score for key, score in row.scores.items() if score.status != "skipped"}
        feedback = feedback_on(answered, writer.run_id, self._language)
        try:
            for assessment in feedback if trace_id is not None else ():
                add_feedback(trace_id, assessment, writer.run_id, answer.content["time_ms"])
        except RagMetricsError:
            writer.present_tags()  # raises if the store does not answer: then everything waits
            return False
        return True

    def _finish(self) -> None:
        """Record losses in the run, and end it if it was created here."""
        waiting = self.outbox.waiting(self._number)
        if waiting and self.outbox.is_in_memory:
            self.outbox.count(self._number, "lost", by=waiting)
            waiting = 0
        losses = self.outbox.counts(self._number)
        lacks = waiting or losses["damaged"] or _absent(losses)
        run = self._present_run() or (self._made_run() if lacks else None)
        if run is not None:
            with explained(run.info.run_id):
                writer = RunWriter(run.info.run_id, self._service.home.uri)
                others = self._others(run)
                self._share(writer, run, others)
                losses = self.outbox.counts(self._number)
                for sums in others:
                    losses.update(sums["losses"])
                self._write_status(writer, losses, waiting)
        self.outbox.forget(self._number)

    def _write_status(self, writer: RunWriter, losses: Counter[str], waiting: int) -> None:
        """Write the losses as ``calls/dropped``, … and ``ragmetrics.status``."""
        absent = _absent(losses)
        calls = {f"calls/{name}": losses[name] for name in _CALLS if losses[name]}
        # an outbox older than the run lacks answers that are in the run
        calls |= {} if losses["damaged"] else {"calls/lost": absent}
        if absent or waiting or calls.keys() - {"calls/seen", "calls/lost"}:
            writer.figures(calls)
            _logger.warning("run %s lacks answers: %s, %d unwritten", writer.run_id, calls, waiting)
        failure = dropped = None
        if losses["damaged"]:
            failure = "the outbox was damaged: the number of missing answers is unknown, and some may count twice"
        elif losses["killed"]:
            number = absent + waiting
            failure = f"answers lost because a process ended before they were written: at least {number}"
        elif absent or waiting:
            failure = f"answers not written: {absent + waiting}"
        elif losses["silent"] and not losses["judged"]:
            failure = self.silence or "no judge answered"
        elif losses["dropped"] + losses["failed"] > _TOLERATED * losses["seen"]:
            dropped = f"{losses['dropped']} of {losses['seen']} answers dropped, {losses['failed']} failed"
        if writer.run_id != self.name:  # created here
            writer.tags({STATUS_TAG: status_of(None, dropped)})
            writer.end(failure)
        elif failure or dropped:
            writer.tags({STATUS_TAG: status_of(failure, dropped)})


def _absent(losses: Mapping[str, int]) -> int:
    """The number of answers that were never scored or are not written."""
    return sum(losses.get(name, 0) for name in ("killed", "unscored", "lost"))


_LIVE_RUNS: dict[tuple[Outbox, str, str], LiveRun] = {}
_LOCK = threading.RLock()


def live_run(service: Service, name: str, run_id: str | None, user: object = None) -> LiveRun:
    """This process's ``LiveRun`` with this name; without a ``user``, it only writes waiting answers."""
    with _LOCK:
        key = service.outbox, service.home.store, name
        live = _LIVE_RUNS.get(key)
        if live is None:
            live = _LIVE_RUNS[key] = LiveRun(service, name, run_id, adopted=user is None)
        if user is not None:
            live.use(user)
        return live


def adopt_runs(service: Service) -> list[LiveRun]:
    """Start writing the answers left by ended processes with the same store, experiment and suite; return the runs."""
    with _LOCK:
        return [live_run(service, *row) for row in service.outbox.adopt(service.home)]


def close_runs(deadline: float) -> None:
    """Flush and leave the runs of handlers that were not closed."""
    for live in list(_LIVE_RUNS.values()):
        live.wait(deadline)
        live.users.clear()
        live.leave()


@after_fork
def _renew_lock() -> None:
    global _LOCK
    _LOCK = threading.RLock()
