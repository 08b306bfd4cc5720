"""The outbox: scored answers waiting for MLflow, in an SQLite file shared by all processes of a user.

Each answer belongs to one run, identified by its id or, until it is created, by a name. Only one process at a time
writes the answers of a run. An answer is ``measured`` once it is in the run's figures, and has an ``outcome`` once its
trace has the scores. The table ``processes`` has the processes that use a run, and ``counts`` how many of their answers
were ``seen``, ``settled`` (written, or known to get no scores), ``failed`` and so on. ``seen`` and ``settled`` show how
many answers a killed process had not scored.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
import stat
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from mlflow_ragmetrics.core.safe_text import as_json, for_log
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.engine.threads import after_fork, start_thread
from mlflow_ragmetrics.results.marks import cause_figure, diagnose
from mlflow_ragmetrics.text.non_answers import gives_no_answer
from mlflow_ragmetrics.tracking.run import Home
from mlflow_ragmetrics.tracking.writer import is_alive, mlflow_name, this_process

if TYPE_CHECKING:
    from mlflow.entities import Metric

_BUSY_SECONDS = 10.0
_GATHER_SECONDS = 0.005
_MEMORY = Path(":memory:")
_CHUNK = 100
_VERSION = 3
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS outbox (id TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, store TEXT, experiment TEXT, suite TEXT, name TEXT, run_id TEXT,
    writer TEXT DEFAULT '', figures TEXT, UNIQUE (store, name));
CREATE TABLE IF NOT EXISTS processes (process TEXT, run INTEGER, active REAL, PRIMARY KEY (process, run));
CREATE TABLE IF NOT EXISTS counts (
    run INTEGER, process TEXT, name TEXT, number INTEGER, PRIMARY KEY (run, process, name));
CREATE TABLE IF NOT EXISTS answers (
    number INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER, process TEXT, measured INTEGER DEFAULT 0, outcome INTEGER,
    attempts INTEGER DEFAULT 0, content TEXT);
CREATE INDEX IF NOT EXISTS answers_of_run ON answers (run);
INSERT INTO outbox SELECT lower(hex(randomblob(6))) WHERE NOT EXISTS (SELECT 1 FROM outbox);
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_UNSCORED = """
SELECT process, active, max(0,
    (SELECT total(CASE name WHEN 'seen' THEN number WHEN 'settled' THEN -number ELSE 0 END)
     FROM counts WHERE run = p.run AND process = p.process)
    - (SELECT count(*) FROM answers WHERE run = p.run AND process = p.process))
