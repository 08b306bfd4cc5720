"""Rows into an MLflow run while they come: metrics with steps, tables that grow, feedback on the chain's traces.

What has come and is not written yet is in a ``Journal``, a file that outlives a killed process.
"""

from __future__ import annotations

import errno
import hashlib
import json
import mmap
import os
import shutil
import tempfile
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from mlflow_ragmetrics.core.json_text import as_json
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.tracking.describe import DIAGNOSIS, cause_figure
from mlflow_ragmetrics.tracking.feedback import feedback_of, write_assessment
from mlflow_ragmetrics.tracking.run import COMPLETE, is_being_written, status_of
from mlflow_ragmetrics.tracking.tables import LOST_TAG, RECEIVED_TAG, GrowingTable, Parts, Place, table_rows
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

__all__ = [
    "Journal",
    "LiveRun",
    "Place",
    "TraceAbsentError",
    "add_feedback",
    "end_run",
    "live_run",
    "new_run",
    "settle",
]


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
        self._marks: Counter[str] = Counter()
        folder = tempfile.mkdtemp(prefix="ragmetrics-")
        weakref.finalize(self, _remove_own, folder, os.getpid())
        self._tables = [GrowingTable(Path(folder), name) for name in (ROWS, CLAIMS)]
        self._parts = Parts(self._writer, self._tables, Path(folder))

    @property
    def part(self) -> str:
        """The name of this process's part of the run."""
        return self._parts.id

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
        figures |= {name: float(count) for name, count in self._marks.items() if count}
        step, self._step = self._step, self._step + 1
        return [Metric(name, value, time_ms, step) for name, value in figures.items()]

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
        first, (head, claims) = self.rows, self._tables
        with explained(self.run_id):
            head.extend(list(rows.columns), table_rows(rows))
            try:
                claims.extend(list(items.columns), table_rows(items))
            except BaseException:
                head.take_back()
                raise
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


