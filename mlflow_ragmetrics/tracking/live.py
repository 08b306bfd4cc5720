"""Writes answers to MLflow runs as they arrive, in background threads."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

from mlflow_ragmetrics.core.safe_text import for_log
from mlflow_ragmetrics.engine.program import Row, is_judged, judge_failure
from mlflow_ragmetrics.engine.threads import after_fork, start_thread
from mlflow_ragmetrics.text.messages import say
from mlflow_ragmetrics.tracking.live_writer import UNREADABLE, WITHHELD, LiveWriter, Service, packed
from mlflow_ragmetrics.tracking.outbox import Outbox, open_outbox, outbox_in_memory
from mlflow_ragmetrics.tracking.run import Home, home_of

T = TypeVar("T")
_MOST_WAITING = 50_000
_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_SHORTEST_PAUSE_AFTER_FAILURE = 0.1
_LAST_WRITE_SECONDS = 3.0
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


class MLflowSink:
    """Writes to the run ``run_id``, else the one active at the call, else the last active one, else a new run.

    A run is active in one thread only. Calls in a server's other threads belong to the run in which the handler was
    made, or the last one it saw. Handlers of one process that need a new run in the same place share it.

    ``counts`` belongs to the handler: answers ``written``, ``unwritten`` so far, ``lost`` because the outbox could not
    store them, and ``withheld`` because their trace is unknown.
    """

    def __init__(self, description: Mapping[str, Any], run_id: str | None, counts: Counts) -> None:
        self._counts = counts
        self._home = home_of(description)
        self._service = Service(open_outbox(), self._home, description)
        self._named_run = run_id
        self._last_active_run = self._active_run()
        self._name = _NAMES.setdefault(self._home, uuid4().hex)
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
        is_elsewhere = mlflow.get_tracking_uri() != self._home.uri
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
        answer = packed(row, f"tr-{uuid4().hex}" if is_new else trace_id, is_new=is_new)

        def append() -> int:
            nonlocal live
            if live.outbox is not self._service.outbox:  # since the outbox cannot be written
                live.count("seen", by=-1)
                live = self.prepare()
            return live.append(answer, partial(self._note_done, live))

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
            live.hurry()
        for live in lives:
            live.wait(deadline)
            live.hurry(-1)
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
                stuck += live.unwritten
            elif stuck:  # in an outbox that cannot be written
                live.count("lost", by=stuck)
            live.leave()
            if live.closed and _NAMES.get(self._home) == live.name:
                del _NAMES[self._home]


class LiveRun:
    """A run that receives answers as they arrive, written by a background thread.

    It is the run ``run_id``, or a run that is created for ``name`` with the first answer. Answers stay in the outbox
    until they are written. If the store fails, the failure is logged once, and writing is retried after increasing
    pauses.
    """

    def __init__(self, service: Service, name: str, run_id: str | None, *, adopted: bool) -> None:
        self.name = name
        self._service = service
        self._run_id = run_id
        self._adopted = adopted
        self.outbox = service.outbox
        self.users: weakref.WeakSet[object] = weakref.WeakSet()
        """The objects that use the run in this process; see ``use``."""
        self._join()
        self._begin()
        after_fork(self._begin_in_fork)
        if self.outbox.waiting(self._number) or adopted:
            self._start()

    def _join(self) -> None:
        self._number = self.outbox.join(self._service.home, self.name, self._run_id)
        self._writer = LiveWriter(self._service, self.name, self._number)

    def _begin_in_fork(self) -> None:
        if self.outbox.is_in_memory:  # which is empty there
            self._join()
        self._begin()

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._pending: dict[int, Callable[[int], object]] = {}
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

    def append(self, answer: Mapping[str, Any], done: Callable[[int], object]) -> int:
        """Store a scored answer (``packed``) until it is written.

        Then ``done`` is called with its outcome, such as ``WRITTEN``.
        """
        with self._changed:
            number = self.outbox.append(self._number, answer)
            self._pending[number] = done
            self._start()
        return number

    def hurry(self, by: int = 1) -> None:
        """Write without pauses, until this is called with -1."""
        with self._changed:
            self._flushing += by
            if self._pending:
                self._start()

    def wait(self, deadline: float) -> bool:
        """Wait until all answers are written; ``False`` if the deadline passes first."""
        with self._changed:
            while self._is_busy and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            return not self._pending

    @property
    def unwritten(self) -> int:
        """The number of this process's answers that are not written."""
        return len(self._pending)

    @property
    def _is_busy(self) -> bool:
        return bool(self._pending) or (self._adopted and not self._is_over and self.failure is None)

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
                if self.closed or not (self._pending or waiting):
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
                self._writer.write()
            with self._changed:
                for number, outcome in self.outbox.take_written(self._number).items():
                    if (done := self._pending.pop(number, None)) is not None:  # else of an earlier process
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
                    self._writer.finish(self.silence)
            waiting = self.outbox.waiting(self._number)
            if waiting:
                message = "scored answers left in %s for the next process of this service: %d"
                _logger.warning(message, self.outbox.path, waiting)
        except Exception as error:  # it stays in the outbox
            _logger.warning("%s", for_log(str(error)))
        with self._changed:
            self._is_over = True
            self._changed.notify_all()


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
        live.hurry()
        live.wait(deadline)
        live.users.clear()
        live.leave()


@after_fork
def _renew_lock() -> None:
    global _LOCK
    _LOCK = threading.RLock()
