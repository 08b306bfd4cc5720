"""The composite of the white-paper family."""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm


def test_a_row_without_context_loses_chunk_precision_and_says_so() -> None:
    record = {"question": "q", "answer": "It is red.", "reference": "It is red.", "contexts": []}
    score = rm.score("rag_score", record, judge=rm.ScriptedJudge(rating=5))
    assert score.value == 1.0
    assert score.details["coverage"] == pytest.approx(0.8)
    assert score.details["skipped"] == 1
    assert "chunk_precision" in score.reason
