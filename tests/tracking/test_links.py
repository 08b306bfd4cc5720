"""The address where MLflow shows a run."""

from __future__ import annotations

import mlflow
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.tracking.run import run_link


def test_a_run_on_a_server_has_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment_id = mlflow.set_experiment("bot").experiment_id
    run_id = rm.Suite(["rouge"]).evaluate([{"id": "a", "answer": "b", "reference": "b"}]).log(traces=False)
    monkeypatch.setattr(mlflow, "get_tracking_uri", lambda: "https://me:secret@example.org/ml/?a=b#c")
    page = f"https://example.org/ml/#/experiments/{experiment_id}/runs/{run_id}"
    info = mlflow.MlflowClient().get_run(run_id).info
    assert run_link(info) == {"name": info.run_name, "id": run_id, "url": page}
