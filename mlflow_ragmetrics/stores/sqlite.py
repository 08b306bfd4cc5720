"""Judges' answers in an SQLite file that many threads and processes share."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import warnings
import weakref
from pathlib import Path

from mlflow_ragmetrics.core.question import Answer, Question, cache_key
from mlflow_ragmetrics.stores.encoding import decode, encode

__all__ = ["SQLiteStore"]

_VERSION = 1
_BUSY_SECONDS = 10.0
_CREATE = """
CREATE TABLE IF NOT EXISTS answers (
    judge TEXT NOT NULL, question TEXT NOT NULL, kind TEXT NOT NULL, answer TEXT NOT NULL,
    PRIMARY KEY (judge, question)
) WITHOUT ROWID
"""


class SQLiteStore:
    """Keeps every answer at once, by judge and question; neither the key nor the file holds a secret of the judge.

    A file that cannot be read or written (locked, read-only, damaged, of another version) is a warning, given once;
    evaluation goes on without it. Answers outlive the end of the process, however it ends.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._readable = self._writable = True

    def get(self, fingerprint: str, question: Question) -> Answer | None:
        """The stored answer, or ``None``."""
        try:
            with self._lock:
                if not self._readable:
                    return None
                query = "SELECT answer FROM answers WHERE judge = ? AND question = ?"
                row = self._open().execute(query, _key(fingerprint, question)).fetchone()
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)
            return None
        return None if row is None else decode(question, row[0])

    def put(self, fingerprint: str, question: Question, answer: Answer) -> None:
        """Keep an answer; it is on disk when this returns."""
        text = encode(question, answer)
        if text is None:
            return
        try:
            with self._lock:
                if self._writable:
                    values = (*_key(fingerprint, question), question.kind, text)
                    self._open().execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", values)
        except (sqlite3.Error, OSError) as error:
            self._give_up(error, reading=not _is_read_only(error))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None or self._process != os.getpid():  # a connection must not cross a fork
            self._process = os.getpid()
            self._connection = _connect(self.path)
            weakref.finalize(self, self._connection.close)
        return self._connection

    def _give_up(self, error: Exception, *, reading: bool = True) -> None:
        """Stop writing, and ``reading`` too; warn the first time."""
        with self._lock:
            first = self._writable
            self._writable = False
            self._readable = self._readable and not reading
        if first:
            what = "used" if reading else "written"
            message = f"the cache {str(self.path)!r} cannot be {what} ({error}); answers are not stored"
            warnings.warn(message, RuntimeWarning, stacklevel=2)


def _key(fingerprint: str, question: Question) -> tuple[str, str]:
    return hashlib.sha256(fingerprint.encode()).hexdigest(), cache_key(question)


def _is_read_only(error: Exception) -> bool:
    return "readonly" in str(error)


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # answers quote the texts: for the owner alone
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == _VERSION:
        connection.execute("PRAGMA synchronous = NORMAL")
        return
    if version or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise sqlite3.DatabaseError(f"it is no cache of version {_VERSION}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(_CREATE)
    connection.execute(f"PRAGMA user_version = {_VERSION}")
    connection.execute("COMMIT")
