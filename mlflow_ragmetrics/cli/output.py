"""Output of commands: lines and tables in the terminal, gates as lines and JUnit, and the file of ``--output``."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from textwrap import fill
from typing import IO, TYPE_CHECKING, Any

import click

from mlflow_ragmetrics.core.safe_text import as_json, redact
from mlflow_ragmetrics.display.document import Block, Line, clean, terminal_lines
from mlflow_ragmetrics.display.text import report_blocks, to_junit, usage_line
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidOptionError, RagMetricsError
from mlflow_ragmetrics.results.gates import Check
from mlflow_ragmetrics.results.marks import diagnoses_of, diagnosis_columns
from mlflow_ragmetrics.results.results import SUITE_METADATA, suite_file
from mlflow_ragmetrics.results.tables import Layout
from mlflow_ragmetrics.tracking.writer import storable, table_rows

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

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


def for_terminal(text: str, stream: IO[Any]) -> str:
    """``text``, wrapped if ``stream`` is a terminal; continuation lines are indented by two more."""
    width = terminal_width(stream)
    if width is None:
        return text
    lines = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        lines.append(fill(line, max(20, width), subsequent_indent=indent, break_on_hyphens=False))
    return "\n".join(lines)


def terminal_width(stream: IO[Any]) -> int | None:
    """The width of the terminal behind ``stream``; ``None`` for a file or a pipe."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def print_text(text_of: Callable[[int | None], str]) -> None:
    """Print the text for the width of the terminal, and a blank line."""
    click.echo(f"{for_terminal(text_of(terminal_width(sys.stdout)), sys.stdout)}\n")


def print_blocks(blocks: Sequence[Block]) -> None:
    """Print the blocks, at most 120 columns wide; colours on terminals only."""
    from rich.console import Console

    screen = Console(markup=False, highlight=False, emoji=False)
    for line in terminal_lines(blocks, min(screen.width, _WIDEST)):
        screen.print(line, soft_wrap=True)


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


_FORMATS = (".csv", ".json", ".jsonl", ".parquet", ".html")
_ROWS = 1000
_ROW_GROUP = 8 * 2**20  # bytes: each row group adds to the file's footer, which stays in memory


def check_output(output: str | None) -> None:
    """Raise ``RagMetricsError`` for an unusable file name, before anything is scored."""
    if output is not None and Path(output).suffix.lower() not in _FORMATS:
        message = f"--output {output}: the name must end in one of {', '.join(_FORMATS)}"
        raise InvalidOptionError(message, param="output")
    check_writable(output)


