"""The addresses where MLflow shows a run, and compares the rows of two runs."""

from __future__ import annotations

import mlflow
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.tracking.run import rows_link, run_link


def logged(*, traces: bool = True) -> str:
    return rm.Suite(["rouge"]).evaluate([{"id": "a", "answer": "b", "reference": "b"}]).log(traces=traces)


def test_runs_on_a_server_have_an_address_at_which_their_rows_stand_side_by_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiment_id = mlflow.set_experiment("bot").experiment_id
    older, newer, bare = logged(), logged(), logged(traces=False)
    assert mlflow.set_experiment("another").experiment_id != experiment_id
    other = logged()
    assert rows_link(older, newer) is None
    monkeypatch.setattr(mlflow, "get_tracking_uri", lambda: "https://me:secret@example.org/ml/?a=b#c")
    page = f"https://example.org/ml/#/experiments/{experiment_id}/runs/{newer}"
    info = mlflow.MlflowClient().get_run(newer).info
    assert run_link(info) == {"name": info.run_name, "id": newer, "url": page}
    assert rows_link(older, newer) == f"{page}/evaluations?compareToRunUuid={older}"
    assert [rows_link(each, newer) for each in (None, bare, other)] == [None, None, None]
