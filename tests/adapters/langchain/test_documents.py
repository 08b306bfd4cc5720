"""Documents are found where chains give them back, in rank order and once each."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from mlflow_ragmetrics.adapters.langchain.recorder import Exchange, documents_in
from mlflow_ragmetrics.adapters.langchain.sample import chunks_in, distinct
from mlflow_ragmetrics.core.sample import Chunk

ONE, TWO = Document(page_content="one", id="1"), Document(page_content="two", id="2")


def exchange(outputs: Any, retrieved: list[list[Document]] | None = None, returned: Any = ()) -> Exchange:
    retrievals = {UUID(int=number): found for number, found in enumerate(retrieved or [])}
    return Exchange(UUID(int=99), "why", {}, outputs=outputs, retrievals=retrievals, returned=list(returned))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([ONE, TWO], [ONE, TWO]),
        ({"context": [ONE], "answer": "x"}, [ONE]),
        ({"near": [ONE], "far": [TWO]}, [ONE, TWO]),
        ({"context": {"a": [ONE], "b": [TWO]}}, [ONE, TWO]),
        ({"context": []}, []),
        (["one"], []),
        ("one", []),
        (None, []),
        ([ONE, "two"], []),
    ],
)
def test_documents_in(value: Any, expected: list[Document]) -> None:
    assert list(documents_in(value)) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (exchange({"source_documents": [TWO]}, [[ONE, TWO]]), ["2"]),
        (exchange("x", [[ONE], [TWO, ONE]]), ["1", "2"]),
        (exchange("x", [[]], [ONE]), []),
        (exchange("x", None, [TWO, ONE, TWO]), ["2", "1"]),
        (exchange({"contexts": ["text"]}), [None]),
        (exchange({"answer": "x"}), None),
        (exchange("x"), None),
    ],
)
def test_chunks_in(given: Exchange, expected: list[str | None] | None) -> None:
    chunks = chunks_in(given)
    assert (None if chunks is None else [chunk.id for chunk in chunks]) == expected


@given(st.lists(st.builds(Chunk, st.sampled_from("abc"), st.sampled_from([None, "1", "2"]))))
def test_distinct_keeps_first_ranks(chunks: list[Chunk]) -> None:
    kept = distinct(chunks)
    keys = [(chunk.id, chunk.text) for chunk in chunks]
    assert [(chunk.id, chunk.text) for chunk in kept] == list(dict.fromkeys(keys))
