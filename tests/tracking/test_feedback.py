"""Scores as MLflow feedback."""

from __future__ import annotations

import json
import math

import mlflow
import pytest
from mlflow.entities import AssessmentSource

from mlflow_ragmetrics.core.score import Evidence, Item, Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.tracking.traces import (
    assessments_of,
    feedback_of,
    log_feedback,
    remove_assessment,
    write_assessment,
)


def test_a_score_with_claims() -> None:
    claim = Item("claim", "It is tall.", "SUPPORTED", support=0.9, evidence=(Evidence(1, "d1", "tall"),))
    score = Score(0.5, scaled=3.0, threshold=0.4, reason="1 of 2", items=(claim,), judge="words", details={"n": 2})
    feedback = feedback_of("faithfulness", score)
    assert (feedback.name, feedback.value, feedback.rationale, feedback.error) == ("faithfulness", 0.5, "1 of 2", None)
    assert (feedback.source.source_type, feedback.source.source_id) == ("LLM_JUDGE", "words")
    assert feedback.metadata["ragmetrics.passed"] == "true"
    (item,) = json.loads(feedback.metadata["ragmetrics.items"])
    assert item["evidence"] == [{"chunk": 1, "id": "d1", "quote": "tall"}]


@pytest.mark.parametrize(
    ("value", "higher_is_better", "shown"),
    [
        (0.69996, True, 0.69996),  # fails at 0.7, which the rounded value would pass
        (0.70004, False, 0.70004),
        (0.69994, True, 0.6999),
        (0.70004, True, 0.7),
    ],
)
def test_rounding_changes_no_verdict(value: float, higher_is_better: bool, shown: float) -> None:
    score = Score(value, threshold=0.7, higher_is_better=higher_is_better)
    assert feedback_of("near", score).value == shown


def test_nan_is_no_value_but_a_skipped_score() -> None:
    feedback = feedback_of("m", Score(math.nan, reason="nothing to score"))
    assert (feedback.value, feedback.rationale) == (None, "not measured: nothing to score")
    assert feedback.error is None or feedback.error.error_code == "NOT_MEASURED"


def test_an_error_has_its_class_as_code() -> None:
    feedback = feedback_of("m", Score(status="error", error="JudgeError: no answer: later", reason="no answer: later"))
    assert feedback.value is None
    assert (feedback.error.error_code, feedback.error.error_message) == ("JudgeError", "no answer: later")


def test_the_reference_is_an_expectation() -> None:
    row = Row(Sample(id="a", references=("Paris\x00",)), {"m": Score(1.0)})
    feedback, expectation = assessments_of(row, "run", "tr-1", "0")
    assert expectation.expectation.value == "Paris\ufffd"
    assert feedback.metadata["mlflow.assessment.sourceRunId"] == "run"
    assert len(assessments_of(Row(Sample(), {"m": Score(1.0)}), "run", "tr-1", "0")) == 1


def test_a_trace_shows_composites_first_and_no_score_by_the_name_of_a_judge_of_mlflow() -> None:
    scores = {"zeta": Score(0.2), "correctness": Score(0.1), "total": Score(0.5, details={"coverage": 1.0})}
    found = assessments_of(Row(Sample(references=("Yes.",)), scores), "run", "tr-1", "0")
    assert [each.name for each in found] == ["total", "zeta", "rag_correctness", "expected_response"]
    assert found[2].metadata["ragmetrics.key"] == "correctness"
    assert len({each.create_time_ms for each in found}) == 1  # MLflow shows the newest first
    assert len({each.assessment_id for each in found}) == 4


def test_a_feedback_that_is_written_again_is_there_once_and_one_that_is_gone_is_removed() -> None:
    with mlflow.start_span("answer") as span:
        span.set_outputs("yes")
    mlflow.flush_trace_async_logging()
    for _ in range(2):  # as after a lost reply
        write_assessment(span.trace_id, feedback_of("m", Score(0.5)), "once")
    (feedback,) = mlflow.get_trace(span.trace_id).info.assessments
    assert feedback.value == 0.5
    for _ in range(2):
        remove_assessment(span.trace_id, str(feedback.assessment_id))
    assert mlflow.get_trace(span.trace_id).info.assessments == []


def test_scores_replace_only_those_of_their_own_run() -> None:
    with mlflow.start_span("answer") as span:
        span.set_outputs("yes")
    mlflow.flush_trace_async_logging()
    person = AssessmentSource("HUMAN", "a person")
    mlflow.log_feedback(trace_id=span.trace_id, name="m", value=1.0, source=person)
    for value in (0.5, 0.7):
        log_feedback([Row(Sample(metadata={"trace_id": span.trace_id}), {"m": Score(value)})], "run")
    found = [(each.source.source_id, each.value) for each in mlflow.get_trace(span.trace_id).info.assessments]
    assert sorted(found) == [("a person", 1.0), ("m", 0.7)]
