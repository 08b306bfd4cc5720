"""The outbox: scored answers waiting for MLflow, in an SQLite file shared by all processes of a user.

Each answer belongs to one run, identified by its id or, until it is created, by a name. Only one process at a time
writes the answers of a run. An answer is ``measured`` once it is in the run's figures, and has an ``outcome`` once its
trace has the scores. The table ``processes`` has the processes that use a run, with their numbers of accepted
and settled answers. These show how many answers a killed process had not scored. Texts have a checksum; readable rows
of a damaged file are copied to a new file.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import stat
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from zlib import crc32

from mlflow_ragmetrics.core.safe_text import as_json, for_log
from mlflow_ragmetrics.engine.threads import after_fork, start_thread
from mlflow_ragmetrics.tracking.run import Home
from mlflow_ragmetrics.tracking.writer import is_alive, this_process

_BUSY_SECONDS = 10.0
_GATHER_SECONDS = 0.005
_MEMORY = Path(":memory:")
_CHUNK = 100
_VERSION = 2
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS outbox (id TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, store TEXT, experiment TEXT, suite TEXT, name TEXT, run_id TEXT,
    writer TEXT DEFAULT '', figures TEXT, losses TEXT, UNIQUE (store, name));
CREATE TABLE IF NOT EXISTS processes (
    process TEXT, run INTEGER, accepted INTEGER DEFAULT 0, settled INTEGER DEFAULT 0, seen REAL,
    PRIMARY KEY (process, run));
CREATE TABLE IF NOT EXISTS answers (
    number INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER, process TEXT, measured INTEGER DEFAULT 0, outcome INTEGER,
    attempts INTEGER DEFAULT 0, content TEXT);
CREATE INDEX IF NOT EXISTS answers_of_run ON answers (run);
INSERT INTO outbox SELECT lower(hex(randomblob(6))) WHERE NOT EXISTS (SELECT 1 FROM outbox);
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_TEXTS = {"runs": "number, figures, losses", "answers": "run, content"}
_SALVAGED = {
    "runs": "number, store, experiment, suite, name, run_id",
    "answers": "number, process, measured, outcome, attempts, run, content",
}
_logger = logging.getLogger(__name__)


class Waiting(NamedTuple):
    """An answer that is not fully written, and the number of failed attempts to write its trace."""

    number: int
    content: Any
    attempts: int


class Outbox:
    """The rows in the file ``path``. A forked process opens it again.

    Changes are not synced to disk: rows survive a killed process, but not a power failure. ``id`` identifies the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._of_parents: list[sqlite3.Connection] = []
        self._open()
        after_fork(self._reopen)

    def _open(self) -> None:
        self._lock = threading.RLock()
        self._counting = threading.Lock()
        self._uncounted: Counter[int] = Counter()
        self._db = _connected(self.path, _BUSY_SECONDS)
        if self.is_in_memory:
            self._db.executescript(_SCHEMA)
        self._db.execute("PRAGMA synchronous = NORMAL")
        ((self.id,),) = self._db.execute("SELECT id FROM outbox")

    def _reopen(self) -> None:
        self._of_parents.append(self._db)  # SQLite does not allow a child to close it
        self._open()

    @property
    def is_in_memory(self) -> bool:
        """Whether the answers end with this process."""
        return self.path == _MEMORY

    def salvage(self, path: Path) -> int:
        """Copy the readable unwritten answers from a damaged file; returns their number."""
        with closing(_connected(path, 0.0)) as damaged, self._changing() as db:
            for table, columns in _SALVAGED.items():
                insert = f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({columns.count(',') * '?, '}?)"
                for order in ("", "DESC"):  # rows before the damage, then rows after it
                    for row in _readable(damaged, f"SELECT {columns} FROM {table} ORDER BY number {order}"):
                        with suppress(sqlite3.Error):
                            if table == "answers":
                                _read(row[-1], row[-2])
                            db.execute(insert, row)
            db.execute("DELETE FROM answers WHERE outcome NOT NULL OR run NOT IN (SELECT number FROM runs)")
            for (number,) in self._rows("SELECT number FROM runs"):
                self._add_losses(number, {"damaged": 1})
            ((count,),) = self._rows("SELECT count(*) FROM answers")
        return int(count)

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """A transaction, which also stores the counts from ``accept``."""
        with self._lock:
            with self._db as db:
                db.execute("BEGIN IMMEDIATE")
                with self._counting:
                    counted = self._uncounted.copy()
                db.executemany(
                    "INSERT INTO processes (process, run, accepted, seen) VALUES (?, ?, ?, ?) "
                    "ON CONFLICT DO UPDATE SET accepted = accepted + excluded.accepted, seen = excluded.seen",
                    [(this_process(), number, count, time.time()) for number, count in counted.items()],
                )
                yield db
            with self._counting:
                self._uncounted -= counted

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
            self._enter(number)
        return number

    def adopt(self, home: Home) -> list[tuple[str, str | None]]:
        """Start using the runs of this store, experiment and suite whose processes have all ended.

        Returns their names and ids.
        """
        with self._changing() as db:
            query = "SELECT number, name, run_id FROM runs WHERE store = ? AND experiment = ? AND suite = ?"
            found = db.execute(query, (home.store, home.experiment, home.suite)).fetchall()
            left = [each for each in found if not self._is_used(each[0])]
            for number, _, _ in left:
                self._enter(number)
        return [(name, run_id) for _, name, run_id in left]

    def _enter(self, number: int) -> None:
        self._absorb_ended(number)
        insert = "INSERT INTO processes (process, run, seen) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        self._db.execute(insert, (this_process(), number, time.time()))

    def _is_used(self, number: int) -> bool:
        found = self._rows("SELECT process, seen FROM processes WHERE run = ?", number)
        return any(is_alive(process, seen) for process, seen in found)

    def _absorb_ended(self, number: int) -> None:
        """Count answers that ended processes accepted but did not score, and remove the processes."""
        for process, accepted, unscored, seen in self._unscored("WHERE run = ?", number):
            if not is_alive(process, seen):
                self._leave(number, process, {"seen": accepted, "killed": unscored})
                if unscored:
                    _logger.warning("answers lost because process %s ended before scoring them: %d", process, unscored)

    def _unscored(self, where: str, *values: object) -> list[tuple[str, int, int, float]]:
        kept = "(SELECT count(*) FROM answers WHERE process = p.process AND run = p.run)"
        query = f"SELECT process, accepted, max(0, accepted - settled - {kept}), seen FROM processes p {where}"
        return self._rows(query, *values)

    def _leave(self, number: int, process: str, losses: Mapping[str, int]) -> None:
        self._add_losses(number, losses)
        self._db.execute("DELETE FROM processes WHERE process = ? AND run = ?", (process, number))

    def _add_losses(self, number: int, losses: Mapping[str, int]) -> None:
        total = Counter(self.run(number, "losses") or {})
        total.update(losses)
        self._db.execute("UPDATE runs SET losses = ? WHERE number = ?", (_checked(total, number), number))

    def leave(self, number: int) -> bool:
        """Stop using the run; returns ``True`` if no other process uses it."""
        with self._changing():
            for _, accepted, unscored, _ in self._unscored("WHERE process = ? AND run = ?", this_process(), number):
                self._leave(number, this_process(), {"seen": accepted, "unscored": unscored})
            self._absorb_ended(number)
            return not self._is_used(number)

    def left(self, store: str) -> tuple[int, int]:
        """The numbers of waiting answers and of unscored answers in runs of a store that no process uses."""
        runs = [number for (number,) in self._rows("SELECT number FROM runs WHERE store = ?", store)]
        left = [number for number in runs if not self._is_used(number)]
        unscored = sum(each[2] for number in left for each in self._unscored("WHERE run = ?", number))
        return sum(map(self.waiting, left)), unscored

    def forget(self, number: int) -> None:
        """Remove all rows of the run, unless answers wait or a process uses it."""
        with self._changing() as db:
            if not self._is_used(number) and not self.waiting(number):
                for table, column in (("answers", "run"), ("runs", "number")):
                    db.execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))

    def accept(self, number: int) -> None:
        """Count an answer that will arrive.

        Another thread stores the count, because the chain's thread must not wait for a file.
        """
        with self._counting:
            self._uncounted[number] += 1
            if self._uncounted.total() == 1:
                start_thread(self._keep_counts, name="ragmetrics-outbox")

    def _keep_counts(self) -> None:
        with suppress(sqlite3.Error):  # then the next change stores them
            while self._uncounted:
                time.sleep(_GATHER_SECONDS)  # one change for many calls
                with self._changing():
                    pass

    def settle(self, number: int, losses: Mapping[str, int], settled: int = 0) -> None:
        """Add to the losses of the run; ``settled`` accepted answers will not arrive."""
        with self._changing() as db:
            self._add_losses(number, losses)
            self._settle(db, number, settled)

    def _settle(self, db: sqlite3.Connection, number: int, count: int) -> None:
        update = "UPDATE processes SET settled = settled + ? WHERE process = ? AND run = ?"
        db.execute(update, (count, this_process(), number))

    def append(self, number: int, content: Mapping[str, Any]) -> int:
        """Store a scored answer; returns its number."""
        with self._changing() as db:
            insert = "INSERT INTO answers (run, process, content) VALUES (?, ?, ?)"
            values = (number, this_process(), _checked(content, number))
            return int(db.execute(insert, values).lastrowid or 0)

    def take_written(self, number: int) -> dict[int, int]:
        """Delete this process's finished answers and return the outcome of each.

        The outcome is 0 if it was written, 1 if its feedback was withheld, and 2 if it could not be read.
        """
        with self._changing() as db:
            mine = "FROM answers WHERE run = ? AND process = ? AND outcome NOT NULL"
            outcomes = dict(db.execute(f"SELECT number, outcome {mine}", (number, this_process())).fetchall())
            db.execute(f"DELETE {mine}", (number, this_process()))
            self._settle(db, number, len(outcomes))
        return outcomes

    def waiting(self, number: int) -> int:
        """The number of unwritten answers of the run."""
        ((count,),) = self._rows("SELECT count(*) FROM answers WHERE run = ? AND outcome IS NULL", number)
        return int(count)

    def take_lease(self, number: int) -> bool:
        """Try to become the process that writes to the run; returns ``True`` on success."""
        with self._changing() as db:
            query = "SELECT writer, seen FROM runs LEFT JOIN processes ON process = writer AND run = number"
            ((writer, seen),) = self._rows(f"{query} WHERE number = ?", number)
            if writer and writer != this_process() and is_alive(writer, seen or 0.0):
                return False
            db.execute("UPDATE runs SET writer = ? WHERE number = ?", (this_process(), number))
            return True

    def end_lease(self, number: int) -> None:
        """Let another process write to the run."""
        with self._changing() as db:
            update = "UPDATE runs SET writer = '' WHERE number = ? AND writer = ?"
            db.execute(update, (number, this_process()))

    def run(self, number: int, column: str) -> Any:
        """A column of the run: ``run_id``, ``figures`` or ``losses``."""
        ((value,),) = self._rows(f"SELECT {column} FROM runs WHERE number = ?", number)
        return _read(value, number) if column in _TEXTS["runs"] else value

    def note_run(self, number: int, run_id: str | None) -> None:
        """Store the id of the created run, which has no figures; ``None``: the run was deleted."""
        with self._changing() as db:
            db.execute("UPDATE runs SET run_id = ?, figures = NULL WHERE number = ?", (run_id, number))
            db.execute("UPDATE answers SET measured = 0 WHERE run = ? AND outcome IS NULL", (number,))

    def answers(self, number: int, *, measured: bool, after: int = 0) -> list[Waiting]:
        """The oldest answers that are not in the figures or, if ``measured``, whose trace lacks the scores."""
        which = "measured AND outcome IS NULL" if measured else "NOT measured"
        query = f"SELECT number, content, attempts FROM answers WHERE run = ? AND number > ? AND {which}"
        found = self._rows(f"{query} ORDER BY number LIMIT {_CHUNK}", number, after)
        return [Waiting(answer, _read(text, number), attempts) for answer, text, attempts in found]

    def note_measured(
        self,
        number: int,
        answers: Collection[int],
        figures: Mapping[str, Any],
        losses: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Store the run's figures, which include these answers."""
        with self._changing() as db:
            self._add_losses(number, losses)
            self._note(db, answers, {"measured": 1})
            db.execute("UPDATE runs SET figures = ? WHERE number = ?", (_checked(figures, number), number))

    def note(self, answers: Collection[int], **columns: int) -> None:
        """Set columns of these answers, such as ``outcome=0``."""
        with self._changing() as db:
            self._note(db, answers, columns)

    def note_unreadable(self, number: int, answer: int) -> None:
        """Mark an answer as unreadable and count it as lost."""
        with self._changing() as db:
            self._note(db, [answer], {"measured": 1, "outcome": 2})
            self._add_losses(number, {"lost": 1})

    def _note(self, db: sqlite3.Connection, answers: Collection[int], columns: Mapping[str, int]) -> None:
        changes = ", ".join(f"{name} = {value:d}" for name, value in columns.items())
        db.executemany(f"UPDATE answers SET {changes} WHERE number = ?", [(answer,) for answer in answers])


def _make_tables(path: Path) -> None:
    """Create the tables; ``sqlite3.DatabaseError`` if the file is damaged or not an outbox of this version."""
    with closing(_connected(path, _BUSY_SECONDS)) as db:
        (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        query = "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
        version, tables = db.execute(query).fetchone()
        if tables and version != _VERSION:
            raise sqlite3.DatabaseError(f"its tables have version {version}, not {_VERSION}")
        db.execute("PRAGMA auto_vacuum = FULL")  # deleted texts do not stay in the file
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(_SCHEMA)
        for table, columns in _TEXTS.items():
            for number, *texts in db.execute(f"SELECT {columns} FROM {table}"):
                for text in texts:
                    _read(text, number)


def _connected(path: Path, timeout: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


def outbox_folder() -> Path:
    """The folder ``outbox`` in ``RAGMETRICS_OUTBOX``, by default in the user's data folder."""
    given = os.environ.get("RAGMETRICS_OUTBOX")
    if not given:
        from platformdirs import user_data_dir

        given = user_data_dir("mlflow_ragmetrics", appauthor=False)
    return Path(given, "outbox").absolute()


def open_outbox() -> Outbox:
    """The user's outbox; if its folder is unusable, one in memory, with a warning."""
    return _opened(outbox_folder())


@lru_cache
def _opened(folder: Path) -> Outbox:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.name == "posix":
            found = folder.stat()
            if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
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
    """The outbox in the file ``path``. A damaged file is renamed, and its readable answers are copied."""
    until, aside, damage = time.monotonic() + _BUSY_SECONDS, None, ""
    while True:
        # answers contain texts: readable by the owner only
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600))
        file = path.stat().st_ino
        try:
            _make_tables(path)
            break
        except sqlite3.DatabaseError as error:
            is_busy = "locked" in str(error)  # another process is making the same file
            if time.monotonic() > until or (isinstance(error, sqlite3.OperationalError) and not is_busy):
                raise
            if is_busy:
                time.sleep(0.05)
            elif file == path.stat().st_ino:  # no other process has renamed it
                aside, damage = Path(f"{path}.damaged-{time.time_ns()}"), str(error)
                for suffix in ("-wal", "-shm", ""):
                    with suppress(FileNotFoundError):
                        os.replace(f"{path}{suffix}", f"{aside}{suffix}")
    outbox = Outbox(path)
    if aside is not None:
        message = "the outbox %s was damaged (%s): it was renamed to %s; unwritten answers recovered: %d"
        _logger.warning(message, path, for_log(damage), aside, outbox.salvage(aside))
    return outbox


def _readable(damaged: sqlite3.Connection, query: str) -> Iterator[Sequence[Any]]:
    with suppress(sqlite3.Error):
        yield from damaged.execute(query)


def _checked(value: Any, run: int) -> str:
    """A value as JSON, after a checksum that is valid for this run only."""
    text = as_json(value)
    return f"{_checksum(text, run)}{text}"


def _read(checked: Any, run: int) -> Any:
    """The value of a text from ``_checked``; ``None`` for ``None``."""
    if checked is None:
        return None
    checksum, text = str(checked)[:8], str(checked)[8:]
    if checksum != _checksum(text, run):
        raise sqlite3.DatabaseError("a checksum is wrong")
    return json.loads(text)


def _checksum(text: str, run: int) -> str:
    return f"{crc32(f'{run} {text}'.encode()):08x}"