FROM processes p WHERE run = ?
"""
_logger = logging.getLogger(__name__)


class Waiting(NamedTuple):
    """An answer that is not fully written, and the number of failed attempts to write its trace."""

    number: int
    content: Any
    attempts: int


class Outbox:
    """The rows in the file ``path``. A forked process opens it again.

    Changes are not synced to disk: rows survive a killed process, but not a power failure. ``id`` identifies the file;
    ``is_replacement``: this process has set a damaged file aside.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_in_memory = path == _MEMORY
        """Whether the answers end with this process."""
        self.is_replacement = False
        self._of_parents: list[sqlite3.Connection] = []
        self._open()
        if hasattr(os, "register_at_fork"):  # a child forked during a transaction would find the file locked for ever
            os.register_at_fork(before=lambda: self._lock.acquire(), after_in_parent=lambda: self._lock.release())
        after_fork(self._reopen)

    def _open(self) -> None:
        self._lock = threading.RLock()
        self._counting = threading.Lock()
        self._uncounted: Counter[tuple[int, str]] = Counter()
        self._db = _connected(self.path)
        if self.is_in_memory:
            self._db.executescript(_SCHEMA)
        self._db.execute("PRAGMA synchronous = NORMAL")
        ((self.id,),) = self._db.execute("SELECT id FROM outbox")

    def _reopen(self) -> None:
        self._of_parents.append(self._db)  # SQLite does not allow a child to close it
        self._open()

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """A transaction, which also stores the counts from ``count``."""
        with self._lock:
            with self._db as db:
                db.execute("BEGIN IMMEDIATE")
                with self._counting:
                    counted = self._uncounted.copy()
                for (number, name), count in counted.items():
                    self._add(number, this_process(), name, count)
                    if name == "seen":  # the process may be a fork of the one that joined
                        self._enter(number)
                yield db
            with self._counting:
                self._uncounted.subtract(counted)
                self._uncounted = Counter({key: count for key, count in self._uncounted.items() if count})

    def _add(self, number: int, process: str, name: str, count: int) -> None:
        insert = "INSERT INTO counts VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET number = number + excluded.number"
        self._db.execute(insert, (number, process, name, count))

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def join(self, home: Home, name: str, run_id: str | None) -> int:
        """Start using the run with this name; returns its number."""
        with self._changing() as db:
            insert = "INSERT INTO runs (store, experiment, suite, name, run_id) VALUES (?, ?, ?, ?, ?)"
            values = (home.store, home.experiment, home.suite, name, run_id)
            db.execute(f"{insert} ON CONFLICT DO NOTHING", values)
            query = "SELECT number FROM runs WHERE store = ? AND name = ?"
            number = int(db.execute(query, (home.store, name)).fetchone()[0])
            self._absorb_ended(number)
            self._enter(number)
        if run_id is not None and self.is_replacement:  # the damaged file may have had answers of this run
            self.count(number, "damaged")
        return number

    def adopt(self, home: Home) -> list[tuple[str, str | None]]:
        """Start using the runs of this store, experiment and suite whose processes have all ended.

        Returns their names and ids.
        """
        with self._changing() as db:
            query = "SELECT number, name, run_id FROM runs WHERE store = ? AND experiment = ? AND suite = ?"
            records = db.execute(query, (home.store, home.experiment, home.suite)).fetchall()
            left = [record for record in records if not self._is_used(record[0])]
            for number, _, _ in left:
                self._absorb_ended(number)
                self._enter(number)
        return [(name, run_id) for _, name, run_id in left]

    def _enter(self, number: int) -> None:
        insert = "INSERT INTO processes VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET active = excluded.active"
        self._db.execute(insert, (this_process(), number, time.time()))

    def _is_used(self, number: int) -> bool:
        processes = self._rows("SELECT process, active FROM processes WHERE run = ?", number)
        return any(is_alive(process, active) for process, active in processes)

    def _absorb_ended(self, number: int) -> None:
        """Count answers that ended processes accepted but did not score, and remove the processes."""
        for process, active, unscored in self._rows(_UNSCORED, number):
            if not is_alive(process, active):
                self._end(number, process, "killed", int(unscored))
                if unscored:
                    _logger.warning("answers lost because process %s ended before scoring them: %d", process, unscored)

    def _end(self, number: int, process: str, name: str, unscored: int) -> None:
        self._add(number, process, name, unscored)
        self._add(number, process, "settled", unscored)
        self._db.execute("DELETE FROM processes WHERE process = ? AND run = ?", (process, number))

    def leave(self, number: int) -> bool:
        """Stop using the run; returns ``True`` if no other process uses it."""
        with self._changing():
            for process, _, unscored in self._rows(_UNSCORED, number):
                if process == this_process():
                    self._end(number, process, "unscored", int(unscored))
            self._absorb_ended(number)
            return not self._is_used(number)

    def left(self, store: str) -> tuple[int, int]:
        """The numbers of waiting answers and of unscored answers in runs of a store that no process uses."""
        runs = [number for (number,) in self._rows("SELECT number FROM runs WHERE store = ?", store)]
        left = [number for number in runs if not self._is_used(number)]
        unscored = sum(int(record[2]) for number in left for record in self._rows(_UNSCORED, number))
        return sum(map(self.waiting, left)), unscored

    def forget(self, number: int) -> None:
        """Remove all rows of the run, unless answers wait or a process uses it."""
        with self._changing() as db:
            if not self._is_used(number) and not self.waiting(number):
                for table, column in (("answers", "run"), ("counts", "run"), ("runs", "number")):
                    db.execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))

    def count(self, number: int, *names: str, by: int = 1) -> None:
        """Change these counts of the run.

        Another thread stores them, because the chain's thread must not wait for a file.
        """
        with self._counting:
            is_first = not self._uncounted
            self._uncounted.update({(number, name): by for name in names})
            if is_first:
                start_thread(self._keep_counts, name="ragmetrics-outbox")

    def _keep_counts(self) -> None:
        with suppress(sqlite3.Error):  # then the next change stores them
            while self._uncounted:
                time.sleep(_GATHER_SECONDS)  # one change for many calls
                with self._changing():
                    pass

    def counts(self, number: int) -> Counter[str]:
        """The counts of the run, over all processes."""
        with self._changing() as db:
            query = "SELECT name, sum(number) FROM counts WHERE run = ? GROUP BY name"
            return Counter(dict(db.execute(query, (number,)).fetchall()))

    def append(self, number: int, content: Mapping[str, Any]) -> int:
        """Store a scored answer; returns its number."""
        with self._changing() as db:
            insert = "INSERT INTO answers (run, process, content) VALUES (?, ?, ?)"
            return int(db.execute(insert, (number, this_process(), as_json(content))).lastrowid or 0)

    def take_written(self, number: int) -> dict[int, int]:
        """Delete this process's finished answers and return the outcome of each.

        The outcome is 0 if it was written, 1 if its feedback was withheld, and 2 if it could not be read.
        """
        with self._changing() as db:
            mine = "FROM answers WHERE run = ? AND process = ? AND outcome NOT NULL"
            outcomes = dict(db.execute(f"SELECT number, outcome {mine}", (number, this_process())).fetchall())
            db.execute(f"DELETE {mine}", (number, this_process()))
            self._add(number, this_process(), "settled", len(outcomes))
        return outcomes

    def waiting(self, number: int) -> int:
        """The number of unwritten answers of the run."""
        ((count,),) = self._rows("SELECT count(*) FROM answers WHERE run = ? AND outcome IS NULL", number)
        return int(count)

    def take_lease(self, number: int) -> bool:
        """Try to become the process that writes to the run; returns ``True`` on success."""
        with self._changing() as db:
            query = "SELECT writer, active FROM runs LEFT JOIN processes ON process = writer AND run = number"
            ((writer, active),) = self._rows(f"{query} WHERE number = ?", number)
            if writer and writer != this_process() and is_alive(writer, active or 0.0):
                return False
            db.execute("UPDATE runs SET writer = ? WHERE number = ?", (this_process(), number))
            return True

    def end_lease(self, number: int) -> None:
        """Let another process write to the run."""
        with self._changing() as db:
            update = "UPDATE runs SET writer = '' WHERE number = ? AND writer = ?"
            db.execute(update, (number, this_process()))

    def run_id(self, number: int) -> str | None:
        """The id of the run; ``None`` if it is not created yet."""
        ((run_id,),) = self._rows("SELECT run_id FROM runs WHERE number = ?", number)
        return None if run_id is None else str(run_id)

    def figures(self, number: int) -> dict[str, Any] | None:
        """The stored figures of the run."""
        ((figures,),) = self._rows("SELECT figures FROM runs WHERE number = ?", number)
        return None if figures is None else dict(json.loads(figures))

    def note_run(self, number: int, run_id: str | None) -> None:
        """Store the id of the created run, which has no figures; ``None``: the run was deleted."""
        with self._changing() as db:
            db.execute("UPDATE runs SET run_id = ?, figures = NULL WHERE number = ?", (run_id, number))
            db.execute("UPDATE answers SET measured = 0 WHERE run = ? AND outcome IS NULL", (number,))

    def answers(self, number: int, *, measured: bool, after: int = 0) -> list[Waiting]:
        """The oldest answers that are not in the figures or, if ``measured``, whose trace lacks the scores."""
        which = "measured AND outcome IS NULL" if measured else "NOT measured"
        query = f"SELECT number, content, attempts FROM answers WHERE run = ? AND number > ? AND {which}"
        records = self._rows(f"{query} ORDER BY number LIMIT {_CHUNK}", number, after)
        return [Waiting(answer, json.loads(text), attempts) for answer, text, attempts in records]

    def note_measured(self, number: int, answers: Iterable[int], figures: Mapping[str, Any]) -> None:
        """Store the run's figures, which include these answers."""
        with self._changing() as db:
            db.executemany("UPDATE answers SET measured = 1 WHERE number = ?", [(answer,) for answer in answers])
            db.execute("UPDATE runs SET figures = ? WHERE number = ?", (as_json(figures), number))

    def note(self, answers: Iterable[int], **columns: int) -> None:
        """Set columns of these answers, such as ``outcome=0``."""
        changes = ", ".join(f"{name} = {value:d}" for name, value in columns.items())
        with self._changing() as db:
            db.executemany(f"UPDATE answers SET {changes} WHERE number = ?", [(answer,) for answer in answers])


