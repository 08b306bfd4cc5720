"""Selects or creates the run for a report, ends it, and finds the runs of killed processes to mark them as failed."""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import platform
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from traceback import clear_frames
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from mlflow_ragmetrics.core.safe_text import as_json, plain_text, redact
from mlflow_ragmetrics.engine.memory import reserved_memory
from mlflow_ragmetrics.engine.threads import after_fork, check_awaited
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.tracking.traces import remove_traces
from mlflow_ragmetrics.tracking.writer import (
    LONGEST_TAG,
    STATUS_TAG,
    WRITER_TAG,
    RunWriter,
    explained,
    few_attempts,
    is_alive,
    named_failure,
    reason_of,
    this_process,
    write_errors,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run, RunInfo


_logger = logging.getLogger(__name__)

COMPLETE = "complete"
PARTIAL = "partial"
WRITING = "writing"
_CREATION_TAG = "ragmetrics.live"
_DATABASE = re.compile(r"(?:sqlite|postgresql|mysql|mssql)(?:\+\w+)?://")
_EXPERIMENTS = {"id": "MLFLOW_EXPERIMENT_ID", "name": "MLFLOW_EXPERIMENT_NAME"}


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

    link = {"name": redact(info.run_name or ""), "id": str(info.run_id)}
    server = urlsplit(mlflow.get_tracking_uri())
    if server.scheme in ("http", "https") and server.hostname:
        address = server._replace(netloc=server.netloc.rpartition("@")[2], query="", fragment="")
        base = urlunsplit(address).rstrip("/")
        link["url"] = f"{base}/#/experiments/{info.experiment_id}/runs/{info.run_id}"
    return link


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

    tags, active = {STATUS_TAG: WRITING, WRITER_TAG: this_process()}, mlflow.active_run()
    run_id = None
    try:
        with named_failure("no run could be started in MLflow"):
            run_id = str(mlflow.start_run(run_name=run_name, nested=True, tags=tags).info.run_id)
        with _failure_noted(run_id):
            yield run_id
            mlflow.end_run(_ending(run_id))
    except Exception:
        with suppress(*write_errors()), few_attempts():  # the original error is raised
            if mlflow.active_run() is not active:
                mlflow.end_run("FAILED")
        raise
    except BaseException as interruption:  # at any time, also before the run's id is known or while it ends
        _let_go(interruption)
        begun = f"tags.`{WRITER_TAG}` = '{tags[WRITER_TAG]}' and tags.`{STATUS_TAG}` = '{WRITING}'"
        try:
            with few_attempts():
                runs = [] if run_id else mlflow.search_runs(filter_string=begun, output_format="list")
                for begun_id in [run_id] if run_id else [str(run.info.run_id) for run in runs]:
                    RunWriter(begun_id).end("interrupted")
                if mlflow.active_run() is not active:
                    mlflow.end_run("FAILED")
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
        with reserved_memory():
            yield
    except BaseException as error:
        _let_go(error)
        RunWriter(run_id).note_failure(reason_of(error) if isinstance(error, Exception) else "interrupted")
        if isinstance(error, write_errors()) and not isinstance(error, RagMetricsError):
            raise RagMetricsError(f"the report could not be written to run {run_id}: {reason_of(error)}") from error
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
    import mlflow

    me, began = this_process(), time.monotonic()
    with _LOCKS[run_id]:
        while True:
            run = mlflow.get_run(run_id)
            writer, is_writing = run.data.tags.get(WRITER_TAG, ""), run.data.tags.get(STATUS_TAG) == WRITING
            if writer == me and is_writing:
                break
            check_awaited()
            waited = time.monotonic() - began
            is_here = writer.partition(" ")[0] == platform.node()
            is_other = is_writing and is_being_written(run)
            if not is_other or (not is_here and waited > _WAIT_FOR_ELSEWHERE):
                RunWriter(run_id).tags({STATUS_TAG: WRITING, WRITER_TAG: me})
            elif waited > _LONGEST_WAIT:
                message = f"another process ({writer}) is writing to run {run_id}; log again when it is done"
                raise RagMetricsError(message)
            time.sleep(_SETTLING)  # if two start at once, the last one continues
        yield run.info


_DAY = 24 * 3600
_ABANDONED = "failed: the process that wrote it ended; figures and tables may be incomplete"


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
    runs = [run for each in filters for run in client.search_runs(list(experiments), each, max_results=1000)]
    return list({run.info.run_id: run for run in runs if not is_being_written(run)}.values())


def mark_abandoned(experiment_id: str) -> Iterator[Run]:
    """Mark each abandoned run of an experiment as failed, remove its traces, and yield it."""
    from mlflow import MlflowClient

    client = MlflowClient()
    for run in abandoned_runs([experiment_id]):
        run_id = str(run.info.run_id)
        with explained(run_id), few_attempts():
            remove_traces(client, experiment_id, run_id)
            client.set_tag(run_id, STATUS_TAG, _ABANDONED)
            if run.info.status != "FAILED":  # MLflow ends an active run as FINISHED when its process ends
                client.set_terminated(run_id, "FAILED")
        yield run


def is_being_written(run: Run) -> bool:
    """Whether the run's process is alive; on another machine, whether the run is less than a day old."""
    return is_alive(run.data.tags.get(WRITER_TAG, ""), (run.info.start_time or 0) / 1000, _DAY)


@dataclass(frozen=True)
class Home:
    """A service's tracking URI, store (with its path resolved), experiment and suite digest."""

    uri: str
    store: str
    experiment: str
    suite: str


def home_of(suite: Mapping[str, Any]) -> Home:
    """The ``Home`` of a service with this suite description, from MLflow's current settings."""
    import mlflow

    uri = mlflow.get_tracking_uri()
    names = (f"{kind} {os.environ[name]}" for kind, name in _EXPERIMENTS.items() if os.environ.get(name))
    return Home(uri, resolved_store(uri), next(names, ""), hashlib.sha256(as_json(suite).encode()).hexdigest())


def resolved_store(uri: str) -> str:
    """The tracking URI, with an absolute path if it has a path."""
    scheme, _, path = uri.partition("///")
    if scheme.startswith("sqlite"):
        return f"{scheme}///{Path(path).absolute()}"
    return uri if "://" in uri else str(Path(uri.removeprefix("file:")).absolute())


def pool_shortage(uri: str) -> str | None:
    """Why ``mlflow.genai.evaluate`` may lose rows in the store at ``uri``, with two remedies; ``None`` if it cannot.

    Each worker that starts a trace holds one connection and waits for a second. With as many workers as connections,
    they can deadlock until they time out.
    """

    def number(name: str, default: int) -> int:
        text = os.environ.get(name, "")
        return int(text) if text.isdecimal() else default

    pool = number("MLFLOW_SQLALCHEMYSTORE_POOL_SIZE", 5) + number("MLFLOW_SQLALCHEMYSTORE_MAX_OVERFLOW", 10)
    workers = number("MLFLOW_GENAI_EVAL_MAX_WORKERS", 40)
    if workers < pool or not _DATABASE.match(uri):
        return None
    return (
        f"mlflow.genai.evaluate may use {workers} threads, but the store has {pool} connections: it may lose rows; set "
        f"MLFLOW_GENAI_EVAL_MAX_WORKERS={max(1, pool - 5)} or MLFLOW_SQLALCHEMYSTORE_POOL_SIZE=100 before its first use"
    )


def unused_name(client: MlflowClient, experiment_id: str, name: str) -> str:
    """``name``, with a number if another run of the experiment has this name."""
    quoted = name.replace("'", "''")
    runs = client.search_runs([experiment_id], f"attributes.run_name LIKE '{quoted}%'", max_results=1000)
    taken = {run.info.run_name for run in runs}
    return next(free for free in _numbered(name) if free not in taken)


def _numbered(name: str) -> Iterator[str]:
    return chain([name], (f"{name} ({number})" for number in count(2)))


def new_run(name: str, creation_id: str, *, home: Home | None = None) -> str:
    """Create a run and return its id. The run stays open until it is ended, and is active in no thread.

    A second call with the same ``creation_id``, after a failure or from another process, returns the existing run. If
    several were created at the same time, only one is kept, preferably one that is being written. The run is created in
    ``home``, by default in the active store and experiment.
    """
    import mlflow
    from mlflow.tracking.context.registry import resolve_tags

    client = mlflow.MlflowClient(home.uri if home is not None else None)
    created = f"tags.`{_CREATION_TAG}` = '{creation_id}'"
    with explained("(new)"):
        experiment = _experiment(client, home)
        run_id = None
        while run_id is None:
            if runs := client.search_runs([experiment], created):
                run_id = _opened(client, runs)
            else:
                tags = resolve_tags({_CREATION_TAG: creation_id, WRITER_TAG: this_process()})
                client.create_run(experiment, run_name=unused_name(client, experiment, name), tags=tags)
    return run_id


def _opened(client: MlflowClient, runs: Sequence[Run]) -> str | None:
    """The id of the run that is kept; ``None`` if another process deletes it now."""
    from mlflow.exceptions import MlflowException

    kept, *surplus = sorted(
        runs, key=lambda run: (STATUS_TAG not in run.data.tags, run.info.start_time, run.info.run_id)
    )
    for run in surplus:
        client.delete_run(run.info.run_id)
    run_id = str(kept.info.run_id)
    try:
        client.update_run(run_id, status="RUNNING")
    except MlflowException:
        if client.get_run(run_id).info.lifecycle_stage == "active":
            raise
        return None
    return run_id


def _experiment(client: MlflowClient, home: Home | None) -> str:
    """The id of the experiment of ``home``; if that was deleted, of one with its name and a number."""
    from mlflow.tracking.fluent import _get_experiment_id

    kind, _, name = home.experiment.partition(" ") if home is not None else ("", "", "")
    if kind != "name":
        experiment_id = name or str(_get_experiment_id())
        experiment = client.get_experiment(experiment_id)
        if experiment.lifecycle_stage == "active":
            return experiment_id
        name = experiment.name
    named = ((free, client.get_experiment_by_name(free)) for free in _numbered(name))
    free, usable = next(found for found in named if found[1] is None or found[1].lifecycle_stage == "active")
    return str(client.create_experiment(free) if usable is None else usable.experiment_id)