class OutputFile:
    """The file ``name``, or none: JSON Lines and Parquet are written row by row, other formats at the end.

    Rows are written a thousand at a time, with the columns of ``report.table``, and none is kept in memory. Those of a
    Parquet file are JSON until all columns and types are known. The file gets its name when it is complete. A disk
    error is stored as ``refusal``, so that the scores can still be shown and logged.
    """

    def __init__(self, name: str | None, suite: Suite) -> None:
        self.refusal: RagMetricsError | None = None
        self._is_wanted = name is not None
        self._path = Path(name or "")
        self._suffix = self._path.suffix.lower()
        self._partial = Path(f"{name}.partial")
        self._columnar = Path(f"{name}.partial.parquet")
        self._language = suite.language
        self._lines: IO[str] | None = None
        self._layout = Layout()
        self._schema: pa.Schema | None = None
        self._rows: list[Row] = []

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_wanted:
            with suppress(OSError):
                if self._lines is not None:
                    self._lines.close()
            for name in (self._partial, self._columnar):
                with suppress(OSError):
                    name.unlink(missing_ok=True)

    @property
    def grows(self) -> bool:
        """Whether rows are written as they are added."""
        return self._suffix in ("", ".jsonl", ".parquet")

    def add(self, row: Row) -> None:
        """Add a row."""
        if not self._is_wanted or not self.grows or self.refusal is not None:
            return
        self._rows.append(row)
        if len(self._rows) >= _ROWS:
            try:
                self._flush()
            except OSError as error:
                self.refusal = unwritable(self._path, error)

    def finish(self, report: Report) -> bool:
        """Give the file its name, and describe its suite in it or in a second file; returns whether it was written."""
        if not self._is_wanted or self.refusal is not None:
            return False
        suite = redact(as_json(dict(report.description)))
        try:
            if self.grows:
                self._flush()
            if self._lines is not None:
                self._lines.close()
            if self._suffix == ".parquet":
                self._convert(suite)
            elif self._suffix == ".html":
                self._partial.write_text(report.to_html(), encoding="utf-8")
            elif self._suffix == ".csv":
                self._partial.write_text(csv_text(report.table), encoding="utf-8", newline="")
            elif self._suffix == ".json":
                report.table.to_json(self._partial, orient="records", force_ascii=False, compression=None)
            os.replace(self._partial, self._path)
            if self._suffix not in (".parquet", ".html"):
                about = f'{{"bytes": {self._path.stat().st_size}, "suite": {suite}}}'
                suite_file(self._path).write_text(about, encoding="utf-8")
        except OSError as error:
            self.refusal = unwritable(self._path, error)
        return self.refusal is None

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        if not rows:
            return
        diagnoses = diagnoses_of([row.scores for row in rows], self._language)
        frame = self._layout.frame(rows, diagnosis_columns(diagnoses))
        self._lines = self._lines or self._partial.open("w", encoding="utf-8", newline="\n")
        names = list(frame.columns)
        self._lines.writelines(as_json(dict(zip(names, row, strict=True))) + "\n" for row in table_rows(frame))
        if self._suffix == ".parquet":
            import pyarrow as pa

            schema = pa.Schema.from_pandas(storable(frame), preserve_index=False)
            self._schema = _united(self._schema or pa.schema([]), schema)

    def _convert(self, suite: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pa.schema([]) if self._schema is None else self._schema
        schema = schema.with_metadata({**(schema.metadata or {}), SUITE_METADATA: suite.encode()})
        with pq.ParquetWriter(self._columnar, schema) as writer, self._partial.open(encoding="utf-8") as lines:
            gathered: list[pa.Table] = []
            while records := [_fitted(json.loads(line), schema) for line in islice(lines, _ROWS)]:
                gathered.append(pa.Table.from_pylist(records, schema))
                if sum(table.nbytes for table in gathered) >= _ROW_GROUP:
                    writer.write_table(pa.concat_tables(gathered))
                    gathered = []
            if gathered:
                writer.write_table(pa.concat_tables(gathered))
        os.replace(self._columnar, self._partial)


def _united(known: pa.Schema, later: pa.Schema) -> pa.Schema:
    """The columns of ``later``, which include those of ``known``, each with a type that fits both."""
    import pyarrow as pa

    fields = []
    for field in later:
        if pa.types.is_large_string(field.type):  # pandas may use it for texts
            field = field.with_type(pa.string())
        try:
            there = [pa.schema([known.field(field.name)])] if field.name in known.names else []
            fields.append(pa.unify_schemas([*there, pa.schema([field])], promote_options="permissive").field(0))
        except pa.ArrowTypeError:
            fields.append(pa.field(field.name, pa.string()))
    return pa.schema(fields, later.metadata)


def _fitted(record: dict[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """A record with all columns; records without ``_measured`` precede the first unmeasured score."""
    import pyarrow as pa

    for field in schema:
        value = record.get(field.name)
        if field.type == pa.string() and value is not None and not isinstance(value, str):
            record[field.name] = as_json(value)
        elif field.name.endswith("_measured") and field.name not in record:
            record[field.name] = record.get(f"{field.name.removesuffix('_measured')}_status") == "ok"
    return record


_FORMULA = (*"=+-@＝＋－＠", "\t", "\r", "\n")


def csv_text(table: pd.DataFrame) -> str:
    """``table`` as CSV: lists are JSON, and a quote precedes cells that spreadsheets compute, as OWASP advises."""
    return table.astype(object).map(_cell).rename(columns=_cell).to_csv(index=False)


def _cell(value: object) -> object:
    if hasattr(value, "__len__") and not isinstance(value, str):
        return as_json(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
