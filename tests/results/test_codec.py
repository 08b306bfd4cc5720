"""A row survives the way through JSON, and a score the way through the metadata of an assessment."""

from __future__ import annotations

import json

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.safe_text import as_json
from mlflow_ragmetrics.results.tables import metadata_of, record_of, row_of, score_in

SAMPLE = {
    "question": "Where is it?",
    "answer": "The tower stands in Paris. It is red.",
    "contexts": [{"text": "The tower stands in Paris.", "id": "d1", "metadata": {"page": 3}}],
    "reference": ["Paris", "In Paris"],
    "retrieved_doc_ids": ["d1", "d2"],
    "gold_doc_ids": ["d2"],
    "history": [{"role": "user", "content": "Hello"}],
    "topic": "towers",
}
METRICS = ["faithfulness(threshold=0.9)", "rouge", "context_recall", "hallucination_rate", "weakest_claim"]


def test_a_row_and_its_scores_come_back() -> None:
    (row,) = rm.evaluate([SAMPLE], METRICS).rows
    again = row_of(json.loads(as_json(record_of(row))))
    assert again == row
    assert again.scores["faithfulness"].items == row.scores["faithfulness"].items != ()
    assert {key: score_in(metadata_of(key, score)) for key, score in row.scores.items()} == row.scores


@pytest.mark.parametrize("text", ["", "1", "null", "[1]", '"quoted"', "nul \ud800", "true"])
def test_texts_stay_texts(text: str) -> None:
    score = rm.Score(status="error", reason=text, error=text, judge=text, warnings=(("code", text),))
    assert score_in(metadata_of("key", score)) == score.changed(
        **{name: text.replace("\ud800", "\ufffd") for name in ("reason", "error", "judge")},
        warnings=(("code", text.replace("\ud800", "\ufffd")),),
    )


@pytest.mark.parametrize("record", [{}, {"sample": {}, "scores": {"a": {"status": "fine"}}}, {"scores": {}}])
def test_other_mappings_are_refused(record: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        row_of(record)
