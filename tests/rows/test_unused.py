"""Messages about a missing field name a column only if it is likely to be the field."""

from __future__ import annotations

import pytest

from mlflow_ragmetrics.rows.record import to_sample
from mlflow_ragmetrics.selection import likely_contexts

QUESTION = {"question": "How high is it?", "answer": "330 m."}


@pytest.mark.parametrize(
    ("column", "value", "guessed"),
    [
        ("notes", ["It is 330 metres high."], True),
        ("kb_snippets", "It is 330 metres high.", True),
        ("system_prompt", "You are a helpful assistant. Answer briefly.", False),
        ("topic", "tall towers in France", False),
        ("search_ids", ["doc-7"], False),
    ],
)
def test_only_lists_of_texts_and_telling_names_are_guessed(column: str, value: object, guessed: bool) -> None:
    sample = to_sample({**QUESTION, column: value})
    assert likely_contexts([sample]) == (column if guessed else None)
