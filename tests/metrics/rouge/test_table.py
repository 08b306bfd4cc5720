"""ROUGE of many pairs equals the metric."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.metrics.rouge.table import rouge_table

KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
WORDS = ["Running", "runners", "skies", "dying", "generally", "Straße", "naïve", "東京", "3.5", "it's", "İ", "\ud800"]
TEXT = st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=4)), max_size=20).map(" \n".join)
TIES = st.text("abc \n", max_size=40)


def assert_equal(pairs: list[tuple[str, str]], stemmer: bool) -> None:
    table = rouge_table([a for a, _ in pairs], [r for _, r in pairs], stemmer=stemmer)
    for place, (answer, reference) in enumerate(pairs):
        for kind in KINDS:
            details = rm.rouge.definition.function(
                answer, reference, rouge_type=kind, tokenizer="rouge_score", stemmer=stemmer
            ).details
            for measure in ("precision", "recall", "f1"):
                found = table[f"{kind}_{measure}"][place]
                assert found == pytest.approx(details[measure], abs=1e-9, rel=0), (kind, measure, answer, reference)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT) | st.tuples(TIES, TIES), max_size=5), st.booleans())
def test_any_texts(pairs: list[tuple[str, str]], stemmer: bool) -> None:
    assert_equal(pairs, stemmer)


def test_long_texts_beside_short_ones() -> None:
    generator = np.random.default_rng(0)
    long = ["\n".join(" ".join(generator.choice(list("abcdefgh"), 12)) for _ in range(250)) for _ in range(2)]
    assert_equal([("a b", "b\nc"), (long[0], long[1]), ("", "a"), (long[1], "h g")], False)


def test_whitespace_tokens_are_counted_here() -> None:
    assert rouge_table(["A-b c"], ["A-b d"], kinds=["rouge1"], tokenizer="whitespace")["rouge1_f1"].tolist() == [0.5]


def test_uneven_sides_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="2 answers and 1 references"):
        rouge_table(["a", "b"], ["a"])
