"""Fewer passes of the garbage collector while many results are created: they stay, and hardly ever form cycles."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_ALLOCATIONS = 100_000  # between two passes; each would visit the loaded modules and all rows so far
_lock = threading.Lock()
_usual: list[tuple[int, int, int]] = []


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage rarely within this context. Contexts may overlap, also in several threads."""
    with _lock:
        usual = _usual[0] if _usual else gc.get_threshold()
        _usual.append(usual)
        if usual[0]:  # 0 turns the collector off
            gc.set_threshold(max(usual[0], _ALLOCATIONS), *usual[1:])
    try:
        yield
    finally:
        with _lock:
            _usual.pop()
            if not _usual:
                gc.set_threshold(*usual)
