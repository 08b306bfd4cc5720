"""The run of a watch: found again by what is watched, written by one process at a time, with the state of the watch.

What has been scored is said by the traces themselves. The state only holds figures and how far the watch has come; it
is kept twice in turn, so that one whole copy is there whatever ends the process.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import Any, Union

from mlflow_ragmetrics.core.json_text import as_json
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.tracking.live import end_run, new_run
from mlflow_ragmetrics.tracking.run import COMPLETE, is_alive
from mlflow_ragmetrics.tracking.writer import STATUS_TAG, WRITER_TAG, RunWriter, explained, this_process

__all__ = ["WatchBusyError", "WatchRun", "watch_run"]

ALARM_TAG = "ragmetrics.alarm"
_SEEN_TAG = "ragmetrics.watch.seen"
_STATES = ("ragmetrics_watch/state_0.json", "ragmetrics_watch/state_1.json")
_SILENCE = 15 * 60
_SETTLING = 0.2


class WatchBusyError(RagMetricsError):
    """Another process is at work on the same watch."""


class WatchRun:
    """The run ``run_id`` of a watch while this process writes it."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._writer = RunWriter(run_id)
        self._saved = 0

    def load(self) -> Union[dict[str, Any], None]:
        """The state that was saved last, of the copies that are whole; ``None`` where there is none.

        ``RagMetricsError`` where the store does not give what it has: begun anew, a watch would forget its alarms.
        """
        with explained(self.run_id):
            found = [state for name in _STATES if (state := self._copy(name)) is not None]
        newest = max(found, key=lambda state: state["number"], default=None)
        self._saved = 0 if newest is None else newest["number"]
        return None if newest is None else dict(newest["state"])

    def _copy(self, name: str) -> Union[dict[str, Any], None]:
        try:
            found = self._writer.table(name)
            return found if found is not None and found["digest"] == _digest(found["state"]) else None
        except (ValueError, KeyError, TypeError):  # cut short while it was written
            return None

    def save(self, state: Mapping[str, Any]) -> None:
        """Keep the state in place of the older one of the two copies, and say that this process is there."""
        self._saved += 1
        content = as_json({"number": self._saved, "digest": _digest(state), "state": state})
        with explained(self.run_id):
            self._writer.files({_STATES[self._saved % 2]: content})
            self._writer.tags({_SEEN_TAG: int(time.time())})

    def log(self, figures: Mapping[str, float], step: int, note: str, alarm: str) -> None:
        """The figures of a pass, the description of the run, and what is wrong (empty where nothing is)."""
        with explained(self.run_id):
            self._writer.figures(figures, step=step)
            self._writer.tags({"mlflow.note.content": note, ALARM_TAG: alarm or "none"})

    def describe(self, description: Mapping[str, Any]) -> None:
        """Write what is watched and how as params."""
        with explained(self.run_id):
            self._writer.params(description)


@contextmanager
def watch_run(name: str, watch_id: str) -> Iterator[WatchRun]:
    """The run of the watch ``watch_id`` of the active experiment, made where there is none, for one process.

    ``WatchBusyError`` where another process is at it: one of this machine that lives, or one of another that has said
    so within the last 15 minutes. When the block ends, the run is ended until the next pass.
    """
    run_id = new_run(name, watch_id)
    writer, me = RunWriter(run_id), this_process()
    with explained(run_id):
        tags = writer.present_tags()
        other = tags.get(WRITER_TAG, "")
        if other not in ("", me) and _is_at_work(other, tags.get(_SEEN_TAG, "")):
            raise WatchBusyError(f"another process ({' '.join(other.split()[:2])}) is at work on this watch")
        writer.tags({WRITER_TAG: me, _SEEN_TAG: int(time.time()), STATUS_TAG: COMPLETE})
        time.sleep(_SETTLING)  # of two that came at once the last one stays
        if writer.present_tags().get(WRITER_TAG) != me:
            raise WatchBusyError("another process began the same watch at the same time")
    try:
        yield WatchRun(run_id)
    finally:
        with suppress(RagMetricsError):
            with explained(run_id):
                writer.tags({_SEEN_TAG: 0})
            end_run(run_id)


def _is_at_work(writer: str, seen: str) -> bool:
    machine, _, process = writer.partition(" ")
    if machine == platform.node():
        return seen != "0" and is_alive(process)
    return time.time() - float(seen or 0) < _SILENCE


def _digest(state: Any) -> str:
    return blake2b(as_json(state).encode(), digest_size=8).hexdigest()