class Journal:
    """What a process has accepted for a live run, in a file that is there after the process was killed.

    All processes of one user and ``store`` share a ``folder``; an ``OSError`` says that there can be no file in it.
    Its head counts the answers that were accepted, and those that are settled without a line here: never scored, or
    dropped, or written all the same. Lines follow, ``[number, answer]`` for each scored answer, ``[number, change]``
    where it came further, ``[number, null]`` once it is written, ``[null, about]`` on the process and the run. So what
    is missing after a kill is known exactly: accepted, less settled, less the answers that have a line.

    The file is locked while its process lives. Nothing is synced: it outlives a process, not a machine without power.
    """

    def __init__(self, folder: Path, store: str) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / f"{_prefix(store)}-{uuid4().hex[:12]}.jsonl"
        begun = path if os.name == "nt" else path.with_suffix(".new")  # nobody finds it before it is locked
        descriptor = os.open(begun, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        file = os.fdopen(descriptor, "r+b", buffering=0)
        try:
            _lock(file)
            if file.write(bytes(_HEAD) + b"\n") <= _HEAD:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(begun))
            os.replace(begun, path)
            self._open(path, file)
        except BaseException:
            file.close()
            for each in (begun, path):
                each.unlink(missing_ok=True)
            raise

    def _open(self, path: Path, file: Any) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._lines = threading.Lock()
        self._places: dict[int, int] = {}  # of the answers that are not written: where their lines begin
        self._changes: dict[int, dict[str, Any]] = {}
        self._taken = 0
        self.about: dict[str, Any] = {}
        self._file = file
        self.size = _HEAD + 1
        self._map: Any = mmap.mmap(file.fileno(), _HEAD)
        self._counts: Any = memoryview(self._map).cast("Q")

    @classmethod
    def left_in(cls, folder: Path, store: str) -> Iterator[Journal]:
        """The journals of processes that ended, oldest first; they belong to this process from now on."""
        found = []
        for path in folder.glob(f"{_prefix(store)}-*.jsonl") if folder.is_dir() else ():
            with suppress(OSError):
                found.append((path.stat().st_mtime, path))
        for _, path in sorted(found):
            journal = cls._left(path)
            if journal is not None:
                yield journal

    @classmethod
    def _left(cls, path: Path) -> Journal | None:
        """The journal of a process that ended; ``None`` where it lives, or the file is no journal."""
        with suppress(OSError, ValueError):
            if os.name == "nt":  # an open file cannot be renamed there
                os.replace(path, path.with_suffix(".left"))
                os.replace(path.with_suffix(".left"), path)
            file = path.open("r+b", buffering=0)
            if not _lock(file) or not path.exists() or not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                file.close()
                return None
            journal = cls.__new__(cls)
            journal._open(path, file)
            journal._read()
            return journal
        return None

    def _read(self) -> None:
        """Read all lines, and cut the last one off where it is not whole."""
        with self.path.open("rb") as file:
            file.seek(self.size)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                try:
                    number, change = json.loads(line)
                except (ValueError, TypeError):
                    break
                self._note(number, change, self.size)
                self.size += len(line)
        self._file.truncate(self.size)

    def _note(self, number: int | None, change: dict[str, Any] | None, place: int) -> None:
        if number is None:
            self.about |= change or {}
        elif change is None:
            self._places.pop(number, None)
            self._changes.pop(number, None)
        elif number in self._places:
            self._changes.setdefault(number, {}).update(change)
        elif number == self._taken:
            self._places[number] = place
            self._taken += 1

    def _write(self, entries: Iterable[tuple[int | None, str]]) -> bool:
        """Whether the lines could be written; the caller holds the lock of the lines."""
        lines = (f"[{'null' if number is None else number}, {text}]\n" for number, text in entries)
        data = "".join(lines).encode("utf-8")
        try:
            self._file.seek(self.size)
            if self._file.write(data) == len(data):
                self.size += len(data)
                return True
            self._file.truncate(self.size)
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                self._file.truncate(self.size)
        return False

    def accept(self) -> None:
        """One more answer has come. Writes to memory only, and so waits for nothing."""
        self._count(0)

    def settle(self) -> None:
        """One that has no line here is over."""
        self._count(1)

    def _count(self, place: int) -> None:
        with self._lock:
            if self._counts is not None:
                self._counts[place] += 1

    def append(self, answer: str, most_bytes: int) -> int | None:
        """Write an answer that was accepted, as JSON without line breaks, where the file stays below ``most_bytes``.

        Returns its number, or ``None`` where there is no room, or it cannot be written.
        """
        with self._lines:
            number, place = self._taken, self.size
            has_room = self._counts is not None and place + len(answer) < most_bytes
            if not has_room or not self._write([(number, answer)]):
                return None
            self._taken, self._places[number] = number + 1, place
            return number

    def change(self, changes: Mapping[int | None, Mapping[str, Any]]) -> None:
        """Write how far answers came, by their numbers, or (``None``) something about the process."""
        with self._lines:
            if changes and self._write((number, as_json(change)) for number, change in changes.items()):
                self.about |= changes.get(None, {})

    def done(self, numbers: Collection[int]) -> None:
        """These answers are written, or given up."""
        with self._lines:
            if numbers:
                self._write((number, "null") for number in numbers)
            for number in numbers:
                self._note(number, None, 0)

    def answer(self, number: int) -> dict[str, Any] | None:
        """An answer that waits, as far as it came; ``None`` where it cannot be read."""
        with self._lines, suppress(OSError, ValueError, KeyError):
            with self.path.open("rb") as file:
                file.seek(self._places[number])
                found: dict[str, Any] = json.loads(file.readline())[1]
            return found | self._changes.get(number, {})
        return None

    @property
    def waiting(self) -> list[int]:
        """The numbers of the answers that are not written, oldest first."""
        return list(self._places)

    @property
    def unscored(self) -> int:
        """How many answers were accepted, and are neither here nor settled: of a process that ended, what is lost."""
        with self._lock:
            return 0 if self._counts is None else max(0, self._counts[0] - self._counts[1] - self._taken)

    @property
    def is_over(self) -> bool:
        """Whether nothing waits here, and nothing is to come that was accepted."""
        return not self._places and not self.unscored

    def forget(self) -> None:
        """In a forked process: the file is the parent's, and nobody holds the locks."""
        self._lock, self._lines = threading.Lock(), threading.Lock()
        self.close()

    def close(self, *, keep: bool = True) -> None:
        """Leave the file to the next process; remove it where it is not to be kept."""
        with self._lines, self._lock:
            if self._counts is None:
                return
            self._counts.release()
            self._counts = None
            self._map.close()
            if not keep:
                with suppress(OSError):
                    self.path.unlink(missing_ok=True)
            self._file.close()


_HEAD = 16  # two numbers of eight bytes, each stored by one instruction of the processor


def _prefix(store: str) -> str:
    return hashlib.sha256(store.encode()).hexdigest()[:16]


def _lock(file: Any) -> bool:
    """Whether no other open file, of this process or another, has the lock; then it is ours until it is closed."""
    try:
        import fcntl
    except ImportError:  # Windows does not rename a file that is open, which is enough here
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def settle(run_id: str, journal: Journal, lost: int) -> None:
    """Say in the run how many answers a process that ended has ``lost``: all others that it accepted are written.

    The run's tag ``ragmetrics.lost.<id>`` has the number and ``ragmetrics.status`` a sentence; a run that the process
    had made, and nobody writes into, ends.
    """
    from mlflow import MlflowClient

    with explained(run_id):
        writer, process = RunWriter(run_id), str(journal.about.get("process", ""))
        tags = writer.present_tags()
        received = f"{RECEIVED_TAG}{journal.about.get('part')}"
        sentence = None
        if lost:
            mark = f"{LOST_TAG}{journal.path.stem.rpartition('-')[2]}"
            known = {name: int(number) for name, number in tags.items() if name.startswith(LOST_TAG)}
            number = sum({**known, mark: lost}.values())
            sentence = f"{number} answers were accepted and neither written nor dropped: process {process} was ended"
            said = {mark: str(lost)}
            if known or tags.get(STATUS_TAG, COMPLETE) == COMPLETE:
                said[STATUS_TAG] = status_of(sentence)
            writer.tags(said)
        if received in tags:
            writer.delete_tag(received)
        run = MlflowClient().get_run(run_id)
        if tags.get(_CREATION_TAG) and run.info.status == "RUNNING" and not is_being_written(run):
            writer.end(sentence)
