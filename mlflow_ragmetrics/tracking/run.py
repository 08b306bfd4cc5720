"""The run that a report goes into: the one named, else the active one, else a new one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.tracking.plain import plain_text

__all__ = ["STATUS_TAG", "TRACES_TAG", "TraceTarget", "target_run"]

STATUS_TAG = "ragmetrics.status"
TRACES_TAG = "ragmetrics.run"
_LONGEST_TAG = 5000


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
    of one sentence (an interruption as it is).
    """
    import mlflow

    active = mlflow.active_run()
    if run_id is not None or active is not None:
        target = run_id if run_id is not None else str(active.info.run_id)  # type: ignore[union-attr]
        with _explained(target):
            yield target
        return
    with mlflow.start_run(run_name=run_name) as run, _explained(run.info.run_id):
        yield run.info.run_id


@contextmanager
def _explained(run_id: str) -> Iterator[None]:
    finished = False
    try:
        yield
        finished = True
    except RagMetricsError as error:
        _note(run_id, str(error))
        finished = True
        raise
    except _write_errors() as error:
        reason = redact(plain_text(" ".join(str(error).split()) or type(error).__name__))
        _note(run_id, reason)
        finished = True
        raise RagMetricsError(f"the report could not be written into run {run_id}: {reason}") from error
    finally:
        if not finished:
            _note(run_id, "interrupted")


def _write_errors() -> tuple[type[Exception], ...]:
    from mlflow.exceptions import MlflowException

    return (MlflowException, OSError, ValueError, TypeError, RuntimeError)


def _note(run_id: str, reason: str) -> None:
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    with suppress(MlflowException, OSError):  # the error itself is on its way already
        MlflowClient().set_tag(run_id, STATUS_TAG, f"failed: {reason}"[:_LONGEST_TAG])
