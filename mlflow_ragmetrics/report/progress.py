"""A progress bar on terminals and in notebooks, and nothing elsewhere."""

from __future__ import annotations

import time
from importlib import import_module
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Protocol, TypeVar, Union

T = TypeVar("T")
_REDRAWN_EVERY = 0.3  # seconds
_SETTLED = 0.5  # seconds before a rate means anything


class Progress(Protocol):
    """Follows the rows as they are done."""

    def __enter__(self) -> Progress:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""

    def advance(self, row: T) -> T:
        """Note that ``row`` is done, and return it."""


class _NoProgress:
    def __enter__(self) -> _NoProgress:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def advance(self, row: T) -> T:
        return row


class _Bar:
    def __init__(self, console: Any, total: int) -> None:
        from rich import progress

        self._progress = progress.Progress(
            progress.TextColumn("scoring"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[rate]}"),
            progress.TimeRemainingColumn(),
            progress.TextColumn("left"),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("scoring", total=total, rate="")

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def advance(self, row: T) -> T:
        task = self._progress.tasks[0]
        seconds = task.elapsed or 0.0
        rate = pace((task.completed + 1) / seconds) if seconds > _SETTLED else ""
        self._progress.update(self._task, advance=1, rate=rate)
        return row


class _CellLine:
    """A line that is rewritten in the cell's output: for notebooks without ipywidgets, which rich's bar needs there."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._shown_at = self._began = time.monotonic()
        self._handle: Any = None

    def __enter__(self) -> _CellLine:
        display = import_module("IPython.display").display
        self._handle = display({"text/plain": f"scoring {self._total} rows"}, raw=True, display_id=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.update({"text/plain": ""}, raw=True)

    def advance(self, row: T) -> T:
        self._done += 1
        now = time.monotonic()
        if now - self._shown_at > _REDRAWN_EVERY:
            self._shown_at, left = now, (now - self._began) / self._done * (self._total - self._done)
            text = f"scoring {self._done} of {self._total} rows, about {left:.0f} s left"
            self._handle.update({"text/plain": text}, raw=True)
        return row


def pace(rows_per_second: float) -> str:
    """The pace in the unit that makes it at least 1.

    >>> pace(42.3), pace(2.5), pace(0.2)
    ('42 rows/s', '2.5 rows/s', '12 rows/min')
    """
    if rows_per_second < 1:
        return f"{60 * rows_per_second:.0f} rows/min"
    return f"{rows_per_second:.0f} rows/s" if rows_per_second >= 10 else f"{rows_per_second:.1f} rows/s"


def progress_of(wanted: Union[bool, Progress, None], total: int) -> Progress:
    """The bar for ``total`` rows: ``True`` always, ``False`` never, ``None`` on a terminal or in a notebook."""
    if wanted is False:
        return _NoProgress()
    if wanted is not None and wanted is not True:
        return wanted
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_jupyter and find_spec("ipywidgets") is None:
        return _CellLine(total)
    if wanted or console.is_terminal or console.is_jupyter:
        return _Bar(console, total)
    return _NoProgress()
