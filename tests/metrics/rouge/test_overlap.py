"""Matches of long lines equal those of ``rouge_score``; texts of any length are counted or refused."""

from __future__ import annotations

import numpy as np
import pytest
from rouge_score.rouge_scorer import RougeScorer

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.metrics.rouge import overlap

KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
MODES = (("whitespace", False), ("rouge_score", False), ("rouge_score", True))


@pytest.mark.parametrize("many", [10, pytest.param(80, marks=pytest.mark.slow)])
def test_lines_of_any_length(many):
    generator = np.random.default_rng(1)

    def text() -> str:
        lines = [" ".join(generator.choice(list("abcdefghijkl"), generator.integers(0, 150))) for _ in range(5)]
        return "\n".join(lines[: generator.integers(1, 6)])

    pairs = [(text(), text()) for _ in range(many)]
    for kind in KINDS:
        scorer = RougeScorer([kind])
        for answer, reference in pairs:
            matched, own, others = overlap(answer, reference, kind, "rouge_score", False)
            expected = scorer.score(reference, answer)[kind]
            assert (matched / max(1, own), matched / max(1, others)) == pytest.approx(expected[:2], abs=1e-12), kind


@pytest.mark.parametrize("mode", MODES)
def test_a_lone_surrogate_is_a_token_like_others(mode):
    counts = overlap("a \ud800 b\nc", "\ud800 c\nb \ud801", "rougeLsum", *mode)
    assert counts == ((3, 4, 4) if mode[0] == "whitespace" else (2, 3, 2))


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
