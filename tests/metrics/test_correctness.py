"""Grades of agreement with the reference, and rows that need no judge."""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import JudgeReplyError, MissingFieldError

CLEAR, VAGUE = "It is red.", "I don't know."


@pytest.mark.parametrize(
    ("given", "grade"),
    [(1, 1.0), (5, 5.0), (3.5, 3.5), ("4", 4.0), ("4/5", 4.0), (" 2.5 / 5 ", 2.5), ("4 out of 5", 4.0), ("3,5", 3.5)],
)
def test_grades_that_are_read(given: object, grade: float) -> None:
    score = rm.score("correctness", {"answer": CLEAR, "reference": "r"}, judge=rm.ScriptedJudge(rating=given))
    assert score.value == pytest.approx((grade - 1) / 4)
    assert score.scaled == pytest.approx(grade)
    assert score.details["grade"] == grade


@pytest.mark.parametrize("given", [0, 6, 5.01, -1, "0/5", "4/10", "five", "", None, True, float("nan"), float("inf")])
def test_grades_that_are_errors(given: object) -> None:
    record = {"answer": CLEAR, "reference": "r"}
    judge = rm.ScriptedJudge(rating=given)
    with pytest.raises(JudgeReplyError, match="correctness"):
        rm.score("correctness", record, judge=judge)
    kept = rm.score("correctness", record, judge=judge, on_missing="skip")
    assert (kept.status, kept.value, kept.scaled) == ("error", None, None)
    assert kept.error is not None
    assert kept.error.startswith("JudgeReplyError")


@pytest.mark.parametrize(
    ("answer", "reference", "value", "rule"),
    [
        (VAGUE, CLEAR, 0.0, "indistinct_answer"),
        (VAGUE, "Not specified.", 1.0, "both_decline"),
        ("", "", 1.0, "both_decline"),
    ],
)
def test_indistinct_answers_cost_no_call(answer: str, reference: str, value: float, rule: str) -> None:
    judge = rm.ScriptedJudge()
    score = rm.score("correctness", {"answer": answer, "reference": reference}, judge=judge)
    assert (score.value, score.details["rule"], judge.asked) == (value, rule, [])


def test_a_clear_answer_against_an_indistinct_reference_is_judged() -> None:
    score = rm.score("correctness", {"answer": CLEAR, "reference": VAGUE}, judge=rm.ScriptedJudge(rating=2))
    assert (score.value, score.details["reference_state"]) == (0.25, "indistinct")


@pytest.mark.parametrize("answer", [CLEAR, VAGUE])
def test_a_missing_reference_is_missing(answer: str) -> None:
    with pytest.raises(MissingFieldError) as caught:
        rm.score("correctness", {"answer": answer})
    assert caught.value.field == "reference"
