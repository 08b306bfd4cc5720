"""Selects or creates the run for a report, ends it, and finds runs that were never ended.

A run whose process was killed stays incomplete. It is found and marked as failed.
"""

from __future__ import annotations

import gc
import logging
import os
import platform
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from traceback import clear_frames
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from mlflow_ragmetrics.core.safe_text import plain_text, redact
from mlflow_ragmetrics.engine.threads import after_fork
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.tracking.traces import RUN_TYPE, remove_traces
from mlflow_ragmetrics.tracking.writer import (
    LONGEST_TAG,
    STATUS_TAG,
    WRITER_TAG,
    RunWriter,
    explained,
    few_attempts,
    is_alive,
    reason_of,
    this_process,
    write_errors,
)

if TYPE_CHECKING:
    from mlflow.entities import Run, RunInfo


_logger = logging.getLogger(__name__)

COMPLETE = "complete"
PARTIAL = "partial"
WRITING = "writing"


def status_of(incomplete: str | None, partial: str | None = None) -> str:
    """The tag ``ragmetrics.status`` after a report was written: ``complete``, ``partial: …`` or ``incomplete: …``.

    ``incomplete`` and ``partial`` are attributes of the report.
    """
    if incomplete is not None:
        return redact(plain_text(f"incomplete: {incomplete}"))[:LONGEST_TAG]
    return COMPLETE if partial is None else f"{PARTIAL}: {partial}"


def run_link(info: RunInfo) -> dict[str, str]:
    """The ``name`` and ``id`` of a run and, if the store is a server, the ``url`` of its page in MLflow."""
    import mlflow

    found = {"name": redact(info.run_name or ""), "id": str(info.run_id)}
    server = urlsplit(mlflow.get_tracking_uri())
    if server.scheme in ("http", "https") and server.hostname:
        address = server._replace(netloc=server.netloc.rpartition("@")[2], query="", fragment="")
        base = urlunsplit(address).rstrip("/")
        found["url"] = f"{base}/#/experiments/{info.experiment_id}/runs/{info.run_id}"
    return found


def rows_link(run_a: str | None, run_b: str | None) -> str | None:
    """The MLflow page that compares the rows of A and B; ``None`` if there is no such page.

    Both runs must have traces and be in one experiment on a server. The link opens a tab of B's page: MLflow's list of
    evaluation runs is too narrow for the scores in a window of 1,400 pixels.
    """
    import mlflow

    if run_a is None or run_b is None:
        return None
    infos = [mlflow.get_run(each) for each in (run_a, run_b)]
    address = run_link(infos[1].info).get("url")
    has_rows = all(each.data.tags.get(RUN_TYPE) == "genai_evaluate" for each in infos)
    if address is None or not has_rows or infos[0].info.experiment_id != infos[1].info.experiment_id:
        return None
    return f"{address}/evaluations?compareToRunUuid={run_a}"


@contextmanager
def target_run(run_id: str | None, run_name: str | None) -> Iterator[str]:
    """Yield the id of the run to write to: ``run_id``, else the active run, else a new run.

    A run created here is ended after the block: FAILED if the block raises or the tag ``ragmetrics.status`` is not
    ``complete`` or ``partial``, else FINISHED. Your own active run is not ended. A run given by id that an earlier
    attempt left unfinished is ended. On an error, the tag gets the reason without secrets, and a ``RagMetricsError`` is
    raised; interruptions are raised unchanged.
    """
    import mlflow

    active = mlflow.active_run()
    if active is not None and run_id in (None, active.info.run_id):
        with _failure_noted(str(active.info.run_id)):
            yield str(active.info.run_id)
    elif run_id is not None:
        with _failure_noted(run_id):
            is_unfinished = not _is_finished(run_id)
            yield run_id
            if is_unfinished:
                mlflow.MlflowClient().set_terminated(run_id, _ending(run_id))
    else:
        with new_target(run_name) as new:
            yield new


@contextmanager
def new_target(run_name: str | None) -> Iterator[str]:
    """Yield the id of a new run, nested in the active one and ended as in ``target_run``."""
    import mlflow

    tags = {STATUS_TAG: WRITING, WRITER_TAG: this_process()}
    run_id = None
    try:
        try:
            run_id = str(mlflow.start_run(run_name=run_name, nested=True, tags=tags).info.run_id)
        except write_errors() as error:
            raise RagMetricsError(f"no run could be started in MLflow: {reason_of(error)}") from error
        with _failure_noted(run_id):
            yield run_id
            mlflow.end_run(_ending(run_id))
    except Exception:
        with suppress(*write_errors()), few_attempts():  # the original error is raised
            mlflow.end_run("FAILED")
        raise
    except BaseException as interruption:  # at any time, also before the run's id is known or while it ends
        _let_go(interruption)
        begun = f"tags.`{WRITER_TAG}` = '{tags[WRITER_TAG]}' and tags.`{STATUS_TAG}` = '{WRITING}'"
        try:
            with few_attempts():
                found = [] if run_id else mlflow.search_runs(filter_string=begun, output_format="list")
                for each in [run_id] if run_id else [str(run.info.run_id) for run in found]:
                    RunWriter(each).end("interrupted")
                mlflow.end_run("FAILED")  # no longer active
        except write_errors() as error:
            _logger.warning("a new run may keep the status %r: %s", WRITING, reason_of(error))
        raise


