"""Document ids, and the figures of a whole run."""

from __future__ import annotations

import re

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Sample
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.metrics.documents import document_id, gain, match_documents
from mlflow_ragmetrics.results.figures import Totals

UUID = "<urn:uuid:27c682dc-c97b-4c3e-b41c-999c65264a6d>"


@pytest.mark.parametrize(
    ("chunk", "document"),
    [
        (f"doc-{UUID}::chunk-0", UUID),
        (f"doc-{UUID}", UUID),
        (UUID, UUID),
        ("doc-42::chunk-3", "doc-42"),
        ("a::b::chunk-12", "a::b"),
        ("a::chunk-x", "a::chunk-x"),
        ("::chunk-1", "::chunk-1"),
        ("doc-7", "doc-7"),
    ],
)
def test_document_of_a_chunk(chunk: str, document: str) -> None:
    assert document_id(chunk) == document


def test_a_pattern_replaces_the_rules() -> None:
    assert document_id("a/b#3", re.compile("[^#]+")) == "a/b"
    assert document_id("a/b#3", re.compile("/(.)")) == "b"
    assert document_id("x::chunk-1", re.compile("z")) == "x::chunk-1"


def test_gain_without_relevant_documents_is_zero() -> None:
    assert gain(match_documents(["a"], []), 10) == 0.0
    assert gain(match_documents([], ["a"]), 10) == 0.0


def row(retrieved: list[str], gold: list[str] | None) -> dict[str, rm.Score]:
    record = {"retrieved_doc_ids": retrieved, "gold_doc_ids": gold}
    names = ("context_recall", "context_precision", "ndcg_3")
    return {name: rm.score(name, record, on_missing="skip") for name in names}


def retrieval_figures(rows: list[dict[str, rm.Score]]) -> dict[str, float]:
    totals = Totals()
    for scores in rows:
        totals.add(Row(Sample(), scores))
    return {name: value for name, value in totals.figures().items() if "/" not in name}


def test_figures_of_a_run() -> None:
    rows = [row(["a", "b"], ["a"]), row(["x"], ["y", "x"]), row(["x"], []), row(["x"], None)]
    figures = retrieval_figures(rows)
    assert figures == pytest.approx(
        {
            "avg_context_recall": 0.5,
            "avg_context_precision": 0.5,
            "ndcg_3": (1 + 1 / 1.6309297535714575) / 3,
            "sample_count": 3,
            "pct_records_with_at_least_one_ref": 100.0,
            "pct_records_with_all_refs": 50.0,
        }
    )


def test_rows_without_retrieval_metrics_give_no_figures() -> None:
    assert retrieval_figures([]) == {}
    assert retrieval_figures([{"rouge1_f1": rm.Score(value=0.5)}, row(["x"], None)]) == {}


def test_a_prefix_stays_in_front() -> None:
    prefixed = {f"rag_{key}": score for key, score in row(["a"], ["a"]).items()}
    assert {"rag_avg_context_recall", "rag_avg_context_precision", "rag_ndcg_3"} <= set(retrieval_figures([prefixed]))
