from __future__ import annotations

import json

import mlflow

import mlflow_ragmetrics as rm

from .reports import noisy, report_of


def artifacts(run_id: str) -> set[str]:
    return {each.path for each in mlflow.MlflowClient().list_artifacts(run_id)}


def test_it_goes_into_the_run_of_b() -> None:
    a = report_of(noisy(30)).log(run_name="baseline one")
    b = report_of(noisy(30, shift=0.2, seed=1)).log(run_name="candidate")
    found = rm.compare(a, b)
    assert found.log() == b
    assert {"compare_baseline_one.html", "compare_baseline_one.json", "compare_baseline_one.png"} <= artifacts(b)
    run = mlflow.get_run(b)
    logged = run.data.metrics["vs_baseline_one/faithfulness/difference"]
    assert logged == found["faithfulness"].difference
    assert run.data.params["compared_with_baseline_one"] == a
    tables = json.loads(run.data.tags["mlflow.loggedArtifacts"])
    assert {"path": "compare_baseline_one.json", "type": "table"} in tables
    assert not any(name.startswith("compare") for name in artifacts(a))


def test_logging_twice_replaces() -> None:
    a, b = report_of(noisy(30)).log(run_name="a"), report_of(noisy(30, shift=0.2, seed=1)).log(run_name="b")
    rm.compare(a, b).log()
    rm.compare(a, b).log()
    tables = json.loads(mlflow.get_run(b).data.tags["mlflow.loggedArtifacts"])
    assert len(tables) == len({table["path"] for table in tables})


def test_reports_that_are_no_runs_go_into_the_active_run_or_a_new_one() -> None:
    found = rm.compare(report_of(noisy(30)), report_of(noisy(30, shift=0.2, seed=1)))
    with mlflow.start_run() as run:
        assert found.log() == run.info.run_id
    own = found.log(run_name="mine")
    assert own != run.info.run_id
    assert mlflow.get_run(own).info.run_name == "mine"
