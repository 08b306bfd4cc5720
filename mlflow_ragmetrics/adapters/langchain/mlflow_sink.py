"""Scored answers into MLflow runs and onto traces, on a thread of its own: what cannot be written waits."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from mlflow_ragmetrics.adapters.langchain.capture import Exchange
from mlflow_ragmetrics.adapters.langchain.ledger import Entry, Ledger
from mlflow_ragmetrics.adapters.langchain.sinks import Scored
from mlflow_ragmetrics.errors import RagMetricsError

__all__ = ["MLflowSink"]

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
