"""What gates found, for people and for CI: reasons on standard error, JUnit XML and JSON files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from mlflow_ragmetrics.cli.terminal import clean
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.gates import Check, to_json, to_junit

__all__ = ["GATE_NOT_REACHED", "check_writable", "tell", "write_text"]

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
