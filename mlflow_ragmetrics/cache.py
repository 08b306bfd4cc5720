"""Stores judges' answers between runs in an SQLite file shared by threads and processes."""

from __future__ import annotations

import hashlib
import math
import os
import sqlite3
import threading
import time
import warnings
import weakref
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from mlflow_ragmetrics.core.question import Question, cache_key

A = TypeVar("A")
_VERSION = 1
_BUSY_SECONDS, _PAUSE_SECONDS = 10.0, 5.0
_CREATE = """
CREATE TABLE IF NOT EXISTS answers (
    judge TEXT NOT NULL, question TEXT NOT NULL, kind TEXT NOT NULL, answer TEXT NOT NULL,
    PRIMARY KEY (judge, question)
) WITHOUT ROWID
"""


class CacheWarning(RuntimeWarning, UserWarning):
    """The cache cannot be read or written."""


class SQLiteStore:
    """Stores every answer immediately, by judge and question.

    Neither the keys nor the file contain the judge's secrets. If the file cannot be read or written (read-only,
    damaged, another version), it warns once, and evaluation continues without it; if another process locks it, it is
    used again after a pause. Answers survive however the process ends.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._has_warned = False
        self._usable_at = {"read": 0.0, "written": 0.0}

    def get(self, fingerprint: str, question: Question[A]) -> A | None:
        """Return the stored answer, or ``None``."""
        query = "SELECT answer FROM answers WHERE judge = ? AND question = ?"
        rows = self._run("read", query, _key(fingerprint, question))
        return decode(question, rows[0][0]) if rows else None

    def put(self, fingerprint: str, question: Question[A], answer: A) -> None:
        """Store an answer; it is on disk when this returns."""
        text = encode(question, answer)
        if text is not None:
            values = (*_key(fingerprint, question), question.kind, text)
            self._run("written", "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", values)

    def _run(self, use: str, statement: str, values: Sequence[str]) -> list[tuple[str]]:
        """Return the rows of a statement; none if the file cannot be ``use``: ``"read"`` or ``"written"``."""
        try:
            with self._lock:
                if time.monotonic() < self._usable_at[use]:
                    return []
                return self._open().execute(statement, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            is_locked = "locked" in str(error)
            with self._lock:
                self._usable_at[use] = time.monotonic() + (_PAUSE_SECONDS if is_locked else math.inf)
                first, self._has_warned = not self._has_warned, True
            if first:
                end = "it is tried again every few seconds" if is_locked else f"answers are not {use}"
                message = f"the cache {str(self.path)!r} cannot be {use} ({error}); {end}"
                warnings.warn(message, CacheWarning, stacklevel=3)
            return []

    def _open(self) -> sqlite3.Connection:
        if self._connection is None or self._process != os.getpid():  # SQLite connections must not survive a fork
            self._process = os.getpid()
            self._connection = _connect(self.path)
            closing = weakref.finalize(self, self._connection.close)
            closing.atexit = False  # threads of an interrupted run may still store answers
        return self._connection


@lru_cache(maxsize=64)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Converts answers of the type ``A`` of the base class ``Question[A]``."""
    bases = [base for parent in kind.__mro__ for base in vars(parent).get("__orig_bases__", ())]
    return TypeAdapter(next((get_args(base)[0] for base in bases if get_origin(base) is Question), object))


def encode(question: Question[A], answer: A) -> str | None:
    """Return the answer as JSON; ``None`` for a kind that is not stored or an answer of the wrong type."""
    if not question.stored:
        return None
    adapter = _adapter(type(question))  # type: ignore[arg-type]
    try:
        return adapter.dump_json(adapter.validate_python(answer), warnings=False).decode()
    except ValueError:
        return None


def decode(question: Question[A], text: str) -> A | None:
    """Return the answer that ``encode`` wrote; ``None`` if it does not fit the question."""
    try:
        answer: A = _adapter(type(question)).validate_json(text)  # type: ignore[arg-type]
    except ValidationError:
        return None
    return answer if question.fits(answer) else None


def _key(fingerprint: str, question: Question[Any]) -> tuple[str, str]:
    return hashlib.sha256(fingerprint.encode()).hexdigest(), cache_key(question)


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # answers quote the texts, so only the owner may read
    # in write-ahead mode SQLite creates more files next to this one, unless the file is declared immutable
    frozen = not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists()
    address = f"{path.absolute().as_uri()}?{'immutable=1' if frozen else 'mode=rw'}"
    connection = sqlite3.connect(
        address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA synchronous = NORMAL")
    if _version(connection) == _VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")  # another process may be creating the same file
    version = _version(connection)
    if version != _VERSION:
        if version or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise sqlite3.DatabaseError(f"it is not a cache of version {_VERSION}")
        connection.execute(_CREATE)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    connection.execute("COMMIT")
    with suppress(sqlite3.OperationalError):  # if the file is locked, another process sets the mode, which is kept
        connection.execute("PRAGMA journal_mode = WAL")  # lets others read during writing; the cache works without


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
