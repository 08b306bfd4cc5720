"""Where on disk answers are until MLflow has them."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SpillOptions"]

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
