"""Output of commands: terminal lines, report files, and gates as lines and JUnit."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import IO, TYPE_CHECKING, Any

import click

from mlflow_ragmetrics.display.document import Block, Line, clean, terminal_lines
from mlflow_ragmetrics.display.junit import to_junit
from mlflow_ragmetrics.display.text import report_blocks, usage_line
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.results.gates import Check

if TYPE_CHECKING:
    from rich.console import Console

    from mlflow_ragmetrics.report import Report
    from mlflow_ragmetrics.suite import Suite


GATE_NOT_REACHED = 1
NOT_COMPLETE = 3
_WIDEST = 120


def report_gates(checks: Sequence[Check], junit: str | None = None, *, quiet: bool = False, said: bool = True) -> bool:
    """Print the checks, failed ones to standard error, write the JUnit file, and return whether all passed.

    ``quiet``: print nothing to standard output. ``said``: whether to print the lines.
    """
    if junit is not None:
        write_text(junit, to_junit(checks))
    for check in checks if said else ():
        if check.name == "evaluation":
            continue  # already printed, with its cause
        outcome = "Gate passed" if check.passed else "Gate failed"
        stream = sys.stderr if quiet or not check.passed else sys.stdout
        click.echo(for_terminal(f"{outcome}: {clean(check.reason)}", stream), file=stream)
    return all(check.passed for check in checks)


def check_writable(*paths: str | None) -> None:
    """Raise ``RagMetricsError`` for a folder, or a file in a missing folder, before anything is computed."""
    for path in paths:
        if path is not None and (os.path.isdir(path) or not os.path.isdir(Path(path).parent)):
            what = "it is a folder" if os.path.isdir(path) else f"there is no folder {Path(path).parent}"
            raise RagMetricsError(f"cannot write {path}: {what}")


def write_text(path: str, text: str) -> None:
    """Write ``text``; raises ``RagMetricsError`` if the file cannot be written."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise unwritable(path, error) from None


def unwritable(path: str | Path, error: OSError) -> RagMetricsError:
    """Why the file could not be written."""
    return RagMetricsError(f"cannot write {path}: {os.strerror(error.errno) if error.errno else error}")


def fitted(line: str, width: int) -> str:
    """``line``, wrapped if it does not fit; continuation lines are indented by two more."""
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return fill(line, max(20, width), subsequent_indent=indent, break_on_hyphens=False)


def for_terminal(text: str, stream: IO[Any]) -> str:
    """``text``, wrapped if ``stream`` is a terminal."""
    width = terminal_width(stream)
    return text if width is None else "\n".join(fitted(line, width) for line in text.splitlines())


def terminal_width(stream: IO[Any]) -> int | None:
    """The width of the terminal behind ``stream``; ``None`` for a file or a pipe."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def print_blocks(blocks: Sequence[Block]) -> None:
    """Print the blocks, at most 120 columns wide; colours on terminals only."""
    screen = console()
    for line in terminal_lines(blocks, min(screen.width, _WIDEST)):
        screen.print(line, soft_wrap=True)


def console() -> Console:
    """Standard output with colours on terminals only and without markup."""
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False)


_SPELLING = "Embeddings: char-ngram, built in. It compares spelling, not meaning; name a real model with --embeddings."


def show(report: Report, suite: Suite, worst: int, by: Sequence[str] = ()) -> None:
    """Print the figures, slices ``by`` columns, the ``worst`` rows, and how far to trust the judge."""
    blocks = report_blocks(report, worst, tuple(by))
    if suite.cache is not None:
        kept = f"The judge's answers are cached in {suite.cache} (--cache none: no cache)."
        blocks.append(Line(kept))
    asks = {question_kind for metric in suite.metrics for question_kind in metric.definition.asks}
    if "embeddings" in asks and any(model.name == "char-ngram" for model in suite.embeddings):
        blocks.append(Line(_SPELLING))
    print_blocks([*blocks, usage_line(report)])
