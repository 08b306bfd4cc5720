"""Tokens and lines of ROUGE."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.tokenizers import DefaultTokenizer

from mlflow_ragmetrics.metrics.rouge.overlap import sentence_tokens, tokens_of


@given(st.text())
def test_alphanumerics_equal_rouge_score(text: str) -> None:
    for stemmer in (False, True):
        assert list(tokens_of(text, "rouge_score", stemmer)) == DefaultTokenizer(stemmer).tokenize(text)


@pytest.mark.parametrize("text", ["was has as is", "gas gases", "his this bus buses"])
def test_short_words_are_not_stemmed_as_in_rouge_score(text: str) -> None:
    assert list(tokens_of(text, "rouge_score", True)) == DefaultTokenizer(True).tokenize(text)


def test_whitespace_of_any_script_and_nothing_else() -> None:
    assert tokens_of("A\u3000b,\u00a0C\x0bd", "whitespace", False) == ("A", "b,", "C", "d")
    assert tokens_of("e\u0301", "whitespace", False) == ("\u00e9",)


def test_lines_without_tokens_are_none() -> None:
    assert sentence_tokens("a b\n \n\nc\r\n", "whitespace", False) == (("a", "b"), ("c",))
    assert sentence_tokens("a\n—\nb", "rouge_score", False) == (("a",), ("b",))
