"""Grades of agreement with the reference, and rows that need no judge."""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import MissingFieldError

CLEAR, VAGUE = "It is red.", "I don't know."


def test_a_clear_answer_against_an_indistinct_reference_is_judged() -> None:
    score = rm.score("correctness", {"answer": CLEAR, "reference": VAGUE}, judge=rm.ScriptedJudge(rating=2))
    assert (score.value, score.details["reference_state"]) == (0.25, "indistinct")


@pytest.mark.parametrize("answer", [CLEAR, VAGUE])
def test_a_missing_reference_is_missing(answer: str) -> None:
    with pytest.raises(MissingFieldError) as caught:
        rm.score("correctness", {"answer": answer})
    assert caught.value.field == "reference"
