"""The composite of the white-paper family."""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError

CASE_STUDY = {
    "correctness": 3.0,
    "faithfulness": 5.0,
    "chunk_precision": 11 / 3,
    "fact_recall": 5.0,
    "answer_relevance": 4.0,
}


def test_case_study() -> None:
    score = rm.score("rag_score", {"scores": CASE_STUDY, "scale": "1-5"})
    assert score.scaled == pytest.approx(3.9333333)
    assert score.value == pytest.approx((3.9333333 - 1) / 4)
    assert score.details["coverage"] == 1.0


def test_a_row_without_context_loses_chunk_precision_and_says_so() -> None:
    record = {"question": "q", "answer": "It is red.", "reference": "It is red.", "contexts": []}
    score = rm.score("rag_score", record, judge=rm.ScriptedJudge(rating=5))
    assert score.value == 1.0
    assert score.details["coverage"] == pytest.approx(0.8)
    assert score.details["skipped"] == 1
    assert "chunk_precision" in score.reason


def test_weights_are_its_option() -> None:
    weights = {"correctness": 3, "answer_relevance": 1}
    assert rm.score("rag_score", {"scores": CASE_STUDY, "scale": "1-5"}, weights=weights).scaled == pytest.approx(3.25)
    for wrong in ({"correctness": -1.0}, {"correctness": 0.0}):
        with pytest.raises(InvalidOptionError) as caught:
            rm.score("rag_score", {"scores": CASE_STUDY}, weights=wrong)
        assert caught.value.param == "weights"
