"""Writes that a store refuses, and features that some stores lack: the rest is written, and nothing is hidden."""

from __future__ import annotations

import sqlite3
import warnings
from pathlib import Path

import mlflow
import pytest
from mlflow.exceptions import MlflowException

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.tracking.traces import feedback_of, remove_assessment, write_assessment

RECORDS = [
    {"id": "a", "question": "Where?", "answer": "In Paris.", "reference": "Paris."},
    {
        "id": "b",
        "question": "And when?",
        "answer": "In 1889.",
        "reference": "1889",
        "history": [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": "In Paris."}],
    },
]


def refuse(store: str, action: str) -> None:
    """Makes the database refuse ``action`` (such as ``INSERT ON spans``)."""
    with sqlite3.connect(store.removeprefix("sqlite:///")) as connection:
        connection.execute(f"CREATE TRIGGER refused BEFORE {action} BEGIN SELECT RAISE(ABORT, 'no room'); END")
    connection.close()


def report() -> rm.Report:
    return rm.Suite(["rouge"]).evaluate(RECORDS, progress=False)


def test_traces_that_are_refused_are_a_warning_and_the_figures_are_written(mlflow_store: str) -> None:
    evaluated = report()
    refuse(mlflow_store, "INSERT ON trace_info")
    with pytest.warns(UserWarning, match="no traces were written"):
        run = mlflow.get_run(evaluated.log())
    assert run.data.metrics["rouge1_f1/mean"] == round(evaluated.metrics["rouge1_f1/mean"], 6)
    assert "mlflow.runType" not in run.data.tags
    assert mlflow.search_traces(return_type="list") == []


def test_a_connection_that_breaks_before_the_first_trace_is_no_refusal(
    mlflow_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        try:
            raise ConnectionResetError("reset by peer")
        except OSError:
            raise MlflowException("API request failed with exception")  # noqa: B904 -- as MLflow raises it

    monkeypatch.setattr("mlflow_ragmetrics.tracking.traces._write_all", broken)
    with pytest.raises(rm.RagMetricsError, match="API request failed"):
        report().log()
    (run,) = mlflow.search_runs(output_format="list")
    assert run.info.status == "FAILED"
    assert run.data.tags["ragmetrics.status"] != "complete"


def test_a_database_that_fails_before_the_first_trace_is_no_refusal(mlflow_store: str) -> None:
    evaluated = report()
    with sqlite3.connect(mlflow_store.removeprefix("sqlite:///")) as connection:
        connection.execute("ALTER TABLE trace_info RENAME TO elsewhere")
    connection.close()
    with pytest.raises(rm.RagMetricsError, match="trace_info"):
        evaluated.log()
    (run,) = mlflow.search_runs(output_format="list")
    assert run.info.status == "FAILED"
    assert run.data.tags["ragmetrics.status"] != "complete"


def test_feedback_that_is_refused_or_cannot_be_removed_is_no_success(mlflow_store: str) -> None:
    with mlflow.start_span("answer") as span:
        span.set_outputs("yes")
    mlflow.flush_trace_async_logging()
    write_assessment(span.trace_id, feedback_of("m", Score(0.5)), "once")
    (there,) = mlflow.get_trace(span.trace_id).info.assessments
    refuse(mlflow_store, "DELETE ON assessments")
    with pytest.raises(MlflowException, match="no room"):
        remove_assessment(span.trace_id, str(there.assessment_id))
    assert [each.name for each in mlflow.get_trace(span.trace_id).info.assessments] == ["m"]
    with sqlite3.connect(mlflow_store.removeprefix("sqlite:///")) as connection:
        connection.execute("ALTER TABLE assessments RENAME TO elsewhere")
    connection.close()
    with pytest.raises(MlflowException, match="no such table"):
        write_assessment(span.trace_id, feedback_of("k", Score(0.5)), "once")


def test_a_store_of_files_takes_all_but_what_it_has_no_place_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(str(tmp_path / "files"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_id = report().log(step=3)
    run = mlflow.get_run(run_id)
    assert (run.info.status, run.data.tags["ragmetrics.status"]) == ("FINISHED", "complete")
    figures = mlflow.artifacts.load_dict(f"runs:/{run_id}/rag_figures.json")
    assert figures["rouge1_f1/n_scored"] == 2
    assert [point.step for point in mlflow.MlflowClient().get_metric_history(run_id, "rouge1_f1/mean")] == [3]
    assert [each.dataset.name for each in run.inputs.dataset_inputs] == ["2 questions"]
