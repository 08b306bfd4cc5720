"""Later findings are written to the run that they are about, or to a new one."""

from __future__ import annotations

import mlflow
import pandas as pd

from mlflow_ragmetrics.tracking.log import log_findings, safe_name


def test_findings_make_a_run_or_go_into_one() -> None:
    table = pd.DataFrame({"a": [1, None]})
    run_id = log_findings(
        None,
        "found",
        texts={"said.txt": "so"},
        tables={"t.json": table},
        metrics={"m": 0.5},
        params={"n": 3},
    )
    run = mlflow.get_run(run_id)
    assert (run.info.status, run.data.tags["ragmetrics.status"]) == ("FINISHED", "complete")
    assert (run.data.metrics, run.data.params) == ({"m": 0.5}, {"n": "3"})
    names = {each.path for each in mlflow.MlflowClient().list_artifacts(run_id)}
    assert names == {"said.txt", "t.json"}
    assert log_findings(run_id, None, metrics={"m": 0.7}) == run_id
    assert mlflow.get_run(run_id).data.metrics == {"m": 0.7}
    log_findings(run_id, None, status="incomplete: why")
    assert mlflow.get_run(run_id).data.tags["ragmetrics.status"] == "incomplete: why"


def test_names_of_files_are_safe() -> None:
    assert (safe_name("a/b: c"), safe_name("…"), safe_name("x" * 99)) == ("a_b_c", "run", "x" * 60)
