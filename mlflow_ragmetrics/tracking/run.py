"""The run that a report goes into, and what to say of a store that does not take something."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from mlflow_ragmetrics.core.json_text import plain_text
from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.errors import RagMetricsError

__all__ = [
    "reason_of",
    "write_errors",
    "COMPLETE",
    "STATUS_TAG",
    "TRACES_TAG",
    "TraceTarget",
    "few_attempts",
    "note_failure",
    "target_run",
]

_LONGEST = 500
_STATEMENT = re.compile(r"(?<!\s)\s*(?:\[SQL:|\(Background on this error).*", re.DOTALL)
_UNREACHED = re.compile(
    r"API request to (?P<server>\w+://[^/\s]+)\S* failed with.*?"
    r"(?P<why>\[Errno \d+\] [\w ]+|Read timed out|Connection aborted)",
    re.DOTALL,
)


def write_errors() -> tuple[type[Exception], ...]:
    """The kinds of exception with which a store says no."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return (MlflowException, SQLAlchemyError, OSError, ValueError, TypeError, RuntimeError)


def reason_of(error: BaseException) -> str:
    """Why, on one line without secrets; of a failed SQL statement not the statement, of an address not the path."""
    text = _STATEMENT.sub("", str(error)).strip()
    unreached = _UNREACHED.search(text)
    if unreached is not None:
        text = f"the MLflow server {unreached['server']} does not answer ({unreached['why']})"
    return redact(plain_text(" ".join(text.split()) or type(error).__name__))[:_LONGEST]


STATUS_TAG = "ragmetrics.status"
TRACES_TAG = "ragmetrics.run"
COMPLETE = "complete"
_LONGEST_TAG = 5000
_FEW_ATTEMPTS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}


@dataclass(frozen=True)
class TraceTarget:
    """Where traces go: experiment, run and model, and the time from which they are dated back, row by row.

    MLflow lists the newest traces first, so the first row has to be the newest.
    """

    experiment_id: str
    run_id: str
    model_id: str | None = None
    began_ns: int = field(default_factory=time.time_ns)


@contextmanager
def target_run(run_id: str | None, run_name: str | None) -> Iterator[str]:
    """Yield the id of the run to write into.

    A run made here ends with the block: FINISHED, or FAILED when the block raises. In either kind of run the tag
    ``ragmetrics.status`` then says what went wrong, without secrets, and the error goes on as a ``RagMetricsError``
    of one sentence (an interruption as it is). A named run that an earlier attempt left unfinished is finished.
    """
    import mlflow

    active = mlflow.active_run()
    if active is not None and run_id in (None, active.info.run_id):
        with _explained(str(active.info.run_id)):
            yield str(active.info.run_id)
    elif run_id is not None:
        with _explained(run_id):
            begun = mlflow.get_run(run_id).data.tags.get(STATUS_TAG, COMPLETE) != COMPLETE
            yield run_id
            if begun:
                mlflow.MlflowClient().set_terminated(run_id)
    else:
        with _run_made_here(run_name) as made:
            yield made


@contextmanager
def _run_made_here(run_name: str | None) -> Iterator[str]:
    import mlflow

    try:
        run_id = str(mlflow.start_run(run_name=run_name).info.run_id)
    except write_errors() as error:
        raise RagMetricsError(f"no run could be begun in MLflow: {reason_of(error)}") from error
    try:
        with _explained(run_id):
            yield run_id
    except BaseException:
        with suppress(*write_errors()), few_attempts():  # the error itself is on its way already
            mlflow.end_run("FAILED")
        raise
    with _explained(run_id):
        mlflow.end_run()


@contextmanager
def _explained(run_id: str) -> Iterator[None]:
    finished = False
    try:
        yield
        finished = True
    except RagMetricsError as error:
        note_failure(run_id, str(error))
        finished = True
        raise
    except write_errors() as error:
        note_failure(run_id, reason_of(error))
        finished = True
        raise RagMetricsError(f"the report could not be written into run {run_id}: {reason_of(error)}") from error
    finally:
        if not finished:
            note_failure(run_id, "interrupted")


def note_failure(run_id: str, reason: str) -> None:
    """Tag the run with what went wrong, where the store still takes that."""
    from mlflow import MlflowClient

    with suppress(*write_errors()), few_attempts():
        MlflowClient().set_tag(run_id, STATUS_TAG, f"failed: {reason}"[:_LONGEST_TAG])


@contextmanager
def few_attempts() -> Iterator[None]:
    """MLflow tries for minutes to reach a server; what has failed already is not worth that again."""
    added = {name: value for name, value in _FEW_ATTEMPTS.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
