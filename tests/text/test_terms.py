from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import TokenItems
from mlflow_ragmetrics.text.words import answer_terms, plain_sentences, term_counts, terms


def test_counts_stand_in_the_order_of_first_places() -> None:
    assert list(term_counts("The cat saw the other cat.").items()) == [("the", 2), ("cat", 2), ("saw", 1), ("other", 1)]


@pytest.mark.parametrize(
    "text", ["One cat. Two-legged dogs! ... Three", "Ёлка. \u0301\u0301\u0301. ℡℡. 巴黎是。猫！", ""]
)
def test_an_answer_has_the_terms_of_its_sentences_and_of_what_is_none(text: str) -> None:
    found = answer_terms(text)
    assert list(found.sentences) == plain_sentences(text)
    assert [list(each) for each in found.terms] == list(map(terms, plain_sentences(text)))
    assert list(found.counts) == list(dict.fromkeys(terms(text)))


@given(st.text(alphabet=st.sampled_from("ab.-_ !?\n\u0301é巴黎。)”")))
def test_counts_of_an_answer_are_those_of_its_terms(text: str) -> None:
    assert dict(answer_terms(text).counts) == dict(term_counts(text))


def test_items_of_tokens_are_made_when_they_are_read() -> None:
    make = TokenItems(["猫", "cat"], [False, True])
    assert [(item.text, item.verdict) for item in make()] == [("猫", "NOT_FOUND"), ("cat", "FOUND")]
    assert pickle.loads(pickle.dumps(make))() == make()


@pytest.mark.parametrize("key", ["lexical_groundedness", "lexical_factuality", "lexical_relevance", "context_recall"])
def test_scores_with_many_items_make_them_when_they_are_read(key: str) -> None:
    record = {"question": "Which cat?", "answer": "The cat saw it.", "reference": "A cat."}
    ids = {"retrieved_doc_ids": ["a"], "gold_doc_ids": ["a"]}
    score = rm.score(key, record | ids)
    assert score.compact_items is not None
    assert score.items
    assert score.compact_items is None
