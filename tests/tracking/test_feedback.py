"""Scores as MLflow feedback."""

from __future__ import annotations

import json
import math

import mlflow

from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Evidence, Item, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.tracking.feedback import (
    assessment_names,
    assessments_of,
    feedback_of,
    remove_assessment,
    repeated_keys,
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


def test_nan_is_no_value_but_a_skipped_score() -> None:
    feedback = feedback_of("m", Score(math.nan, reason="nothing to score"))
    assert (feedback.value, feedback.rationale) == (None, "skipped: nothing to score")
    assert feedback.error is None or feedback.error.error_code == "SKIPPED"


def test_an_error_has_its_class_as_code() -> None:
    feedback = feedback_of("m", Score(status="error", error="JudgeError: no answer: later", reason="no answer: later"))
    assert feedback.value is None
    assert (feedback.error.error_code, feedback.error.error_message) == ("JudgeError", "no answer: later")


def test_the_reference_is_an_expectation() -> None:
    row = Row(Sample(id="a", references=("Paris\x00",)), {"m": Score(1.0)})
    feedback, expectation = assessments_of(row, "run", {"m": "m"})
    assert expectation.expectation.value == "Paris\ufffd"
    assert feedback.metadata["mlflow.assessment.sourceRunId"] == "run"
    assert len(assessments_of(Row(Sample(), {"m": Score(1.0)}), "run", {"m": "m"})) == 1


def claims(*verdicts: str) -> tuple[Item, ...]:
    return tuple(Item("claim", f"claim {number}", verdict) for number, verdict in enumerate(verdicts))


def test_composites_and_telling_scores_stand_first_and_no_name_is_that_of_a_judge_of_mlflow() -> None:
    scores = {
        "answer_relevance": Score(0.5),
        "context_sufficiency": Score(1.0),
        "correctness": Score(0.4),
        "faithfulness": Score(0.3),
        "zeta": Score(0.2, details={"coverage": 1.0}),
    }
    names = assessment_names([Row(Sample(id="a"), scores)])
    assert sorted(names.values()) == [
        "1_zeta",
        "2_correctness",
        "2_faithfulness",
        "answer_relevance",
        "rag_context_sufficiency",
    ]
    zeta, *_ = assessments_of(Row(Sample(id="a"), scores), "run", {"zeta": names["zeta"]})
    assert (zeta.name, zeta.metadata["ragmetrics.key"]) == ("1_zeta", "zeta")


def test_a_lower_is_better_score_does_not_stand_first_as_mlflow_colours_each_rise_as_a_gain() -> None:
    scores = {"hallucination_rate": Score(0.5), "faithfulness": Score(0.5)}
    assert list(assessment_names([Row(Sample(), scores)]).values()) == ["hallucination_rate", "2_faithfulness"]


def test_a_trace_shows_its_assessments_in_the_order_of_their_names() -> None:
    scores = {"correctness": Score(0.1), "rag_score": Score(0.5, details={"coverage": 1.0}), "zeta": Score(0.2)}
    row = Row(Sample(references=("Yes.",)), scores)
    found = assessments_of(row, "run", {"correctness": "2_correctness", "zeta": "zeta", "rag_score": "1_rag_score"})
    assert [each.name for each in found] == ["1_rag_score", "2_correctness", "zeta", "expected_response"]
    assert len({each.create_time_ms for each in found}) == 1  # MLflow shows the newest first


def test_a_score_that_repeats_another_in_every_row_is_shown_once() -> None:
    same = [
        {
            "faithfulness": Score(0.5, items=claims("SUPPORTED", "NEUTRAL")),
            "fact_recall": Score(0.5, items=claims("SUPPORTED", "NEUTRAL")),
        },
        {"faithfulness": Score(1.0, items=claims("SUPPORTED")), "fact_recall": Score(1.0, items=claims("SUPPORTED"))},
    ]
    rows = [Row(Sample(id=str(number)), scores) for number, scores in enumerate(same)]
    assert repeated_keys(rows) == {"fact_recall": "faithfulness"}
    assert list(assessment_names(rows)) == ["faithfulness"]
    other = Row(Sample(id="x"), {**same[1], "fact_recall": Score(1.0, items=claims("SUPPORTED", "SUPPORTED"))})
    assert repeated_keys([*rows, other]) == {}


def test_equal_numbers_without_items_are_no_repetition() -> None:
    rows = [Row(Sample(id="a"), {"rouge1_f1": Score(1.0), "rouge2_f1": Score(1.0)})]
    assert repeated_keys(rows) == {}


def test_a_feedback_that_is_written_again_is_there_once_and_one_that_is_gone_is_removed() -> None:
    with mlflow.start_span("answer") as span:
        span.set_outputs("yes")
    mlflow.flush_trace_async_logging()
    for _ in range(2):  # as after a reply that was lost
        write_assessment(span.trace_id, feedback_of("m", Score(0.5)), "once")
    (feedback,) = mlflow.get_trace(span.trace_id).info.assessments
    assert feedback.value == 0.5
    for _ in range(2):
        remove_assessment(span.trace_id, str(feedback.assessment_id))
    assert mlflow.get_trace(span.trace_id).info.assessments == []
