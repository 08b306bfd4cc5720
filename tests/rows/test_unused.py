"""Messages about a missing field name a column only if it is likely to be the field."""

from __future__ import annotations

import pytest

from mlflow_ragmetrics.rows.record import to_sample
from mlflow_ragmetrics.selection import default_metrics, likely_column

QUESTION = {"question": "How high is it?", "answer": "330 m."}


@pytest.mark.parametrize(
    ("column", "value", "guessed"),
    [
        ("notes", ["It is 330 metres high."], True),
        ("kb_snippets", "It is 330 metres high.", True),
        ("system_prompt", "You are a helpful assistant. Answer briefly.", False),
        ("topic", "tall towers in France", False),
        ("search_ids", ["doc-7"], False),
        ("judge_doc_relevance", "The passage tells the height.", False),
        ("hard_negatives", ["It is 12 metres high."], False),
    ],
)
def test_only_lists_of_texts_and_telling_names_are_guessed(column: str, value: object, guessed: bool) -> None:
    sample = to_sample({**QUESTION, column: value})
    assert likely_column("contexts", [sample]) == (column if guessed else None)


@pytest.mark.parametrize(
    ("column", "values", "advice"),
    [
        ("gold", ["Paris", "330 m"], "reference=gold"),
        ("gold_source", ["tower_guide", "city_map"], "gold_doc_ids=gold_source"),
        ("retrieved_files", [["a.pdf"], ["b.pdf"]], "retrieved_doc_ids=retrieved_files"),
        ("label", ["", ""], "reference=COLUMN (unused columns: label)"),
        ("label", ["high", "high"], "reference=COLUMN (unused columns: label)"),
        ("target_score_reason", ["It is right.", "It is wrong."], "reference=COLUMN (unused columns: "),
        ("latency", [0.5, 0.7], "reference=COLUMN (unused columns: latency)"),
        ("qid", ["q1", "q2"], "scored with answer_relevance, lexical_relevance, coherence, content_safety"),
    ],
)
def test_values_decide_which_field_a_column_may_be(column: str, values: list[object], advice: str) -> None:
    sentence = str(default_metrics([to_sample({**QUESTION, column: value}) for value in values])[1])
    assert advice in sentence
    assert ("unused" in sentence) == (column != "qid")
