"""The MLflow store whose runs a command reads."""

from __future__ import annotations

import os

__all__ = ["open_store"]


def open_store(tracking_uri: str | None) -> None:
    """Make ``tracking_uri`` (else the environment's, else a SQLite file here) MLflow's own, and see that it answers.

    ``InvalidOptionError`` where it does not.
    """
    from mlflow_ragmetrics.cli.destination import destination_of, reaching, silence_mlflow

    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    silence_mlflow()
    import mlflow

    destination = destination_of(tracking_uri, None)
    with reaching(destination):
        mlflow.set_tracking_uri(destination.uri)
        mlflow.MlflowClient().search_experiments(max_results=1)
