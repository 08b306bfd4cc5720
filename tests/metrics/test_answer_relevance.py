"""Grades of relevance to the question; a non-answer is never relevant."""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import MissingFieldError


@pytest.mark.parametrize("reference", ["It is red.", "unknown", None])
@pytest.mark.parametrize("answer", ["I don't know.", "", "?!"])
def test_indistinct_answers_are_not_relevant(answer: str, reference: str | None) -> None:
    judge = rm.ScriptedJudge()
    score = rm.score("answer_relevance", {"question": "q", "answer": answer, "reference": reference}, judge=judge)
    assert (score.value, score.scaled, judge.asked) == (0.0, 1.0, [])


def test_the_judge_sees_question_and_answer_only() -> None:
    judge = rm.ScriptedJudge(rating=5)
    score = rm.score("answer_relevance", {"question": "q", "answer": "It is red.", "reference": "r"}, judge=judge)
    (asked,) = judge.asked
    assert (asked.aspect, asked.question, asked.answer, asked.reference) == (  # type: ignore[union-attr]
        *("answer_relevance", "q", "It is red."),
        None,
    )
    assert score.value == 1.0


def test_the_question_is_needed() -> None:
    with pytest.raises(MissingFieldError) as caught:
        rm.score("answer_relevance", {"answer": "It is red."})
    assert caught.value.field == "question"
