"""What commands show and write: a console for texts of others, tables of figures, reports and gates as files."""

from __future__ import annotations

import os
import re
import shutil
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import wrap
from typing import IO, TYPE_CHECKING, Any

import click

from mlflow_ragmetrics.errors import InvalidOptionError, RagMetricsError
from mlflow_ragmetrics.report.gates import Check, to_json, to_junit

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

    from mlflow_ragmetrics.report.report import Report

__all__ = [
    "clean",
    "console",
    "fitted",
    "for_terminal",
    "harmless",
    "kept",
    "shorten",
    "terminal_width",
    "wrapped",
    "composite_lines",
    "figures_table",
    "other_figures",
    "GATE_NOT_REACHED",
    "check_writable",
    "tell",
    "write_text",
    "check_output",
    "write_report",
]

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?", re.DOTALL)
_UNBROKEN = "\N{NO-BREAK SPACE}"
_DIRECTION = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: object) -> str:
    """``text`` on one line, without escape sequences, control characters and changes of writing direction.

    >>> clean("red \\x1b[31malert\\x1b[0m\\nnext")
    'red alert next'
    """
    plain = _DIRECTION.sub("", _ESCAPE.sub("", str(text)))
    return " ".join("".join(" " if unicodedata.category(c) == "Cc" else c for c in plain).split())


def harmless(text: str) -> str:
    """``text`` line for line, without what ``clean`` takes away.

    >>> harmless("one  \\x1b[31mtwo\\nthree")
    'one  two\\nthree'
    """
    plain = _DIRECTION.sub("", _ESCAPE.sub("", text))
    return "".join(" " if unicodedata.category(c) == "Cc" and c != "\n" else c for c in plain)


def shorten(text: object, length: int) -> str:
    """The clean text in at most ``length`` characters; an ellipsis says that something was cut."""
    plain = clean(text)
    return plain if len(plain) <= length else plain[: max(0, length - 1)].rstrip() + "…"


def kept(text: str) -> str:
    """``text`` as one word to ``wrapped``, which does not break it."""
    return text.replace(" ", _UNBROKEN)


def wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    """``text`` in lines of at most ``width`` columns; the second and later ones stand two columns further in."""
    lines = wrap(text, max(20, width - indent - 2), break_on_hyphens=False)
    shown = [" " * (indent + 2 * (number > 0)) + line for number, line in enumerate(lines)]
    return [line.replace(_UNBROKEN, " ") for line in shown]


def fitted(line: str, width: int) -> str:
    """``line`` as it is where it fits, else broken between words, with its own indent."""
    if len(line) <= width:
        return line
    text = line.lstrip()
    return "\n".join(wrapped(text, width, indent=len(line) - len(text)))


def for_terminal(text: str, stream: IO[Any]) -> str:
    """``text`` broken between words where ``stream`` is a terminal, and as it is, line for line, where it is not."""
    width = terminal_width(stream)
    return text if width is None else "\n".join(fitted(line, width) for line in text.splitlines())


def terminal_width(stream: IO[Any]) -> int | None:
    """The columns of the terminal that ``stream`` writes to; ``None`` for a file or a pipe."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def console() -> Console:
    """Standard output: colours on terminals only, markup never read."""
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False)


_COUNTS = ("scored", "skipped", "error")
_NONE = "–"


def figures_table(report: Report) -> Table:
    """One line a metric: mean, 95 % interval, 1–5 value, share that passed, and how many rows were scored."""
    from rich import box
    from rich.table import Table

    figures = report.metrics
    optional = {"1–5": "{}_1to5/mean", "passed": "{}/pass_rate"}
    shown = {title: name for title, name in optional.items() if any(name.format(key) in figures for key in report.keys)}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    table.add_column("metric", no_wrap=True)
    for title in ("mean", "95 % interval", *shown, "scored", "skipped", "failed"):
        table.add_column(title, justify="right", no_wrap=True)
    for key in report.keys:
        cells = [_number(figures, f"{key}/mean"), _interval(figures, key)]
        if "1–5" in shown:
            cells.append(_number(figures, f"{key}_1to5/mean", ".1f"))
        if "passed" in shown:
            cells.append(_number(figures, f"{key}/pass_rate", ".0%"))
        counts = [str(int(figures.get(f"{key}/n_{count}", 0))) for count in _COUNTS]
        table.add_row(key, *cells, *counts, style=_style(counts))
    return table


def composite_lines(report: Report) -> list[str]:
    """How each composite is made up, and how much of its weight had scores where that is not all."""
    lines = []
    weights: Mapping[str, Mapping[str, float]] = report.description.get("weights", {})
    for key, shares in weights.items():
        total = sum(shares.values())
        parts = " + ".join(kept(f"{share / total:.3g} {name}") for name, share in shares.items() if share)
        lines.append(f"{key} = {parts}" if total else key)
        coverage = report.metrics.get(f"{key}/coverage", 1.0)
        if coverage < 1.0:
            lines.append(f"  on average {coverage:.0%} of these weights had a score; the rest counts in proportion")
    return lines


def other_figures(report: Report) -> list[str]:
    """Figures of a whole run that are no metric's mean, such as the share of rows with every document found."""
    names = [name for name in report.metrics if name.startswith("pct_")]
    lines = [f"{name} = {report.metrics[name]:.1f}" for name in names]
    for key in report.keys:
        without = int(report.metrics.get(f"{key}/n_no_context", 0))
        if without:
            lines.append(f"{key}: {without} of {len(report)} rows had no context to verify")
    return lines


