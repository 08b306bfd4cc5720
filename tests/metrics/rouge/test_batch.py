"""ROUGE of many pairs at once counts what ``overlap`` counts of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_ragmetrics.metrics.rouge import batch
from mlflow_ragmetrics.metrics.rouge.batch import overlaps
from mlflow_ragmetrics.metrics.rouge.overlap import overlap

KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
MODES = (("whitespace", False), ("rouge_score", False), ("rouge_score", True))
WORDS = st.sampled_from(["a", "b", "c", "running", "runs", "Été", "|", "#", "\0", "\0\0", "x-y", "\xa0", "\x1f", ".\n"])
TEXT = st.lists(st.one_of(WORDS, st.text(max_size=3)), max_size=25).map(" ".join)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=16, max_size=20), st.sampled_from(KINDS), st.sampled_from(MODES))
@settings(max_examples=60, deadline=None)
def test_many_pairs_are_counted_as_each_alone(pairs, kind, mode):
    assert_counted(pairs, kind, *mode)


@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_all_lengths_stand_side_by_side(kind):
    texts = [" ".join("abcdefg"[i * j % 7] + "\n" * (i % 5 == j % 11) for j in range(i * i)) for i in range(24)]
    texts += ["", "\n\n", "word " * 2000]
    pairs = [(texts[i], texts[(5 * i + 3) % len(texts)]) for i in range(len(texts))]
    assert_counted(pairs, kind, "whitespace", False)
    assert overlaps([], [], kind, "whitespace", False).tolist() == [[], [], []]


@pytest.mark.parametrize("kind", KINDS)
def test_lines_of_any_length_in_many_blocks(kind, monkeypatch):
    generator = np.random.default_rng(1)

    def text() -> str:
        lines = [" ".join(generator.choice(list("abcdefghijkl"), generator.integers(0, 150))) for _ in range(5)]
        return "\n".join(lines[: generator.integers(1, 6)])

    monkeypatch.setattr(batch, "_TOGETHER", 20_000)
    monkeypatch.setattr(batch, "_TABLE", 5000)
    assert_counted([(text(), text()) for _ in range(80)], kind, "rouge_score", False)


@pytest.mark.parametrize("mode", MODES)
def test_a_lone_surrogate_is_a_token_like_others(mode):
    assert_counted([("a \ud800 b\nc", "\ud800 c\nb \ud801")] * 20, "rougeLsum", *mode)


def assert_counted(pairs, kind, tokenizer, stemmer):
    found = overlaps(*zip(*pairs, strict=True), kind, tokenizer, stemmer)
    assert found.T.tolist() == [list(overlap(*pair, kind, tokenizer, stemmer)) for pair in pairs]
