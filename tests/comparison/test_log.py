from __future__ import annotations

import json

import mlflow

import mlflow_ragmetrics as rm

from .reports import noisy, report_of


def artifacts(run_id: str) -> set[str]:
    return {each.path for each in mlflow.MlflowClient().list_artifacts(run_id)}


def test_it_is_an_artifact_of_its_own_run() -> None:
    a = report_of(noisy(30)).log(run_name="baseline one")
    b = report_of(noisy(30, shift=0.2, seed=1)).log(run_name="candidate")
    before = [(artifacts(each), mlflow.get_run(each).data.metrics) for each in (a, b)]
    found = rm.compare(a, b)
    run = mlflow.get_run(found.log())
    assert run.info.run_name == "compare candidate vs baseline one"
    assert artifacts(run.info.run_id) == {f"compare_baseline_one.{name}" for name in ("html", "json")}
    assert run.data.metrics == {}
    assert run.data.params == {"a": a, "b": b}
    tables = json.loads(run.data.tags["mlflow.loggedArtifacts"])
    assert tables == [{"path": "compare_baseline_one.json", "type": "table"}]
    assert [(artifacts(each), mlflow.get_run(each).data.metrics) for each in (a, b)] == before


def test_logging_twice_into_a_run_replaces() -> None:
    a, b = report_of(noisy(30)).log(run_name="a"), report_of(noisy(30, shift=0.2, seed=1)).log(run_name="b")
    own = rm.compare(a, b).log()
    assert rm.compare(a, b).log(own) == own
    tables = json.loads(mlflow.get_run(own).data.tags["mlflow.loggedArtifacts"])
    assert len(tables) == len({table["path"] for table in tables})
