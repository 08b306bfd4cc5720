"""Ctrl-C and SIGTERM: the first one stops a command, which writes what is done; a second one ends it at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import click

__all__ = ["Stopped", "exit_code_of", "say_stopping", "stoppable"]

_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
_AT_ONCE = b"Ended at once: what was being written is not whole.\n"


class Stopped(KeyboardInterrupt):
    """What ``number``, a signal, raises: SIGTERM, as Kubernetes and ``timeout`` send it, ends as Ctrl-C does."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def exit_code_of(interruption: KeyboardInterrupt) -> int:
    """130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + (interruption.number if isinstance(interruption, Stopped) else signal.SIGINT)


def say_stopping(rows: int) -> None:
    """Say that so many rows are kept, and how to end without that."""
    done = "1 row is" if rows == 1 else f"{rows} rows are"
    click.echo(f"Stopping; {done} scored and will be written. A second Ctrl-C or SIGTERM ends at once.", err=True)


@contextmanager
def stoppable() -> Iterator[None]:
    """While this lasts the signals raise ``Stopped``; where somebody else handles or ignores one, nothing changes."""
    ours = {
        number: default
        for number, default in _DEFAULTS.items()
        if threading.current_thread() is threading.main_thread() and signal.getsignal(number) is default
    }

    def stop(number: int, frame: FrameType | None) -> None:
        for each in ours:
            signal.signal(each, _end)
        raise Stopped(number)

    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, default in ours.items():
            if signal.getsignal(number) is stop:  # else the process is about to end, and a second one still counts
                signal.signal(number, default)


def _end(number: int, frame: FrameType | None) -> None:
    with suppress(OSError):
        os.write(2, _AT_ONCE)
    os._exit(128 + number)
