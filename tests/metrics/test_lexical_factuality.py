"""Sentences that share at least half of their terms with the reference."""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm


def test_repeated_terms_count_once() -> None:
    record = {"answer": "red red red blue", "reference": "blue"}
    assert rm.score("lexical_factuality", record).value == 1.0


@pytest.mark.parametrize(("answer", "value"), [("", 0.0), ("  ", 0.0), ("Yes. No.", 1.0), ("...", 1.0)])
def test_answers_without_claims(answer: str, value: float) -> None:
    assert rm.score("factuality", {"answer": answer, "reference": "r"}).value == value


def test_several_accepted_answers() -> None:
    record = {"answer": "The red house stands.", "reference": ["Blue boats swim.", "A red house that stands."]}
    score = rm.score("lexical_factuality", record)
    assert score.value == 1.0
    assert "A red house that stands." in score.reason
    assert score.details["matched_reference"] == "A red house that stands."
