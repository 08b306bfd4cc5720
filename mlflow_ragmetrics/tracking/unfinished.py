"""Runs that a process left half written, because it was killed: found, told from those being written, and marked."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlflow_ragmetrics.tracking.run import WRITING
from mlflow_ragmetrics.tracking.traces import remove_traces
from mlflow_ragmetrics.tracking.writer import STATUS_TAG, WRITER_TAG, explained, few_attempts, this_process

if TYPE_CHECKING:
    from mlflow.entities import Run

__all__ = ["abandoned_runs", "mark_abandoned"]

_DAY = 24 * 3600
_REASON = "failed: the process that wrote it was ended; its figures and tables may not be complete"


def abandoned_runs(experiments: Sequence[str], *, live: bool = False) -> list[Run]:
    """The runs of ``experiments`` whose writing began and is not being done; with ``live`` also a live handler's.

    A run that a process of this machine writes is abandoned when that process is not there any more; of another
    machine's, when it was begun more than a day ago.
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
        if not _is_being_written(run)
    }
    return list(found.values())


def mark_abandoned(experiment_id: str) -> Iterator[Run]:
    """Mark each abandoned run of an experiment as failed, remove the traces written for it, and yield it."""
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


def _is_being_written(run: Run) -> bool:
    writer = run.data.tags.get(WRITER_TAG, "")
    machine, _, process = writer.partition(" ")
    if machine == platform.node() and os.name == "posix":
        return _is_alive(process)
    return time.time() - (run.info.start_time or 0) / 1000 < _DAY


def _is_alive(process: str) -> bool:
    number, _, began = process.partition(" ")
    try:
        os.kill(int(number), 0)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    # a number is given to another process after a while
    return not Path("/proc/self/stat").exists() or this_process(int(number)).partition(" ")[2] == f"{number} {began}"