def _number(figures: Mapping[str, float], name: str, form: str = ".3f") -> str:
    return format(figures[name], form) if name in figures else _NONE


def _interval(figures: Mapping[str, float], key: str) -> str:
    low, high = figures.get(f"{key}/ci_low"), figures.get(f"{key}/ci_high")
    return _NONE if low is None or high is None else f"{low:.3f}–{high:.3f}"


def _style(counts: Sequence[str]) -> str | None:
    scored, _, failed = counts
    if failed != "0":
        return "red"
    return "dim" if scored == "0" else None


GATE_NOT_REACHED = 1


def tell(checks: Sequence[Check], junit: str | None = None, json_file: str | None = None) -> bool:
    """Whether all checks passed; the reasons of those that failed are printed, one a line, and the files written."""
    if junit is not None:
        write_text(junit, to_junit(checks))
    if json_file is not None:
        write_text(json_file, to_json(checks))
    for check in checks:
        if not check.passed:
            click.echo(f"Gate not reached: {clean(check.reason)}", err=True)
    return all(check.passed for check in checks)


def check_writable(*paths: str | None) -> None:
    """``RagMetricsError`` for a file whose folder is not there, before anything is computed."""
    for path in paths:
        if path is not None and not os.path.isdir(Path(path).parent):
            raise RagMetricsError(f"cannot write {path}: there is no folder {Path(path).parent}")


def write_text(path: str, text: str) -> None:
    """Write ``text``; a ``RagMetricsError`` names the file that cannot be written."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise RagMetricsError(f"cannot write {path}: {error.strerror or error}") from None


_FORMATS = (".csv", ".json", ".jsonl", ".parquet", ".html")


def check_output(output: str | None) -> None:
    """``InvalidOptionError`` for a file name that cannot be written, before anything is scored."""
    if output is None:
        return
    path = Path(output)
    if path.suffix.lower() not in _FORMATS:
        message = f"--output {output}: the name must end in one of {', '.join(_FORMATS)}"
        raise InvalidOptionError(message, param="output")
    if not os.path.isdir(path.parent) or os.path.isdir(path):
        what = "is a folder" if os.path.isdir(path) else f"there is no folder {path.parent}"
        raise InvalidOptionError(f"--output {output}: {what}", param="output")


def write_report(report: Report, output: str) -> RagMetricsError | None:
    """The rows as CSV (lists as JSON), JSON records, JSON lines or Parquet, or the page, by the file's ending.

    Returns why it could not be written, or ``None``: what was scored can be shown and logged nevertheless. The file
    appears under its name when it is whole.
    """
    path = Path(output)
    partial = path.with_name(f"{path.name}.partial")
    try:
        _write(report, partial, path.suffix.lower())
        os.replace(partial, path)
    except OSError as error:
        return RagMetricsError(f"cannot write --output {output}: {os.strerror(error.errno) if error.errno else error}")
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return None


def _write(report: Report, path: Path, kind: str) -> None:
    if kind == ".parquet":
        report.table.to_parquet(path, index=False)
    elif kind == ".html":
        path.write_text(report.to_html(), encoding="utf-8")
    elif kind == ".csv":
        _flat(report).to_csv(path, index=False)
    else:
        report.table.to_json(path, orient="records", lines=kind == ".jsonl", force_ascii=False, compression=None)


def _flat(report: Report) -> pd.DataFrame:
    import json

    table = report.table.copy()
    for name in table.columns:
        if any(isinstance(value, list) for value in table[name]):
            table[name] = [json.dumps(v, ensure_ascii=False) if isinstance(v, list) else v for v in table[name]]
    return table
