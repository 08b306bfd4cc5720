from __future__ import annotations

import mlflow

import mlflow_ragmetrics as rm

from .reports import labelled_report


def test_figures_table_go_into_the_run() -> None:
    report, good = labelled_report()
    found = rm.calibrate(report, good)
    run_id = found.log()
    run = mlflow.get_run(run_id)
    names = {each.path for each in mlflow.MlflowClient().list_artifacts(run_id)}
    assert names == {"calibration_faithfulness.json", "calibration_faithfulness.txt"}
    assert run.info.run_name == "calibrate faithfulness"
    assert run.data.metrics == found.metrics
    assert "beats 0.5" in run.data.params["calibration_faithfulness"]


def test_a_run_of_mlflow_can_be_calibrated_and_takes_the_figures() -> None:
    report, _ = labelled_report(threshold=0.4)
    run_id = report.log()
    found = rm.calibrate(run_id, "human", key="faithfulness")
    assert found.default == 0.4
    assert found.log(run_id) == run_id
    assert mlflow.get_run(run_id).data.metrics["calibration/faithfulness/threshold"] == found.threshold
