"""The run that a report goes into: a named one, the active one or a new one, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mlflow_ragmetrics.core.json_text import plain_text
from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.tracking.writer import (
    LONGEST_TAG,
    STATUS_TAG,
    WRITER_TAG,
    RunWriter,
    few_attempts,
    reason_of,
    this_process,
    write_errors,
)

__all__ = ["COMPLETE", "WRITING", "status_of", "target_run"]

COMPLETE = "complete"
WRITING = "writing"


def status_of(incomplete: str | None) -> str:
    """The value of the tag ``ragmetrics.status`` for a report that is written whole; ``incomplete`` is the report's."""
    return COMPLETE if incomplete is None else redact(plain_text(f"incomplete: {incomplete}"))[:LONGEST_TAG]


@contextmanager
def target_run(run_id: str | None, run_name: str | None) -> Iterator[str]:
    """Yield the id of the run to write into.

    A run made here ends with the block: FINISHED, or FAILED when the block raises or leaves it with a status other than
    ``complete``; the status of the user's own run is the user's. In either kind of run the tag
    ``ragmetrics.status`` then says what went wrong, without secrets, and the error goes on as a ``RagMetricsError``
    of one sentence (an interruption as it is). A named run that an earlier attempt left unfinished is finished.
    """
    import mlflow

    active = mlflow.active_run()
    if active is not None and run_id in (None, active.info.run_id):
        with _failure_noted(str(active.info.run_id)):
            yield str(active.info.run_id)
    elif run_id is not None:
        with _failure_noted(run_id):
            is_unfinished = mlflow.get_run(run_id).data.tags.get(STATUS_TAG, COMPLETE) != COMPLETE
            yield run_id
            if is_unfinished:
                mlflow.MlflowClient().set_terminated(run_id, _ending(run_id))
    else:
        with _new_run(run_name) as new:
            yield new


@contextmanager
def _new_run(run_name: str | None) -> Iterator[str]:
    import mlflow

    try:
        tags = {STATUS_TAG: WRITING, WRITER_TAG: this_process()}
        run_id = str(mlflow.start_run(run_name=run_name, tags=tags).info.run_id)
    except write_errors() as error:
        raise RagMetricsError(f"no run could be begun in MLflow: {reason_of(error)}") from error
    try:
        with _failure_noted(run_id):
            yield run_id
    except BaseException:
        with suppress(*write_errors()), few_attempts():  # the error itself is on its way already
            mlflow.end_run("FAILED")
        raise
    with _failure_noted(run_id):
        mlflow.end_run(_ending(run_id))


def _ending(run_id: str) -> str:
    import mlflow

    status = mlflow.get_run(run_id).data.tags.get(STATUS_TAG, COMPLETE)
    return "FINISHED" if status == COMPLETE else "FAILED"


@contextmanager
def _failure_noted(run_id: str) -> Iterator[None]:
    """What goes wrong in the block is noted in the run; an error of the store goes on as one sentence."""
    try:
        yield
    except RagMetricsError as error:
        RunWriter(run_id).note_failure(str(error))
        raise
    except write_errors() as error:
        RunWriter(run_id).note_failure(reason_of(error))
        raise RagMetricsError(f"the report could not be written into run {run_id}: {reason_of(error)}") from error
    except BaseException:
        RunWriter(run_id).note_failure("interrupted")
        raise