def _let_go(interruption: BaseException) -> None:
    """Release resources held by an interrupted statement, such as SQLite's lock, so that the store can be written."""
    error: BaseException | None = interruption
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__context__
    gc.collect()


def _ending(run_id: str) -> str:
    return "FINISHED" if _is_finished(run_id) else "FAILED"


def _is_finished(run_id: str) -> bool:
    import mlflow

    return str(mlflow.get_run(run_id).data.tags.get(STATUS_TAG, COMPLETE)).startswith((COMPLETE, PARTIAL))


@contextmanager
def _failure_noted(run_id: str) -> Iterator[None]:
    """Record an error of the block in the run; raise an error of the store as ``RagMetricsError``."""
    try:
        yield
    except RagMetricsError as error:
        RunWriter(run_id).note_failure(str(error))
        raise
    except write_errors() as error:
        RunWriter(run_id).note_failure(reason_of(error))
        raise RagMetricsError(f"the report could not be written to run {run_id}: {reason_of(error)}") from error
    except BaseException as interruption:
        _let_go(interruption)
        RunWriter(run_id).note_failure("interrupted")
        raise


_LOCKS: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
after_fork(_LOCKS.clear)  # nothing holds them in a fork
_SETTLING = 0.3
_LONGEST_WAIT, _WAIT_FOR_ELSEWHERE = 600, 60


@contextmanager
def alone_in(run_id: str) -> Iterator[RunInfo]:
    """Prevent other processes and threads from writing a report to the run; waits for those that are writing.

    A process that has ended is ignored. A process on another machine is given one minute. Raises ``RagMetricsError`` if
    a process on this machine writes for more than ten minutes.
    """
    with _LOCKS[run_id]:
        yield _take(run_id)


def _take(run_id: str) -> RunInfo:
    from mlflow import MlflowClient

    client, me, began = MlflowClient(), this_process(), time.monotonic()
    while True:
        run = client.get_run(run_id)
        writer, status = run.data.tags.get(WRITER_TAG, ""), run.data.tags.get(STATUS_TAG)
        if writer == me and status == WRITING:
            return run.info
        waited = time.monotonic() - began
        is_here = writer.partition(" ")[0] == platform.node()
        is_other = status == WRITING and writer != me and is_being_written(run)
        if not is_other or (not is_here and waited > _WAIT_FOR_ELSEWHERE):
            RunWriter(run_id).tags({STATUS_TAG: WRITING, WRITER_TAG: me})
            time.sleep(_SETTLING)  # if two start at once, the last one continues
        elif waited > _LONGEST_WAIT:
            raise RagMetricsError(f"another process ({writer}) is writing to run {run_id}; log again when it is done")
        else:
            time.sleep(_SETTLING)


_DAY = 24 * 3600
_REASON = "failed: the process that wrote it ended; figures and tables may be incomplete"


def abandoned_runs(experiments: Sequence[str], *, live: bool = False) -> list[Run]:
    """The runs of ``experiments`` that were started but are no longer being written; with ``live`` also live runs.

    A run is abandoned if its process on this machine has ended. A run from another machine is abandoned if it was
    started more than a day ago.
    """
    from mlflow import MlflowClient

    client = MlflowClient()
    filters = [f"tags.`{STATUS_TAG}` = '{WRITING}'"]
    if live:
        filters.append("tags.`ragmetrics.live` != '' and attributes.status = 'RUNNING'")
    found = {
        run.info.run_id: run
        for each in filters
        for run in client.search_runs(list(experiments), each, max_results=1000)
        if not is_being_written(run)
    }
    return list(found.values())


def mark_abandoned(experiment_id: str) -> Iterator[Run]:
    """Mark each abandoned run of an experiment as failed, remove its traces, and yield it."""
    from mlflow import MlflowClient

    client = MlflowClient()
    for run in abandoned_runs([experiment_id]):
        run_id = str(run.info.run_id)
        with explained(run_id), few_attempts():
            remove_traces(client, experiment_id, run_id)
            client.set_tag(run_id, STATUS_TAG, _REASON)
            if run.info.status == "RUNNING":
                client.set_terminated(run_id, "FAILED")
        yield run


def is_being_written(run: Run) -> bool:
    """Whether the run's process is alive; on another machine, whether the run is less than a day old."""
    writer = run.data.tags.get(WRITER_TAG, "")
    machine, _, process = writer.partition(" ")
    if machine == platform.node() and os.name == "posix":
        return is_alive(process)
    return time.time() - (run.info.start_time or 0) / 1000 < _DAY
