"""Scored answers on disk, where too many wait in memory: appended as lines, taken oldest first, found after a kill."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from mlflow_ragmetrics.core.json_text import as_json
from mlflow_ragmetrics.engine.program import Row

__all__ = ["Packed", "Spill", "SpillOptions", "packed_answer", "unpacked_answer"]

MOST_BYTES = 256 * 2**20


@dataclass(frozen=True)
class SpillOptions:
    """Where answers may go on disk (``None``: nowhere), and how many bytes of them."""

    folder: Path | None
    most_bytes: int = MOST_BYTES

    @classmethod
    def of(cls, folder: str | os.PathLike[str] | bool, most_bytes: int = MOST_BYTES) -> SpillOptions:
        """``True`` is a folder of the user's own among the temporary files, ``False`` none."""
        if isinstance(folder, bool):
            return cls(_own_folder() if folder else None, most_bytes)
        return cls(Path(folder), most_bytes)


def _own_folder() -> Path:
    """A folder that other users of the machine can neither read nor have put there before."""
    user = os.getuid() if hasattr(os, "getuid") else None
    folder = Path(tempfile.gettempdir(), f"ragmetrics-{'user' if user is None else user}")
    with suppress(FileNotFoundError):
        found = folder.lstat()
        if user is not None and (stat.S_ISLNK(found.st_mode) or found.st_uid != user or found.st_mode & 0o077):
            return Path(tempfile.mkdtemp(prefix="ragmetrics-"))
    return folder


class Packed(TypedDict):
    """A scored answer as JSON."""

    row: dict[str, Any]
    run_id: str | None
    trace_id: str | None
    feedback: list[str]
    time_ms: int
    metrics: list[tuple[str, float, int, int]] | None
    place: tuple[str, int] | None


def packed_answer(
    row: Row,
    run_id: str | None,
    trace_id: str | None,
    feedback: list[str],
    time_ms: int,
    metrics: list[tuple[str, float, int, int]] | None,
    place: tuple[str, int] | None = None,
) -> Packed:
    """An answer as it goes to disk."""
    return Packed(
        row=asdict(row),
        run_id=run_id,
        trace_id=trace_id,
        feedback=feedback,
        time_ms=time_ms,
        metrics=metrics,
        place=place,
    )


def unpacked_answer(entry: Packed) -> Row | None:
    """The row of an answer from disk; ``None`` where it is not one."""
    try:
        return _rows().validate_python(entry["row"])
    except (ValidationError, KeyError, TypeError):
        return None


@lru_cache(maxsize=1)
def _rows() -> TypeAdapter[Row]:
    return TypeAdapter(Row)


class Spill:
    """Lines in a file that only this process writes, in a folder that all processes of one user and store share.

    A file is locked while its process lives. Those of processes that ended are read again by ``left_behind``.
    """

    def __init__(self, options: SpillOptions, store: str) -> None:
        assert options.folder is not None
        self.folder = options.folder
        self._most_bytes = options.most_bytes
        self._store = hashlib.sha256(store.encode()).hexdigest()[:16]
        self._file: Any = None
        self._path: Path | None = None
        self._read_at = 0
        self._count = 0
        self._number = 0

    def __len__(self) -> int:
        return self._count

    def after_fork(self) -> None:
        """Forget the parent's file."""
        self._file, self._path, self._read_at, self._count = None, None, 0, 0

    def append(self, entry: Packed) -> str | None:
        """Write an answer; returns its key, or ``None`` where there is no room for it or it cannot be written."""
        line = (as_json(entry) + "\n").encode("utf-8")
        try:
            file = self._opened()
            end = file.seek(0, os.SEEK_END)
            if end - self._read_at + len(line) > self._most_bytes:
                return None
            try:
                file.write(line)
                file.flush()
            except OSError:
                file.truncate(end)
                raise
        except OSError:
            return None
        self._count += 1
        return str(end)

    def pop(self) -> tuple[str, Packed] | None:
        """The oldest answer with its key."""
        if not self._count:
            return None
        try:
            self._file.seek(self._read_at)
            line = self._file.readline()
            key, self._read_at, self._count = str(self._read_at), self._file.tell(), self._count - 1
            if not self._count:  # all is read: the file begins anew
                self._file.truncate(0)
                self._read_at = 0
            entry: Packed = json.loads(line)
        except (OSError, ValueError):
            return None
        return key, entry

    def close(self) -> None:
        """Leave what is in the file to the next process, and remove an empty one."""
        if self._file is None or self._path is None:
            return
        with suppress(OSError):
            self._file.seek(self._read_at)
            rest = self._file.read()
            if self._read_at and rest:
                fresh = self._path.with_suffix(".rest")
                fresh.write_bytes(rest)
                os.replace(fresh, self._path)
            if not rest:
                self._path.unlink(missing_ok=True)
        self._file.close()
        self.after_fork()

    def left_behind(self) -> Iterator[Packed]:
        """The answers in the files of processes that ended, which are removed."""
        for path in sorted(self.folder.glob(f"{self._store}-*.jsonl")) if self.folder.is_dir() else ():
            if path == self._path:
                continue
            with suppress(OSError), path.open("r+b") as file:
                if not _lock(file):
                    continue
                lines = file.readlines()
                for line in lines:
                    with suppress(ValueError):  # the last one may be cut off
                        yield json.loads(line)
                path.unlink(missing_ok=True)

    def _opened(self) -> Any:
        if self._file is None:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path = self.folder / f"{self._store}-{uuid4().hex[:12]}.jsonl"
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            self._file = os.fdopen(descriptor, "w+b")
            _lock(self._file)
        return self._file


def _lock(file: Any) -> bool:
    """Whether no other open file, of this process or another, has the lock; then it is ours until it is closed."""
    try:
        import fcntl
    except ImportError:  # Windows does not remove or replace a file that is open, which is enough here
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
