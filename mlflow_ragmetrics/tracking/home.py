"""Creates the run of a live service."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.core.safe_text import as_json
from mlflow_ragmetrics.tracking.writer import STATUS_TAG, WRITER_TAG, explained, this_process

if TYPE_CHECKING:
    from mlflow import MlflowClient

_CREATION_TAG = "ragmetrics.live"
_DATABASE = re.compile(r"(?:sqlite|postgresql|mysql|mssql)(?:\+\w+)?://")
_EXPERIMENTS = {"id": "MLFLOW_EXPERIMENT_ID", "name": "MLFLOW_EXPERIMENT_NAME"}


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
        given = os.environ.get(name, "")
        return int(given) if given.isdecimal() else default

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
    alike = client.search_runs([experiment_id], f"attributes.run_name LIKE '{quoted}%'", max_results=1000)
    taken = {run.info.run_name for run in alike}
    return next(each for each in chain([name], (f"{name} ({number})" for number in count(2))) if each not in taken)


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
        if not client.search_runs([experiment], created):
            tags = resolve_tags({_CREATION_TAG: creation_id, WRITER_TAG: this_process()})
            client.create_run(experiment, run_name=unused_name(client, experiment, name), tags=tags)
        found = [
            (STATUS_TAG not in run.data.tags, run.info.start_time, run.info.run_id)
            for run in client.search_runs([experiment], created)
        ]
        *_, run_id = min(found)
        for *_, surplus in found:
            if surplus != run_id:
                client.delete_run(surplus)
        client.update_run(run_id, status="RUNNING")
    return str(run_id)


def _experiment(client: MlflowClient, home: Home | None) -> str:
    from mlflow.tracking.fluent import _get_experiment_id

    kind, _, name = home.experiment.partition(" ") if home is not None else ("", "", "")
    if kind == "name":
        found = client.get_experiment_by_name(name)
        return str(found.experiment_id) if found is not None else client.create_experiment(name)
    return name if kind == "id" else str(_get_experiment_id())
