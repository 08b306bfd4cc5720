"""Ranking measures equal trec_eval and hand-computed figures."""

from __future__ import annotations

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError, MissingFieldError
from mlflow_ragmetrics.registry import metric_of

DOCUMENTS = st.lists(st.integers(0, 15).map(str), unique=True, min_size=1, max_size=14)
RELEVANT = st.lists(st.integers(0, 15).map(str), unique=True, min_size=1, max_size=12)
CUTS = (1, 3, 5, 10)
TREC_EVAL = {
    **{f"precision_{k}": f"P_{k}" for k in CUTS},
    **{f"recall_{k}": f"recall_{k}" for k in CUTS},
    **{f"hit_rate_{k}": f"success_{k}" for k in CUTS},
    "mrr": "recip_rank",
    "map": "map",
}


def record(retrieved: list[str], gold: list[str]) -> dict[str, list[str]]:
    return {"retrieved_doc_ids": retrieved, "gold_doc_ids": gold}


@settings(max_examples=50, deadline=None)
@given(DOCUMENTS, RELEVANT)
def test_all_equal_trec_eval(retrieved: list[str], gold: list[str]) -> None:
    run = {document: float(-rank) for rank, document in enumerate(retrieved)}
    cuts = ",".join(map(str, CUTS))
    measures = {f"P.{cuts}", f"recall.{cuts}", f"success.{cuts}", "recip_rank", "map"}
    expected = pytrec_eval.RelevanceEvaluator({"q": dict.fromkeys(gold, 1)}, measures).evaluate({"q": run})["q"]
    for key, measure in TREC_EVAL.items():
        assert rm.score(key, record(retrieved, gold)).value == pytest.approx(expected[measure], abs=1e-9), key


# ranks of the relevant documents in the ranking: 2 and 4; "d" is not retrieved
RANKING = record(["x", "a::chunk-1", "a::chunk-7", "y", "b", "z"], ["a", "b", "d"])


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("precision_1", 0.0, "0 of the first 1 rank contain a relevant document (5 retrieved)."),
        ("precision_3", 1 / 3, "1 of the first 3 ranks contains a relevant document (5 retrieved)."),
        ("precision_10", 2 / 10, "2 of the first 10 ranks contain a relevant document (5 retrieved)."),
        ("recall_3", 1 / 3, "1 of 3 relevant documents is among the first 3."),
        ("recall_4", 2 / 3, "2 of 3 relevant documents are among the first 4."),
        ("hit_rate_1", 0.0, "No relevant document is among the first 1."),
        ("hit_rate_2", 1.0, "The first relevant document is at rank 2, so it is among the first 2."),
        ("mrr", 1 / 2, "The first relevant document is at rank 2."),
        ("map", (1 / 2 + 2 / 4) / 3, "Average precision 0.333: 2 of 3 relevant documents are among 5 ranked."),
    ],
)
def test_by_hand(key: str, value: float, reason: str) -> None:
    score = rm.score(key, RANKING)
    assert (score.value, score.reason) == (pytest.approx(value), reason)
    assert score.details == {"retrieved_docs_count": 5, "gold_docs_count": 3, "correct_docs_count": 2}
    assert [item.text for item in score.items] == ["x", "a", "y", "b", "z", "d"]


@pytest.mark.parametrize("key", ["precision_5", "recall_5", "hit_rate_5", "mrr", "map"])
def test_nothing_retrieved_and_nothing_relevant(key: str) -> None:
    assert rm.score(key, record([], ["a"])).value == 0.0
    assert rm.score(key, record(["x"], ["a"])).value == 0.0
    assert rm.score(key, record(["a"], [])).value == 0.0
    assert rm.score(key, record(["a"], []), zero_division=1.0).value == 1.0
    assert rm.score(key, record(["a"], []), zero_division="skip").status == "skipped"
    assert rm.score(key, record(["s3://b/a.pdf#2"], ["a.pdf"]), id_pattern=r"[^/#]+(?=#)").value > 0
    with pytest.raises(MissingFieldError):
        rm.score(key, {"gold_doc_ids": ["a"]})


@pytest.mark.parametrize("name", ["precision_k", "recall_k", "hit_rate_k"])
def test_the_key_holds_k(name: str) -> None:
    stem = name.removesuffix("_k")
    assert metric_of(name).key == f"{stem}_10"
    assert metric_of(f"{name}(k=3)").key == f"{stem}_3"
    with pytest.raises(InvalidOptionError) as caught:
        rm.score(name, RANKING, k=0)
    assert caught.value.param == "k"


def test_figures_of_a_run() -> None:
    rows = [{"id": "1", **record(["x", "a"], ["a"])}, {"id": "2", **record(["b"], ["b"])}]
    metrics = rm.Suite(["mrr", "map", "precision_2", "hit_rate_1"]).evaluate(rows, progress=False).metrics
    assert (metrics["mrr/mean"], metrics["map/mean"]) == (0.75, 0.75)
    assert (metrics["precision_2/mean"], metrics["hit_rate_1/mean"]) == (0.5, 0.5)
