"""An event loop for models that can only be awaited: one per process, on a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["awaited"]

T = TypeVar("T")
_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}


def awaited(coroutine: Coroutine[Any, Any, T]) -> T:
    """What the coroutine returns; always on the same loop, to which asynchronous clients are bound."""
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="ragmetrics-loop", daemon=True).start()
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()
