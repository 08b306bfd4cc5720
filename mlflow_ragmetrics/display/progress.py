"""The progress of an evaluation, shown on terminals and in notebooks only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Union

_REDRAWN_EVERY = 0.3  # seconds


@contextmanager
def progress_of(wanted: Union[bool, None], total: int) -> Iterator[Callable[[], None]]:
    """Show how many of ``total`` rows are scored, in a line that is redrawn in place and cleared at the end.

    Yields the function that counts a row. ``wanted``: ``True`` always shows the line, ``False`` never; ``None`` shows
    it on terminals and in notebooks.
    """
    show, done = _line(wanted), 0
    shown_at = began = time.monotonic()

    def count() -> None:
        nonlocal done, shown_at
        done += 1
        if (now := time.monotonic()) - shown_at > _REDRAWN_EVERY:
            shown_at, left = now, (now - began) / done * (total - done)
            show(f"rows scored: {done} of {total}, about {left:.0f} s left")

    show(f"rows scored: 0 of {total}")
    try:
        yield count
    finally:
        show("")


def _line(wanted: Union[bool, None]) -> Callable[[str], object]:
    if wanted is not False:
        from rich.console import Console

        console = Console(stderr=True)
        if console.is_jupyter:
            handle = import_module("IPython.display").display({"text/plain": ""}, raw=True, display_id=True)
            return lambda text: handle.update({"text/plain": text}, raw=True)
        if wanted or console.is_terminal:
            return _rewrite
    return lambda text: None


def _rewrite(text: str) -> None:
    sys.stderr.write(f"\r\x1b[K{text}")
    sys.stderr.flush()
