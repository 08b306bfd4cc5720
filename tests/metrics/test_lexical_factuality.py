"""Sentences that share at least half of their terms with the reference."""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm

APPLES = {
    "answer": "Apples are fruits. Apples grow on trees. Yes. Apples cure cancer.",
    "reference": "Apples are fruits that grow on trees.",
}


def test_claims_are_sentences_of_three_words() -> None:
    score = rm.score("lexical_factuality", APPLES)
    assert score.details == {"supported": 2, "unsupported": 1, "total": 3}
    assert [(item.text, item.verdict) for item in score.items] == [
        ("Apples are fruits.", "SUPPORTED"),
        ("Apples grow on trees.", "SUPPORTED"),
        ("Apples cure cancer.", "NEUTRAL"),
    ]
    assert score.items[2].reason == "1 of 3 distinct terms occurs in the reference."
    assert score.passed is False


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
