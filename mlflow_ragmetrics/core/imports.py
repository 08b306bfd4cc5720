"""Modules that a user names, as in ``module:name``: also those beside the data, but only while they are imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from types import ModuleType

__all__ = ["import_named", "importing_from"]

_FOLDER: ContextVar[str | None] = ContextVar("ragmetrics_import_folder", default=None)


@contextmanager
def importing_from(folder: str | os.PathLike[str]) -> Iterator[None]:
    """While this lasts, ``import_named`` also looks in ``folder``, after all other places.

    Not where Python was told to keep such folders out (``-P``, ``-I``, ``PYTHONSAFEPATH``).
    """
    safe = getattr(sys.flags, "safe_path", False) or sys.flags.isolated  # safe_path is there from Python 3.11
    token = _FOLDER.set(None if safe or os.environ.get("PYTHONSAFEPATH") else os.fspath(folder))
    try:
        yield
    finally:
        _FOLDER.reset(token)


def import_named(module: str) -> ModuleType:
    """The module of that name; what it raises when it is imported goes on."""
    folder = _FOLDER.get()
    if folder is None or folder in sys.path:
        return import_module(module)
    sys.path.append(folder)
    try:
        return import_module(module)
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
