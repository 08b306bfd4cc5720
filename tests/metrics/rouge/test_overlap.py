"""The counts of many pairs equal those of each pair alone; those of long lines equal ``rouge_score``."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.metrics.rouge import overlap
from mlflow_ragmetrics.metrics.rouge.overlap import overlaps

KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
MODES = (("whitespace", False), ("rouge_score", False), ("rouge_score", True))
WORDS = st.sampled_from(["a", "b", "c", "running", "runs", "Été", "|", "#", "\0", "\0\0", "x-y", "\xa0", "\x1f", ".\n"])
TEXT = st.lists(st.one_of(WORDS, st.text(max_size=3)), max_size=25).map(" ".join)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=2, max_size=20), st.sampled_from(KINDS), st.sampled_from(MODES))
@settings(max_examples=40, deadline=None)
def test_many_pairs_are_counted_as_each_alone(pairs, kind, mode):
    assert_counted(pairs, kind, *mode)


@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_all_lengths_stand_side_by_side(kind):
    texts = [" ".join("abcdefg"[i * j % 7] + "\n" * (i % 5 == j % 11) for j in range(i * i)) for i in range(24)]
    texts += ["", "\n\n", "word " * 2000]
    pairs = [(texts[i], texts[(5 * i + 3) % len(texts)]) for i in range(len(texts))]
    assert_counted(pairs, kind, "whitespace", False)
    assert overlaps([], [], kind, "whitespace", False).tolist() == [[], [], []]


@pytest.mark.parametrize("many", [10, pytest.param(80, marks=pytest.mark.slow)])
def test_lines_of_any_length_in_many_blocks(many, monkeypatch):
    generator = np.random.default_rng(1)

    def text() -> str:
        lines = [" ".join(generator.choice(list("abcdefghijkl"), generator.integers(0, 150))) for _ in range(5)]
        return "\n".join(lines[: generator.integers(1, 6)])

    pairs = [(text(), text()) for _ in range(many)]
    monkeypatch.setattr(overlap, "_TOGETHER", 2000)
    monkeypatch.setattr(overlap, "_TABLE", 5000)
    for kind in KINDS:
        scorer = RougeScorer([kind])
        found = overlaps(*zip(*pairs, strict=True), kind, "rouge_score", False).T
        for pair, (matched, own, others) in zip(pairs, found, strict=True):
            expected = scorer.score(pair[1], pair[0])[kind]
            assert (matched / own, matched / others) == pytest.approx(expected[:2], abs=1e-12), kind


@pytest.mark.parametrize("mode", MODES)
def test_a_lone_surrogate_is_a_token_like_others(mode):
    counts = overlaps(["a \ud800 b\nc"], ["\ud800 c\nb \ud801"], "rougeLsum", *mode)
    assert counts.T.tolist() == ([[3, 4, 4]] if mode[0] == "whitespace" else [[2, 3, 2]])


def test_texts_that_are_too_long_are_an_error_and_no_number():
    long = {"id": "long", "answer": "a\n" * 40_000, "reference": "a b\n" * 20_000}
    short = {"id": "short", "answer": "a b", "reference": "a b"}
    report = rm.Suite(["rougeLsum_f1", "rougeL_f1"]).evaluate([long, short], progress=False)
    assert report.table["rougeLsum_f1_status"].tolist() == ["error", "ok"]
    assert "80,000 characters and a reference of 80,000" in report.table["rougeLsum_f1_reason"][0]
    assert report.table["rougeL_f1_status"].tolist() == ["ok", "ok"]


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "rougeL" else pytest.mark.slow) for kind in KINDS]
)
def test_an_answer_of_ten_million_characters_is_scored(kind):
    answer = "".join(f"one w{i} two\n" for i in range(700_000)) + "x " * 20_000
    assert len(answer) > 10_000_000
    score = rm.score("rouge", {"answer": answer, "reference": "two one\nx x three"}, rouge_type=kind)
    assert score.details["matched"] == {"rouge1": 4, "rouge2": 2, "rougeL": 4, "rougeLsum": 3}[kind]


def test_numbers_that_do_not_fit_beside_their_places_are_ranked_all_the_same():
    keys = np.array([1 << 62, 5, 1 << 62, 7])
    assert overlap._slots(keys).tolist() == [2, 0, 2, 1]


def assert_counted(pairs, kind, tokenizer, stemmer):
    found = overlaps(*zip(*pairs, strict=True), kind, tokenizer, stemmer).T.tolist()
    assert found == [overlaps([own], [other], kind, tokenizer, stemmer).T.tolist()[0] for own, other in pairs]
