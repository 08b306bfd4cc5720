"""The table of very many queries holds what the metrics say of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.metrics.documents import retrieval_table

IDS = st.lists(st.sampled_from(["a", "b::chunk-1", "b::chunk-2", "doc-<urn:uuid:7>::chunk-0", "c", "d"]), max_size=8)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(IDS, IDS), max_size=5))
def test_every_query_equals_its_scores(queries: list[tuple[list[str], list[str]]]) -> None:
    table = retrieval_table([r for r, _ in queries], [g for _, g in queries], cutoffs=(1, 3, 10))
    keys = {"recall": "context_recall", "precision": "context_precision", "f1": "context_f1"}
    keys |= {name: name for name in ("ndcg_1", "ndcg_3", "ndcg_10")}
    suite = rm.Suite(list(keys.values()))
    rows = suite.stream({"retrieved_doc_ids": r, "gold_doc_ids": g} for r, g in queries)
    for place, row in enumerate(rows):
        for name, key in keys.items():
            assert table[name][place] == pytest.approx(row.scores[key].value, abs=1e-12)
        assert table["correct"][place] == row.scores["context_recall"].details["correct_docs_count"]
    assert len(table["recall"]) == len(queries)


def test_types_and_lengths() -> None:
    table = retrieval_table([["a"]], [["a"]])
    assert (table["recall"].dtype, table["gold"].dtype) == (np.float64, np.int64)
    with pytest.raises(InvalidOptionError, match="a list for each query"):
        retrieval_table([["a"], ["b"]], [["a"]])
