"""``--output``: a report as a file, its rows or the whole page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mlflow_ragmetrics.errors import InvalidOptionError, RagMetricsError

if TYPE_CHECKING:
    import pandas as pd

    from mlflow_ragmetrics.report import Report

__all__ = ["check_output", "write_report"]

_FORMATS = (".csv", ".json", ".jsonl", ".parquet", ".html")


def check_output(output: str | None) -> None:
    """``InvalidOptionError`` for a file name that cannot be written, before anything is scored."""
    if output is None:
        return
    path = Path(output)
    if path.suffix.lower() not in _FORMATS:
        message = f"--output {output}: the name must end in one of {', '.join(_FORMATS)}"
        raise InvalidOptionError(message, param="output")
    if not path.parent.is_dir() or path.is_dir():
        what = "is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise InvalidOptionError(f"--output {output}: {what}", param="output")


def write_report(report: Report, output: str) -> None:
    """The rows as CSV (lists as JSON), JSON records, JSON lines or Parquet, or the page, by the file's ending."""
    path, table = Path(output), report.table
    kind = path.suffix.lower()
    try:
        if kind == ".parquet":
            table.to_parquet(path, index=False)
        elif kind == ".html":
            path.write_text(report.to_html(), encoding="utf-8")
        elif kind == ".csv":
            _flat(report).to_csv(path, index=False)
        else:
            table.to_json(path, orient="records", lines=kind == ".jsonl", force_ascii=False)
    except OSError as error:
        raise RagMetricsError(f"cannot write --output {output}: {error.strerror or error}") from None


def _flat(report: Report) -> pd.DataFrame:
    import json

    table = report.table.copy()
    for name in table.columns:
        if any(isinstance(value, list) for value in table[name]):
            table[name] = [json.dumps(v, ensure_ascii=False) if isinstance(v, list) else v for v in table[name]]
    return table
