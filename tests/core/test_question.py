from __future__ import annotations

from mlflow_ragmetrics.core.question import Claims, RelatedChunks, Verify, cache_key


def test_the_key_of_a_question_is_its_kind_and_content_without_its_role() -> None:
    assert cache_key(Claims("A.", "answer")) == cache_key(Claims("A.", "reference"))
    questions = [
        Claims("A."),
        Claims("B."),
        RelatedChunks("A.", ("c",)),
        Verify(("A.",), ("c",)),
        Verify(("A.",), ("c",), "reference"),
        Verify(("A.", "c"), ()),
    ]
    assert len({cache_key(question) for question in questions}) == len(questions)
