"""Processes that work in a folder of their own, what they leave in its MLflow store, and one that locks a file."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlflow
from langchain_core.runnables import RunnableLambda
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main as ragmetrics

STORE = "sqlite:///mlflow.db"
_HOLD = """
import sqlite3, sys, time
held = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
held.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
time.sleep(float(sys.argv[2]))
held.execute("COMMIT")
"""
ECHO: Any = RunnableLambda(lambda question: question)


def command(*words: str) -> int:
    """Runs ``ragmetrics`` as a process of its own would."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Path("begun").touch()
    try:
        ragmetrics(list(words))
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@rm.metric
def own_number(answer: str) -> float:
    """A thousandth of the number in the answer; hangs if the answer asks for it."""
    if "never" in answer:
        time.sleep(600)
    return int(answer.rpartition(" ")[2]) / 1000


def refuse_all() -> None:
    """The store fails in this process from now on."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise MlflowException("no route to the server")

    for name in ("create_run", "log_batch", "_search_runs", "get_experiment_by_name", "get_run"):
        setattr(SqlAlchemyStore, name, refuse)


def forked(work: Callable[[], int], folder: Path) -> int:
    """Forks a process that works in ``folder`` and prints to its file ``said``; returns its number."""
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        os.chdir(folder)
        os.environ.update(RAGMETRICS_OUTBOX=str(folder / "data"), MLFLOW_TRACKING_URI=STORE)
        mlflow.set_tracking_uri(STORE)
        said = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        code = work()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended(process: int, seconds: float = 240.0) -> int:
    """The exit code of a process, or minus the number of the signal that ended it."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        number, status = os.waitpid(process, os.WNOHANG)
        if number:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    raise AssertionError("it did not end")


def wait_for(is_so: Callable[[], bool]) -> None:
    """Waits until a condition is true, for at most a minute."""
    until = time.monotonic() + 60
    while not is_so() and time.monotonic() < until:
        time.sleep(0.01)


def said(folder: Path) -> str:
    """What the processes of a folder printed."""
    return (folder / "said").read_text(encoding="utf-8", errors="replace") if (folder / "said").exists() else ""


def rows(folder: Path, query: str, *values: object) -> list[tuple[Any, ...]]:
    """Rows of the MLflow store of a folder, which must be whole."""
    with contextlib.closing(sqlite3.connect(folder / "mlflow.db")) as store:
        assert store.execute("PRAGMA quick_check").fetchone() == ("ok",)
        return store.execute(query, values).fetchall()


def runs(folder: Path) -> list[tuple[str, str, str]]:
    """The number of each run, its status, and what ``ragmetrics.status`` says."""
    query = "SELECT run_uuid, status, value FROM runs LEFT JOIN tags USING (run_uuid) WHERE key = 'ragmetrics.status'"
    return rows(folder, query)


def listed(folder: Path, run_id: str, preview: str = "response_preview") -> list[str]:
    """The answers (or questions) of the run's traces."""
    query = f"SELECT {preview} FROM trace_info JOIN trace_tags USING (request_id) WHERE value = ?"
    return sorted(text for (text,) in rows(folder, query, run_id))


def lost(folder: Path, run_id: str) -> int:
    """How many answers the run says are lost."""
    query = "SELECT value FROM latest_metrics WHERE key = 'calls/lost' AND run_uuid = ?"
    return int(sum(number for (number,) in rows(folder, query, run_id)))


@contextlib.contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
    """Another process locks the file."""
    command = [sys.executable, "-c", _HOLD, str(path), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        try:
            yield
        finally:
            holder.kill()
