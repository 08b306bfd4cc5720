"""Rows are sent to MLflow's review queues, and people's answers come back as labels."""

from __future__ import annotations

import re

import mlflow
import pytest
from click.testing import CliRunner
from mlflow.entities import AssessmentSource
from mlflow.genai import label_schemas as schemas
from mlflow.genai import review_queues as queues

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.calibration.calibrate_scores import rows_to_label
from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.tracking.review import queue_for_review

KEY = "faithfulness"


@pytest.fixture
def run_id() -> str:
    mlflow.set_experiment("live")
    passages = ["The tower is 330 metres high.", "The river is long."]
    rows = [
        {
            "id": f"r{n}",
            "question": f"How high is it {n}?",
            "answer": "The tower is 330 metres high.",
            "contexts": [text],
        }
        for n, text in enumerate(passages * 6)
    ]
    return rm.Suite([KEY]).evaluate(rows, progress=False).log(run_name="towers")


def answered(run_id: str, *answers: object) -> None:
    """Answers like MLflow's review page."""
    person = AssessmentSource(source_type="HUMAN", source_id="ann")
    traces = mlflow.search_traces(filter_string=f"tags.`ragmetrics.to_label.{KEY}` != ''", return_type="list")
    for number, trace in enumerate(sorted(traces, key=lambda each: int(each.info.client_request_id[1:]))):
        value = answers[number % len(answers)]
        mlflow.log_feedback(trace_id=trace.info.trace_id, name=KEY, value=value, source=person)


def cli(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_chosen_rows_wait_in_a_queue_with_one_question(run_id: str) -> None:
    said = cli("label", run_id, "--to", "mlflow", "--budget", "12", "--reviewer", "ann")
    assert f"Rows in the review queue '{KEY} of towers': 12; answers: Supported" in said
    assert f"ragmetrics calibrate {run_id} --feedback --key {KEY}" in said
    (queue,) = (each for each in queues.list_review_queues() if each.name == f"{KEY} of towers")
    (schema,) = (each for each in schemas.list_label_schemas() if each.name == KEY)
    assert queue.schema_ids == [schema.schema_id]
    assert list(queue.users) == ["ann"]
    assert "View full trace" in schema.instruction  # MLflow's page shows question and answer only
    assert schema.input.options == ["Supported", "Partially supported", "Not supported"]
    waiting = queues.list_review_queue_items(queue.queue_id)
    assert all(mlflow.get_trace(each.item_id).info.client_request_id.startswith("r") for each in waiting)
    again = queue_for_review(run_id, KEY, rows_to_label(run_id, budget=12))  # the same queue, nothing twice
    assert again.queue_id == queue.queue_id
    assert len(queues.list_review_queue_items(queue.queue_id)) == len(waiting)


def test_a_question_that_is_there_is_not_said_to_have_other_answers(run_id: str) -> None:
    cli("label", run_id, "--to", "mlflow", "--answers", "1-5")
    refused = CliRunner().invoke(main, ["label", run_id, "--to", "mlflow"])
    assert refused.exit_code == 2
    assert "asks for Numeric, not Categorical: change --answers" in " ".join(refused.output.split())


@pytest.mark.parametrize(
    ("kind", "answers"),
    [
        ("words", ("Supported", "Not supported")),
        ("yes-no", (True, False)),
        pytest.param("1-5", (5, 2), marks=pytest.mark.slow),
    ],
)
def test_answers_come_back_with_kappa_and_the_confusion_table(
    run_id: str, kind: str, answers: tuple[object, ...]
) -> None:
    cli("label", run_id, "--to", "mlflow", "--budget", "100", "--answers", kind)
    answered(run_id, *answers)
    said = cli("calibrate", run_id, "--feedback", "--key", KEY, *(["--good-from", "4"] if kind == "1-5" else []))
    assert "people: good" in said
    assert re.search(r"kappa at [\d.]+: 1.000", said)
    (own,) = mlflow.search_runs(filter_string=f"run_name = 'calibrate {KEY}'", output_format="list")
    assert own.data.metrics[f"calibration/{KEY}/kappa"] == 1
    assert "people: bad" in mlflow.artifacts.load_text(f"runs:/{own.info.run_id}/calibration_{KEY}.txt")
    assert not any(name.startswith("calibration") for name in mlflow.get_run(run_id).data.metrics)


def test_words_of_ones_own_are_named_and_can_be_explained(run_id: str) -> None:
    cli("label", run_id, "--to", "mlflow", "--budget", "100")
    answered(run_id, "Not faithful", "Kind of", "Supported", "Partially supported")
    said = cli("calibrate", run_id, "--feedback", "--key", KEY)
    assert "labels with unknown words left out (3): 'Kind of' (3)" in said.replace("\n", " ")
    explained = cli("calibrate", run_id, "--feedback", "--key", KEY, "--words", "kind of=0")
    assert "12 rows" in explained
    assert "left out" not in explained


def test_where_there_are_no_queues_the_tags_say_what_waits(run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_store_of_questions(*arguments: object) -> None:
        raise NotImplementedError  # as a file store does

    monkeypatch.setattr(schemas, "list_label_schemas", no_store_of_questions)
    said = cli("label", run_id, "--to", "mlflow", "--budget", "12")
    assert "no review queues" in said
    assert f"tags.`ragmetrics.to_label.{KEY}` != ''" in said


def test_a_run_without_traces_is_said() -> None:
    rows = [{"id": "a", "question": "q", "answer": "a b", "contexts": ["a b"]}]
    run_id = rm.Suite([KEY]).evaluate(rows, progress=False).log(traces=False)
    with pytest.raises(InvalidDataError, match="no traces to review"):
        queue_for_review(run_id, KEY, rows_to_label(run_id, budget=1))
