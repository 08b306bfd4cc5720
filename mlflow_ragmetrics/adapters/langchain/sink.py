"""Chooses the MLflow run for a handler's answers and counts their outcomes."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from mlflow_ragmetrics.adapters.langchain.recorder import Exchange
from mlflow_ragmetrics.adapters.langchain.scoring import Counts
from mlflow_ragmetrics.core.safe_text import for_log
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.report.marks import Failures, diagnoses_of, diagnosis_columns
from mlflow_ragmetrics.rows.tables import has_diagnoses, items_frame, rows_frame
from mlflow_ragmetrics.tracking.home import Home, home_of
from mlflow_ragmetrics.tracking.live import LiveRun, adopt_runs, live_run
from mlflow_ragmetrics.tracking.live_writer import Service, packed
from mlflow_ragmetrics.tracking.outbox import open_outbox

if TYPE_CHECKING:
    import pandas as pd

_ATTEMPTS = 3
_PAUSE = 0.05
_MOST_WAITING = 50_000
T = TypeVar("T")
_NAMES: dict[Home, str] = {}
_logger = logging.getLogger(__name__)


class MLflowSink:
    """Writes to the run ``run_id``, else the one active at the call, else the last active one, else a new run.

    A run is active in one thread only. Calls in a server's other threads belong to the run in which the handler was
    made, or the last one it saw. Handlers of one process that need a new run in the same place share it.

    ``counts`` belongs to the handler: answers ``written``, ``unwritten`` so far, ``lost`` because the outbox could not
    store them, and ``withheld`` because their trace is unknown.
    """

    def __init__(self, description: Mapping[str, object], run_id: str | None, counts: Counts) -> None:
        self._counts = counts
        counts.add_names(("written", "unwritten", "lost", "withheld"))
        self._home = home_of(description)
        tables = partial(_tables, language=str(description.get("language", "en")))
        self._service = Service(open_outbox(), self._home, description, tables)
        self._named_run = run_id
        self._last_active_run = self._active_run()
        self._name = _NAMES.setdefault(self._home, uuid4().hex)
        self._lives: dict[str, LiveRun] = {}
        self._adopted: list[LiveRun] = []
        self._is_closed = self._has_failed = False
        self._adopt()

    def _adopt(self) -> None:
        self._adopted += self._tried(partial(adopt_runs, self._service)) or []

    def _tried(self, action: Callable[[], T]) -> T | None:
        """Return the result of an action on the outbox; ``None``, with a log line, if it fails repeatedly."""
        for _ in range(_ATTEMPTS):
            try:
                return action()
            except (OSError, sqlite3.Error) as error:
                why = for_log(str(error))
                time.sleep(_PAUSE)
        if not self._has_failed:
            _logger.warning("the outbox cannot be written; answers are lost and counted from now on: %s", why)
        self._has_failed = True
        return None

    def _active_run(self) -> str | None:
        import mlflow

        active = mlflow.active_run()
        is_elsewhere = mlflow.get_tracking_uri() != self._home.uri
        return None if active is None or is_elsewhere else str(active.info.run_id)

    def prepare(self, exchange: Exchange) -> None:
        """Assign a call to the run active in the chain's thread; call this there, when the chain ends."""
        self._last_active_run = self._active_run() or self._last_active_run
        run_id = self._named_run or self._last_active_run
        name = run_id or self._name
        if name not in self._lives:
            live = self._tried(partial(live_run, self._service, name, run_id, self))
            if live is None:
                return
            self._lives[name] = live
        exchange.live = self._lives[name]
        exchange.live.accept()

    def take(self, row: Row, exchange: Exchange) -> None:
        """Store a scored answer until it is written, without waiting for MLflow."""
        live: LiveRun | None = exchange.live
        if live is None:
            self._counts.add("lost")
            return
        if not exchange.traceable:
            self._count(live, "withheld")
        failures = Failures([row])
        if failures.asked:
            live.count("silent" if failures.silence else "judged")
            live.silence = failures.silence
        self._counts.add("unwritten")
        is_kept = None
        if not live.closed and self._counts.snapshot()["unwritten"] <= _MOST_WAITING:
            answer = packed(row, exchange.trace_id)
            is_kept = self._tried(partial(live.append, answer, partial(self._note_done, live)))
        if is_kept is None:
            self._counts.add("unwritten", -1)
            self._count(live, "lost", settled=True)

    def _count(self, live: LiveRun, name: str, *, settled: bool = False) -> None:
        self._counts.add(name)
        live.count(name, settled=settled)

    def _note_done(self, live: LiveRun, outcome: int) -> None:
        self._counts.add("unwritten", -1)
        self._counts.add("lost" if outcome == 2 else "written")
        if outcome == 1:
            self._count(live, "withheld")

    def settle(self) -> None:
        """Store the counts of a batch of calls."""
        for live in list(self._lives.values()):
            live.settle()

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
        said = self._counts.snapshot()
        if said["unwritten"] or said["lost"]:
            reasons = [live.failure for live in self._lives.values() if live.failure]
            why = for_log(reasons[0] if reasons else "there was not enough time")
            message = "scored answers not yet written to MLflow: %d, lost: %d (%s)"
            _logger.warning(message, said["unwritten"], said["lost"], why)
        if said["withheld"]:
            _logger.warning("answers whose feedback was withheld because their trace is unknown: %d", said["withheld"])
        return not said["unwritten"]

    def close(self) -> None:
        """Stop writing; leave each run that no other handler uses."""
        self._is_closed = True
        for live in self._lives.values():
            live.users.discard(self)
            live.leave()
            if live.closed and _NAMES.get(self._home) == live.name:
                del _NAMES[self._home]


def _tables(rows: Sequence[Row], language: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    told = has_diagnoses(key for row in rows for key in row.scores)
    causes = diagnosis_columns(diagnoses_of([row.scores for row in rows], language)) if told else None
    return rows_frame(rows, causes), items_frame(rows)