def _make_tables(path: Path) -> None:
    """Create the tables; ``sqlite3.DatabaseError`` if the file is damaged or not an outbox of this version."""
    with closing(_connected(path)) as db:
        (state,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if state != "ok":
            raise sqlite3.DatabaseError(state)
        query = "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
        version, tables = db.execute(query).fetchone()
        if tables and version != _VERSION:
            raise sqlite3.DatabaseError(f"its tables have version {version}, not {_VERSION}")
        db.execute("PRAGMA auto_vacuum = FULL")  # deleted texts do not stay in the file
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(_SCHEMA)


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


def outbox_folder() -> Path:
    """The folder ``outbox`` in ``RAGMETRICS_OUTBOX``, by default in the user's data folder."""
    folder = os.environ.get("RAGMETRICS_OUTBOX")
    if not folder:
        from platformdirs import user_data_dir

        folder = user_data_dir("mlflow_ragmetrics", appauthor=False)
    return Path(folder, "outbox").absolute()


def open_outbox() -> Outbox:
    """The user's outbox; if its folder is unusable, one in memory, with a warning."""
    return _opened(outbox_folder())


@lru_cache
def _opened(folder: Path) -> Outbox:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.name == "posix":
            status = folder.stat()
            if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise PermissionError("other users can write there; restrict it to this user with mode 0700")
            folder.chmod(0o700)
        return _prepared(folder / "outbox.db")
    except (OSError, sqlite3.Error) as error:
        message = "no outbox in %s (%s): answers waiting for MLflow are in memory, for this process only"
        _logger.warning(message, folder, for_log(str(error)))
        return outbox_in_memory()


@lru_cache
def outbox_in_memory() -> Outbox:
    """The outbox of this process only, if the user's outbox cannot be written."""
    return Outbox(_MEMORY)


def _prepared(path: Path) -> Outbox:
    """The outbox in the file ``path``; a damaged file is renamed."""
    until = time.monotonic() + _BUSY_SECONDS
    was_damaged = False
    while True:
        # answers contain texts: readable by the owner only
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600))
        file = path.stat().st_ino
        try:
            _make_tables(path)
            outbox = Outbox(path)
            outbox.is_replacement = was_damaged
            return outbox
        except sqlite3.DatabaseError as error:
            is_busy = "locked" in str(error)  # another process is making the same file
            if time.monotonic() > until or (isinstance(error, sqlite3.OperationalError) and not is_busy):
                raise
            if is_busy:
                time.sleep(0.05)
            elif file == path.stat().st_ino:  # no other process has renamed it
                was_damaged = True
                aside = Path(f"{path}.damaged-{time.time_ns()}")
                for suffix in ("-wal", "-shm", ""):
                    with suppress(FileNotFoundError):
                        os.replace(f"{path}{suffix}", f"{aside}{suffix}")
                message = "the outbox %s was damaged or has another version (%s): it was renamed to %s"
                message += "; its unwritten answers are lost"
                _logger.warning(message, path, for_log(str(error)), aside)


