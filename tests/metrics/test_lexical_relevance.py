"""Cosine of term counts, compared with scikit-learn."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics.pairwise import cosine_similarity

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.text.words import terms

WORDS = st.lists(st.sampled_from(["cats", "dogs", "and", "learning", "data", "a", "is"]), max_size=10).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(WORDS, WORDS)
def test_it_equals_scikit_learn(question: str, answer: str) -> None:
    found = rm.score("lexical_relevance", {"question": question, "answer": answer}).value
    if not terms(question) or not terms(answer):
        assert found == 0.0
        return
    counts = CountVectorizer(analyzer=terms).fit_transform([question, answer])
    assert found == pytest.approx(cosine_similarity(counts)[0, 1])


def test_details_and_items() -> None:
    score = rm.score("lexical_relevance", {"question": "red cats", "answer": "cats and cats"})
    assert score.details == {"question_terms": 2, "answer_terms": 3, "shared_terms": 1}
    assert [(item.text, item.verdict) for item in score.items] == [("red", "NOT_FOUND"), ("cats", "FOUND")]


def test_the_bare_name_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="lexical_relevance"):
        rm.score("relevance", {"question": "q", "answer": "a"})
