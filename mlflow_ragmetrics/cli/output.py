"""Output of commands: terminal lines, report files, and gates as lines and JUnit."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import fill
from typing import IO, TYPE_CHECKING, Any

import click

from mlflow_ragmetrics.cli.table_file import TABLES, TableFile
from mlflow_ragmetrics.core.safe_text import as_json, redact
from mlflow_ragmetrics.display.document import Block, Line, clean, terminal_lines
from mlflow_ragmetrics.display.junit import Case, gate_cases, to_junit
from mlflow_ragmetrics.display.text import report_blocks, usage_line
from mlflow_ragmetrics.errors import InvalidOptionError, RagMetricsError
from mlflow_ragmetrics.results.gates import Check
from mlflow_ragmetrics.results.marks import diagnoses_of
from mlflow_ragmetrics.results.results import suite_file
from mlflow_ragmetrics.results.tables import has_diagnoses

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from mlflow_ragmetrics.engine.program import Row
    from mlflow_ragmetrics.report import Report
    from mlflow_ragmetrics.suite import Suite


GATE_NOT_REACHED = 1
NOT_COMPLETE = 3
_WIDEST = 120


def report_gates(
    checks: Sequence[Check],
    junit: str | None = None,
    rows: Mapping[str, Sequence[Case]] | None = None,
    *,
    quiet: bool = False,
    said: bool = True,
) -> bool:
    """Print the checks, failed ones to standard error, write the JUnit file, and return whether all passed.

    ``rows``: further suites of cases for the JUnit file, by name. ``quiet``: print nothing to standard output.
    ``said``: whether to print the lines.
    """
    if junit is not None:
        write_text(junit, to_junit({"gates": gate_cases(checks), **(rows or {})}))
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


_FORMATS = (".csv", ".json", ".jsonl", ".parquet", ".html")


def check_output(output: str | None) -> None:
    """Raise ``RagMetricsError`` for an unusable file name, before anything is scored."""
    if output is not None and Path(output).suffix.lower() not in _FORMATS:
        message = f"--output {output}: the name must end in one of {', '.join(_FORMATS)}"
        raise InvalidOptionError(message, param="output")
    check_writable(output)


class Output:
    """The file of ``--output``: JSON Lines and Parquet are written row by row, other formats at the end.

    The file gets its name when it is complete. A disk error is stored as ``refusal``, so that the scores can still be
    shown and logged. In CSV, lists are JSON, and a cell that a spreadsheet would take for a formula starts with a
    quote.
    """

    def __init__(self, name: str | None, suite: Suite) -> None:
        self.refusal: RagMetricsError | None = None
        self._path = None if name is None else Path(name)
        self._language = suite.language if has_diagnoses(suite.keys) else None
        self._file: TableFile | None = None

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.discard()

    @property
    def grows(self) -> bool:
        """Whether rows are written as they are added."""
        return self._path is None or self._path.suffix.lower() in TABLES

    def add(self, row: Row) -> None:
        """Add a row."""
        if self._path is None or not self.grows or self.refusal is not None:
            return
        try:
            self._file = self._file or TableFile(self._path)
            self._file.add(row, None if self._language is None else diagnoses_of([row.scores], self._language)[0])
        except OSError as error:
            self.refusal = unwritable(self._path, error)

    def finish(self, report: Report) -> bool:
        """Give the file its name, and describe its suite in it or in a second file; returns whether it was written."""
        if self._path is None or self.refusal is not None:
            return False
        suite = redact(as_json(dict(report.description)))
        try:
            if self._file is not None:
                self._file.close(suite)
            else:
                _write_whole(report, self._path)
            if self._path.suffix.lower() not in (".parquet", ".html"):
                about = f'{{"bytes": {self._path.stat().st_size}, "suite": {suite}}}'
                suite_file(self._path).write_text(about, encoding="utf-8")
        except OSError as error:
            self.refusal = unwritable(self._path, error)
        return self.refusal is None


def unwritable(path: str | Path, error: OSError) -> RagMetricsError:
    """Why the file could not be written."""
    return RagMetricsError(f"cannot write {path}: {os.strerror(error.errno) if error.errno else error}")


def _write_whole(report: Report, path: Path) -> None:
    partial = path.with_name(f"{path.name}.partial")
    try:
        if path.suffix.lower() == ".html":
            partial.write_text(report.to_html(), encoding="utf-8")
        elif path.suffix.lower() == ".csv":
            partial.write_text(csv_text(report.table), encoding="utf-8", newline="")
        else:
            report.table.to_json(partial, orient="records", force_ascii=False, compression=None)
        os.replace(partial, path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


_FORMULA = (*"=+-@＝＋－＠", "\t", "\r", "\n")


def csv_text(table: pd.DataFrame) -> str:
    """``table`` as CSV: lists are JSON, and a quote precedes cells that spreadsheets compute, as OWASP advises."""
    return table.astype(object).map(_cell).rename(columns=_cell).to_csv(index=False)


def _cell(value: object) -> object:
    if hasattr(value, "__len__") and not isinstance(value, str):
        return as_json(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


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
    asks = {each for metric in suite.metrics for each in metric.definition.asks}
    if "embeddings" in asks and any(each.name == "char-ngram" for each in suite.embeddings):
        blocks.append(Line(_SPELLING))
    print_blocks([*blocks, usage_line(report)])
