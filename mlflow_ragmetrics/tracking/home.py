"""Where a live service makes its run, and the making of it."""

from __future__ import annotations

import hashlib
import os
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
_EXPERIMENTS = {"id": "MLFLOW_EXPERIMENT_ID", "name": "MLFLOW_EXPERIMENT_NAME"}


@dataclass(frozen=True)
class Home:
    """Where a service makes its run: the tracking URI, the store with its path resolved, the experiment, the suite."""

    uri: str
    store: str
    experiment: str
    suite: str


def home_of(suite: Mapping[str, Any]) -> Home:
    """Where a service with a suite of that description makes its run, as MLflow is set up now."""
    import mlflow

    uri = mlflow.get_tracking_uri()
    names = (f"{kind} {os.environ[name]}" for kind, name in _EXPERIMENTS.items() if os.environ.get(name))
    return Home(uri, resolved_store(uri), next(names, ""), hashlib.sha256(as_json(suite).encode()).hexdigest())


def resolved_store(uri: str) -> str:
    """The tracking URI with its path, if it has one, made absolute."""
    scheme, _, path = uri.partition("///")
    if scheme.startswith("sqlite"):
        return f"{scheme}///{Path(path).absolute()}"
    return uri if "://" in uri else str(Path(uri.removeprefix("file:")).absolute())


def unused_name(client: MlflowClient, experiment_id: str, name: str) -> str:
    """``name``, with a number if a run of the experiment has it already."""
    quoted = name.replace("'", "''")
    alike = client.search_runs([experiment_id], f"attributes.run_name LIKE '{quoted}%'", max_results=1000)
    taken = {run.info.run_name for run in alike}
    return next(each for each in chain([name], (f"{name} ({number})" for number in count(2))) if each not in taken)


def new_run(name: str, creation_id: str, *, home: Home | None = None) -> str:
    """The id of a new run in the active experiment. It stays open until it is ended, and is active in no thread.

    Called again with the same ``creation_id`` after a failure, or by another process, it finds the run that is there.
    Of several that were made at the same time, one that is being written stays. With ``home``, the run is made there,
    whatever store and experiment are active now.
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
