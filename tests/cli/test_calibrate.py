from __future__ import annotations

from pathlib import Path

import mlflow
import pandas as pd
import pytest

from ..calibration.reports import labelled_report
from .conftest import Run


@pytest.fixture
def rows(tmp_path: Path) -> str:
    report, good = labelled_report()
    report.table.to_parquet(tmp_path / "rows.parquet")
    pd.DataFrame({"id": report.table["id"], "label": good}).to_csv(tmp_path / "labels.csv", index=False)
    return "rows.parquet"


@pytest.mark.parametrize("labels", ["human", "labels.csv"])
def test_agreement_and_threshold_are_shown(ragmetrics: Run, rows: str, labels: str) -> None:
    result = ragmetrics("calibrate", rows, labels, "--groups", "document")
    assert result.exit_code == 0, result.output
    for said in ("200 rows", "kappa", "AUROC", "beats 0.5"):
        assert said in result.output


def test_peoples_feedback_on_the_experiments_traces_are_labels(ragmetrics: Run, mlflow_store: str) -> None:
    report, good = labelled_report(8)
    source = mlflow.entities.AssessmentSource(source_type="HUMAN", source_id="ann")
    ids = []
    for label in good:
        with mlflow.start_span("answer") as span:  # feedback on a trace that is still open is stored with it
            mlflow.log_feedback(trace_id=span.trace_id, name="faithfulness", value=label, source=source)
        ids.append(span.trace_id)
    mlflow.flush_trace_async_logging()
    for row, trace_id in zip(report.rows, ids, strict=True):
        object.__setattr__(row.sample, "metadata", {"trace_id": trace_id})
    run_id = report.log(run_name="production")
    result = ragmetrics("calibrate", "production", "--feedback")
    assert result.exit_code == 0, result.output
    assert "8 rows" in result.output
    own = mlflow.get_run(result.output.split()[-1])
    assert f"Logged to MLflow run {own.info.run_id}" in result.output
    production = mlflow.get_run(run_id)
    assert own.info.run_id != run_id
    assert own.info.experiment_id == production.info.experiment_id
    assert any(name.startswith("calibration/faithfulness/") for name in own.data.metrics)
    assert not any(name.startswith("calibration/") for name in production.data.metrics)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give either LABELS"),
        (["human", "--feedback"], "either LABELS"),
        (["--feedback"], "needs a run in MLflow"),
        (["nowhere.csv"], "nowhere.csv does not exist"),
        (["human", "--key", "rouge"], "'rouge' is not a metric"),
    ],
)
def test_mistakes_end_with_2_and_one_sentence(ragmetrics: Run, rows: str, arguments: list[str], said: str) -> None:
    result = ragmetrics("calibrate", rows, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
