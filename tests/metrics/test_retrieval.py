"""Retrieval metrics equal trec_eval and set arithmetic on documents."""

from __future__ import annotations

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, precision_score, recall_score

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError, MissingFieldError
from mlflow_ragmetrics.metrics.retrieval import ndcg

DOCUMENTS = st.lists(st.integers(0, 15).map(str), unique=True, max_size=14)
RELEVANT = st.lists(st.integers(0, 15).map(str), unique=True, min_size=1, max_size=12)
CUTS = (1, 3, 5, 10)


def record(retrieved: list[str], gold: list[str]) -> dict[str, list[str]]:
    return {"retrieved_doc_ids": retrieved, "gold_doc_ids": gold}


@settings(max_examples=75, deadline=None)
@given(DOCUMENTS.filter(bool), RELEVANT)
def test_ndcg_equals_trec_eval(retrieved: list[str], gold: list[str]) -> None:
    run = {document: float(-rank) for rank, document in enumerate(retrieved)}
    cuts = ",".join(map(str, CUTS))
    evaluator = pytrec_eval.RelevanceEvaluator({"q": dict.fromkeys(gold, 1)}, {f"ndcg_cut.{cuts}"})
    expected = evaluator.evaluate({"q": run})["q"]
    for k in CUTS:
        found = rm.score("ndcg", record(retrieved, gold), k=k).value
        assert found == pytest.approx(expected[f"ndcg_cut_{k}"], abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(DOCUMENTS.filter(bool), RELEVANT)
def test_sets_equal_scikit_learn(retrieved: list[str], gold: list[str]) -> None:
    everything = sorted({*retrieved, *gold})
    truth = [document in gold for document in everything]
    guess = [document in retrieved for document in everything]
    expected = {"recall": recall_score, "precision": precision_score, "f1": f1_score}
    for name, function in expected.items():
        found = rm.score(f"context_{name}", record(retrieved, gold)).value
        assert found == pytest.approx(function(truth, guess, zero_division=0.0))


@settings(max_examples=50, deadline=None)
@given(DOCUMENTS, RELEVANT, st.randoms())
def test_order_matters_to_ndcg_alone(retrieved: list[str], gold: list[str], random: object) -> None:
    shuffled = list(retrieved)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for name in ("context_recall", "context_precision", "context_f1"):
        assert rm.score(name, record(retrieved, gold)).value == rm.score(name, record(shuffled, gold)).value
    relevant_first = sorted(retrieved, key=lambda document: document not in gold)
    best = rm.score("ndcg", record(relevant_first, gold)).value
    assert best >= rm.score("ndcg", record(shuffled, gold)).value - 1e-12


def test_repeats_keep_their_first_rank() -> None:
    repeated = record(["x", "a::chunk-1", "a::chunk-2", "b"], ["a", "b"])
    assert rm.score("ndcg", repeated).value == rm.score("ndcg", record(["x", "a", "b"], ["a", "b"])).value
    assert rm.score("context_precision", repeated).details["retrieved_docs_count"] == 3


def test_items_are_the_ranking_and_what_was_missed() -> None:
    score = rm.score("context_recall", record(["x", "a"], ["a", "b"]))
    found = [(item.kind, item.text, item.verdict, item.reason) for item in score.items]
    assert found == [
        ("document", "x", "NOT_FOUND", "Not relevant, at rank 1."),
        ("document", "a", "FOUND", "Relevant, at rank 2."),
        ("document", "b", "NOT_FOUND", "Relevant, but not retrieved."),
    ]


@pytest.mark.parametrize("name", ["context_recall", "context_precision", "context_f1", "ndcg_10"])
def test_no_relevant_documents(name: str) -> None:
    empty = record(["a"], [])
    assert rm.score(name, empty).value == 0.0
    assert rm.score(name, empty, zero_division=1.0).value == 1.0
    assert rm.score(name, empty, zero_division=0.0).value == rm.score(name, empty).value == 0.0
    skipped = rm.score(name, empty, zero_division="skip")
    assert (skipped.status, skipped.value) == ("skipped", None)
    assert rm.score(name, record([], ["a"]), zero_division=1.0).value == 0.0
    with pytest.raises(MissingFieldError) as caught:
        rm.score(name, {"retrieved_doc_ids": ["a"]})
    assert caught.value.field == "gold_doc_ids"


def test_id_pattern_replaces_the_rules() -> None:
    sample = record(["s3://bucket/a.pdf#p1", "other"], ["a.pdf", "other"])
    assert rm.score("context_recall", sample).value == 0.5
    assert rm.score("context_recall", sample, id_pattern=r"([^/#]+)(?:#|$)").value == 1.0
    assert rm.score("context_recall", sample, id_pattern="").value == 0.5
    with pytest.raises(InvalidOptionError, match=r"not a regular expression: missing \), unterminated subpattern"):
        ndcg(id_pattern="(")


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"k": 0}, "k"),
        ({"k": 2.5}, "k"),
        ({"k": "5"}, "k"),
        ({"k": True}, "k"),
        ({"zero_division": 0.5}, "zero_division"),
        ({"zero_division": "nan"}, "zero_division"),
        ({"id_pattern": "("}, "id_pattern"),
    ],
)
def test_options_that_are_refused(options: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        ndcg(**options)
    assert caught.value.param == param


def test_keys() -> None:
    assert ndcg.key == "ndcg_10"
    assert ndcg(k=3).key == "ndcg_3"
    assert rm.score("ndcg_1", record(["x", "a"], ["a"])).value == 0.0
