"""The progress of an evaluation, shown on terminals and in notebooks only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import TypeVar, Union

T = TypeVar("T")
_REDRAWN_EVERY = 0.3  # seconds


class Progress:
    """Counts the rows as they are scored, in a line that ``show`` redraws in place and clears at the end."""

    def __init__(self, total: int, show: Callable[[str], object] | None) -> None:
        self._total = total
        self._show = show
        self._done = 0
        self._shown_at = self._began = time.monotonic()

    def __enter__(self) -> Progress:
        if self._show is not None:
            self._show(f"rows scored: 0 of {self._total}")
        return self

    def __exit__(self, *_: object) -> None:
        if self._show is not None:
            self._show("")

    def advance(self, row: T) -> T:
        """Count ``row`` as done, and return it."""
        self._done += 1
        if self._show is not None and (now := time.monotonic()) - self._shown_at > _REDRAWN_EVERY:
            self._shown_at, left = now, (now - self._began) / self._done * (self._total - self._done)
            self._show(f"rows scored: {self._done} of {self._total}, about {left:.0f} s left")
        return row


def progress_of(wanted: Union[bool, None], total: int) -> Progress:
    """The progress line for ``total`` rows. ``True``: always; ``False``: never; ``None``: terminals and notebooks."""
    if wanted is False:
        return Progress(total, None)
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_jupyter:
        handle = import_module("IPython.display").display({"text/plain": ""}, raw=True, display_id=True)
        return Progress(total, lambda text: handle.update({"text/plain": text}, raw=True))
    return Progress(total, _rewrite if wanted or console.is_terminal else None)


def _rewrite(text: str) -> None:
    sys.stderr.write(f"\r\x1b[K{text}")
    sys.stderr.flush()
