"""A suite's metrics: keys, weights and thresholds."""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.selection import PRESETS, select


def test_equal_keys_are_refused_naming_both() -> None:
    with pytest.raises(rm.InvalidOptionError, match=r"rouge and rouge\(stemmer=True.*rouge1_f1"):
        select(["rouge", "rouge(stemmer=True, tokenizer='rouge_score')"])
    keys = [metric.key for metric in select(["rouge", "rouge(stemmer=True, key='stemmed')"]).metrics]
    assert keys == ["rouge1_f1", "stemmed"]


def test_a_composite_brings_its_components() -> None:
    chosen = select(["rag_score"])
    assert [metric.key for metric in chosen.metrics] == [
        "correctness",
        "faithfulness",
        "chunk_precision",
        "fact_recall",
        "answer_relevance",
    ]
    assert chosen.composites[0].scaled


def test_weights_without_a_composite_make_one() -> None:
    chosen = select(["faithfulness", "rouge"], weights={"faithfulness": 3, "rouge1_f1": 1})
    assert chosen.composites[0].key == "composite"
    assert chosen.describe()["weights"] == {"composite": {"faithfulness": 3.0, "rouge1_f1": 1.0}}


@pytest.mark.parametrize("weights", [{"faithfulness": -1}, {"faithfulness": 0}, {"faithfulness": "2"}, {"nothing": 1}])
def test_bad_weights(weights: dict[str, object]) -> None:
    with pytest.raises(rm.RagMetricsError, match=r"nothing|weight"):
        select(["faithfulness"], weights=weights)  # type: ignore[arg-type]


def test_thresholds_by_preset_and_by_key() -> None:
    chosen = select(PRESETS["lexical"], thresholds="conservative")
    assert {m.key: m.threshold for m in chosen.metrics} == {
        "rouge1_f1": None,
        "lexical_groundedness": 0.85,
        "lexical_factuality": 0.90,
        "lexical_relevance": 0.75,
        "coherence": 0.85,
        "content_safety": 0.95,
    }
    mixed = select(["coherence(threshold=0.2)", "content_safety"], thresholds="lenient")
    assert [m.threshold for m in mixed.metrics] == [0.2, 0.80]
    assert select(["rouge"], thresholds={"rouge1_f1": 0.3}).metrics[0].threshold == 0.3
    with pytest.raises(rm.InvalidOptionError, match="strict"):
        select(["rouge"], thresholds="strict")
    with pytest.raises(rm.InvalidOptionError, match="rouge2_f1"):
        select(["rouge"], thresholds={"rouge2_f1": 0.3})
    with pytest.raises(rm.InvalidOptionError) as caught:
        select(["rouge"], thresholds={"rouge1_f1": 1.3})
    assert caught.value.param == "threshold"


def test_an_empty_suite_is_refused() -> None:
    with pytest.raises(rm.InvalidOptionError, match="no metric"):
        select([])


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_resolve(name: str) -> None:
    chosen = select(PRESETS[name])
    assert len({m.key for m in chosen.metrics}) == len(chosen.metrics) > 2
