"""What is found out later goes into the run that it is about, or a new one."""

from __future__ import annotations

import mlflow
import pandas as pd
from matplotlib.figure import Figure

from mlflow_ragmetrics.tracking.log_report import Findings, log_findings, safe_name


def test_findings_make_a_run_or_go_into_one() -> None:
    plot = Figure()
    table = pd.DataFrame({"a": [1, None]})
    found = Findings({"said.txt": "so"}, {"t.json": table}, {"p.png": plot, "none.png": None}, {"m": 0.5}, {"n": 3})
    run_id = log_findings(found, None, "found")
    run = mlflow.get_run(run_id)
    assert (run.info.status, run.data.tags["ragmetrics.status"]) == ("FINISHED", "complete")
    assert (run.data.metrics, run.data.params) == ({"m": 0.5}, {"n": "3"})
    names = {each.path for each in mlflow.MlflowClient().list_artifacts(run_id)}
    assert names == {"said.txt", "t.json", "p.png"}
    assert log_findings(Findings(metrics={"m": 0.7}), run_id, None) == run_id
    assert mlflow.get_run(run_id).data.metrics == {"m": 0.7}
    log_findings(Findings(status="incomplete: why"), run_id, None)
    assert mlflow.get_run(run_id).data.tags["ragmetrics.status"] == "incomplete: why"


def test_names_of_files_are_safe() -> None:
    assert (safe_name("a/b: c"), safe_name("…"), safe_name("x" * 99)) == ("a_b_c", "run", "x" * 60)