_WINDOW = 50
ANSWERS, _SUM, _VALUES, _COVERAGE = "/answers", "/sum", "/values", "/coverage="  # no figure has these names
_INTERNAL = re.compile(rf"(?:{ANSWERS}|{_SUM}|{_VALUES}|{_COVERAGE}.*)$")


class Sums(Counter[str]):
    """Sums over rows: the number of rows with each mark (``<key>/n_error``), and of each key the values."""

    def add(self, row: Row) -> None:
        """Add a row: its values and marks, the part of the chain that failed, and whether it is a non-answer."""
        diagnosis = diagnose(row.scores)
        self.update([ANSWERS] if diagnosis is None else [ANSWERS, cause_figure(diagnosis.cause)])
        self["n_non_answers"] += gives_no_answer(row.sample.answer)
        for key, score in row.scores.items():
            self.update(f"{key}/{mark}" for mark in score.marks)
            if score.measurement is not None:
                self.update({f"{key}{_SUM}": score.measurement, f"{key}{_VALUES}": 1})
                if "coverage" in score.details:
                    self[f"{key}{_COVERAGE}{score.details['coverage']:.9f}"] += 1

    @property
    def means(self) -> dict[str, float]:
        """``<key>/mean`` of the values."""
        keys = [name.removesuffix(_SUM) for name in self if name.endswith(_SUM)]
        return {f"{key}/mean": self[f"{key}{_SUM}"] / self[f"{key}{_VALUES}"] for key in keys}

    @property
    def marks(self) -> dict[str, float]:
        """The nonzero counts. For a composite, also the mean ``coverage`` if it is below 1, and ``n_partial``, the
        number of rows below the highest coverage.
        """
        coverages: dict[str, dict[float, int]] = {}
        for name, count in self.items():
            key, separator, coverage = name.partition(_COVERAGE)
            if separator:
                coverages.setdefault(key, {})[float(coverage)] = count
        figures: dict[str, float] = {name: count for name, count in self.items() if not _INTERNAL.search(name)}
        for key, counts in coverages.items():
            mean = sum(share * count for share, count in counts.items()) / sum(counts.values())
            figures[f"{key}/n_partial"] = sum(counts.values()) - counts[max(counts)]
            figures |= {f"{key}/coverage": mean} if mean < 1 else {}
        return {name: float(count) for name, count in figures.items() if count}


