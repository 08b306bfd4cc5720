"""What ``ragmetrics doctor`` looks at in the MLflow store."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from mlflow_ragmetrics.cli.checks import Check
from mlflow_ragmetrics.cli.destination import Destination, reaching, silence_mlflow
from mlflow_ragmetrics.errors import RagMetricsError

__all__ = ["check_pool", "check_store"]

_DATABASE = re.compile(r"(?:sqlite|postgresql|mysql|mssql)(?:\+\w+)?://")
_POOL = {"MLFLOW_SQLALCHEMYSTORE_POOL_SIZE": 5, "MLFLOW_SQLALCHEMYSTORE_MAX_OVERFLOW": 10}
_WORKERS = ("MLFLOW_GENAI_EVAL_MAX_WORKERS", 40)


def check_store(destination: Destination) -> Check:
    """Whether the store answers; a SQLite file that does not exist yet is not made."""
    subject = f"MLflow store {destination.shown}"
    path = destination.sqlite_path
    if path is not None and not path.exists():
        return _check_folder(subject, path)
    silence_mlflow()
    from mlflow import MlflowClient

    try:
        with reaching(destination):
            experiments = MlflowClient(destination.uri).search_experiments(max_results=100)
    except RagMetricsError as error:
        return Check("fault", subject, str(error))
    return Check("ok", subject, f"answers; {len(experiments)} experiments")


def check_pool(destination: Destination) -> Iterator[Check]:
    """Whether ``mlflow.genai.evaluate`` may have more threads than the store has connections: rows get lost then.

    ``ragmetrics evaluate`` itself writes from one thread.
    """
    if not _DATABASE.match(destination.uri):
        return
    pool = sum(_number(name, default) for name, default in _POOL.items())
    name, default = _WORKERS
    workers = _number(name, default)
    finding = f"{pool} connections, mlflow.genai.evaluate may use {workers} threads"
    if workers < pool:
        yield Check("ok", "connection pool", finding)
    else:
        advice = f"before you call it, set {name}={max(1, pool - 5)} or MLFLOW_SQLALCHEMYSTORE_POOL_SIZE=100"
        yield Check("note", "connection pool", f"{finding}; {advice}, else it may lose rows")


def _check_folder(subject: str, path: Path) -> Check:
    """MLflow makes missing folders itself, so the nearest one that exists decides."""
    folder = next(each for each in path.parents if each.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return Check("fault", subject, f"{folder} is no folder that can be written to")
    return Check("ok", subject, "does not exist yet; the first evaluation makes it")


def _number(name: str, default: int) -> int:
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else default
