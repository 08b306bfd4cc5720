"""ROUGE of many pairs at once counts what ``overlap`` counts of each."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_ragmetrics.shared.rouge.batch import overlaps
from mlflow_ragmetrics.shared.rouge.overlap import overlap

KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
MODES = (("whitespace", False), ("rouge_score", False), ("rouge_score", True))
WORDS = st.sampled_from(["a", "b", "c", "running", "runs", "Été", "|", "#", "\0", "\0\0", "x-y", "\xa0", "\x1f", ".\n"])
TEXT = st.lists(st.one_of(WORDS, st.text(max_size=3)), max_size=25).map(" ".join)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=16, max_size=20), st.sampled_from(KINDS), st.sampled_from(MODES))
@settings(max_examples=60, deadline=None)
def test_many_pairs_are_counted_as_each_alone(pairs, kind, mode):
    answers, references = zip(*pairs, strict=True)
    assert overlaps(answers, references, kind, *mode) == [overlap(*pair, kind, *mode) for pair in pairs]


@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_all_lengths_stand_side_by_side(kind):
    texts = [" ".join("abcdefg"[i * j % 7] + "\n" * (i % 5 == j % 11) for j in range(i * i)) for i in range(24)]
    texts += ["", "\n\n", "word " * 2000]
    pairs = [(texts[i], texts[(5 * i + 3) % len(texts)]) for i in range(len(texts))]
    found = overlaps(*zip(*pairs, strict=True), kind, "whitespace", False)
    assert found == [overlap(*pair, kind, "whitespace", False) for pair in pairs]
    assert overlaps([], [], kind, "whitespace", False) == []