class LiveFigures:
    """The sums of a run so far: those of one outbox, in ``state``, and of ``others`` that write to the same run."""

    def __init__(self, state: Mapping[str, Any] | None, others: Iterable[Mapping[str, Any]] = ()) -> None:
        state = state or {"sums": {}, "windows": {}}
        self._windows = {key: deque(values, _WINDOW) for key, values in state["windows"].items()}
        self._own = Sums(state["sums"])
        self._total = Sums(self._own)
        for other in others:
            self._total.update(other["sums"])

    @property
    def state(self) -> dict[str, Any]:
        """The sums of the outbox, as JSON-compatible values."""
        return {"sums": self._own, "windows": {key: list(values) for key, values in self._windows.items()}}

    @property
    def step(self) -> int:
        """The number of answers before the last one."""
        return self._total[ANSWERS] - 1

    @property
    def figures(self) -> dict[str, float]:
        """``<key>/mean`` and the counts, under MLflow's names."""
        return {mlflow_name(name): value for name, value in {**self._total.means, **self._total.marks}.items()}

    def add(self, row: Row, time_ms: int) -> list[Metric]:
        """Add an answer; returns its metrics: ``<key>``, ``<key>/mean`` so far and ``<key>/rolling_mean`` (last 50).

        The other metrics are counts so far: ``<key>/n_error``, ``/n_skipped``, ``/n_no_context`` etc. for marks
        (``Score.marks``), ``n_non_answers`` for non-answers, and ``diagnosis/n_<cause>`` for failed parts of the chain.
        """
        from mlflow.entities import Metric

        self._own.add(row)
        self._total.add(row)
        points, means = dict[str, float](), self._total.means
        for key, score in row.scores.items():
            if score.measurement is not None:
                window = self._windows.setdefault(key, deque(maxlen=_WINDOW))
                window.append(score.measurement)
                points |= {key: score.measurement, f"{key}/mean": means[f"{key}/mean"]}
                points[f"{key}/rolling_mean"] = fmean(window)
        points |= self._total.marks
        return [Metric(mlflow_name(name), value, time_ms, self.step) for name, value in points.items()]
