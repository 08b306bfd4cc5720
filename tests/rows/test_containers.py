"""The same rows give the same samples from any container."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import mlflow
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from mlflow.entities import AssessmentSource, SpanType

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Sample
from mlflow_ragmetrics.rows import read_samples
from tests.rows.containers import CONTAINERS, Rows, parquet_to_csv

# "\0" ends a text for some CSV readers, and lone surrogates are not text
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
TELLING = st.sampled_from(
    ["nan", "NaN", "None", "N/A", "null", "<NA>", "Anna.", "[1] says so", "{x}", "1925", " d1", "Да"]
)
WORDS = st.one_of(TEXTS, TELLING)
KNOWN = st.one_of(WORDS, st.none())
LISTS = st.one_of(st.none(), st.lists(WORDS, max_size=3))
CHUNKS = st.one_of(st.none(), st.lists(st.fixed_dictionaries({"text": WORDS, "id": WORDS}), max_size=3))
NUMBERS = st.one_of(st.none(), st.lists(st.integers(0, 99).map(float), max_size=3))
OUTPUTS = st.fixed_dictionaries({"answer": WORDS, "contexts": st.lists(WORDS, min_size=1, max_size=3)})
TURNS = st.lists(st.fixed_dictionaries({"role": st.just("user"), "content": WORDS}), min_size=1, max_size=2)
MAPPINGS = {
    "inputs": st.fixed_dictionaries({"question": WORDS}) | st.fixed_dictionaries({"messages": TURNS}),
    "outputs": OUTPUTS,
    "expectations": st.fixed_dictionaries({"expected_response": WORDS}),
    "metadata": st.fixed_dictionaries({"topic": WORDS}),
}
ONE_OR_TWO = st.lists(WORDS, min_size=1, max_size=2)
STRUCTURES = (
    ("answer", st.fixed_dictionaries({"answer": WORDS, "confidence": st.just(0.5)})),
    ("reference", st.fixed_dictionaries({"text": ONE_OR_TWO, "answer_start": st.just([3])})),
    ("reference", st.fixed_dictionaries({"value": WORDS, "aliases": ONE_OR_TWO})),
    ("contexts", st.fixed_dictionaries({"page_content": WORDS, "metadata": st.fixed_dictionaries({"page": NUMBERS})})),
    ("contexts", WORDS.map(lambda text: {"title": ["a"], "sentences": [[text]]})),
    ("contexts", st.lists(st.fixed_dictionaries({"payload": st.fixed_dictionaries({"text": WORDS})}), max_size=2)),
    ("gold_doc_ids", st.lists(ONE_OR_TWO, max_size=2)),
)
COLUMNS = (
    st.sampled_from(["question", "input", "user_input"]).map(lambda name: {name: KNOWN}),
    st.sampled_from(["answer", "output", "response"]).map(lambda name: {name: KNOWN}),
    st.sampled_from([KNOWN, LISTS]).map(lambda values: {"reference": values}),
    st.sampled_from(["contexts", "retrieved_contexts"]).flatmap(
        lambda name: st.sampled_from([LISTS, CHUNKS, KNOWN]).map(lambda values: {name: values})
    ),
    st.sampled_from([LISTS, NUMBERS]).map(lambda values: {"retrieved_doc_ids": values, "gold_doc_ids": values}),
    st.just(MAPPINGS),
    st.sampled_from(STRUCTURES).map(lambda structure: dict([structure])),
)


def _tables(columns: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Rows]:
    """Rows with ids, so that an empty one is not a blank line in a CSV file."""
    rows = st.lists(st.fixed_dictionaries(columns), min_size=1, max_size=4)
    return rows.map(lambda found: [{"id": f"r{number}", **row} for number, row in enumerate(found)])


def _merged(parts: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    return {name: values for part in parts for name, values in part.items()}


ROWS = st.one_of(st.tuples(*COLUMNS[:5]).map(_merged), *COLUMNS[5:]).flatmap(_tables)


def _samples(data: Any) -> list[Sample]:
    return [replace(sample, metadata={}, id="") for sample in read_samples(data)]


@settings(max_examples=15)
@given(rows=ROWS)
@pytest.mark.parametrize("container", list(CONTAINERS))
def test_the_same_rows_are_the_same_samples(
    container: str, rows: Rows, tmp_path_factory: pytest.TempPathFactory
) -> None:
    expected = _samples(rows)
    assert _samples(CONTAINERS[container](rows, tmp_path_factory.mktemp("rows"))) == expected


@pytest.mark.parametrize("container", list(CONTAINERS))
def test_only_text_tables_cannot_hold_a_blank_answer(container: str, tmp_path: Path) -> None:
    rows = [{"id": "1", "answer": "Anna."}, {"id": "2", "answer": ""}]
    answers = [sample.answer for sample in read_samples(CONTAINERS[container](rows, tmp_path))]
    assert answers == ["Anna.", None if container.endswith(("csv", "tsv")) else ""]


STORED = {
    "question": WORDS,
    "answer": KNOWN,
    "reference": st.one_of(KNOWN, st.lists(TEXTS, min_size=2, max_size=3)),
    "contexts": LISTS,  # a run keeps ids of passages as retrieved_doc_ids only
    "retrieved_doc_ids": LISTS,
    "gold_doc_ids": LISTS,
}


@settings(max_examples=6, phases=[Phase.generate])  # each shrinking step would write a run
@given(rows=_tables(STORED))
def test_a_run_has_the_samples_that_it_was_made_from(rows: Rows) -> None:
    rows[0] |= {"question": "Who?", "answer": "Anna."}  # else nothing can be scored
    run = rm.evaluate(rows, ["lexical_relevance"]).log(traces=False, dataset=False)
    assert _samples(f"runs:/{run}") == _samples(rows)


def test_mappings_in_numpy_s_print_are_read(tmp_path: Path) -> None:
    rows = [{"inputs": {"question": "Who?"}, "outputs": {"answer": "Anna.", "contexts": ["Anna did.", "Bea did."]}}]
    assert "array([" in parquet_to_csv(rows, tmp_path).read_text()
    assert _samples(parquet_to_csv(rows, tmp_path)) == _samples(rows)


@settings(max_examples=5)
@given(question=WORDS, answer=WORDS, contexts=st.lists(WORDS, min_size=1, max_size=3), reference=WORDS)
def test_a_trace_is_the_sample_of_its_row(question: str, answer: str, contexts: list[str], reference: str) -> None:
    random.seed(uuid4().int)  # hypothesis repeats the random numbers for MLflow's trace ids
    with mlflow.start_span("chain", span_type=SpanType.CHAIN) as root:
        root.set_inputs({"question": question})
        with mlflow.start_span("search", span_type=SpanType.RETRIEVER) as search:
            search.set_outputs([{"page_content": text} for text in contexts])
        root.set_outputs({"answer": answer})
    mlflow.flush_trace_async_logging()
    source = AssessmentSource(source_type="HUMAN", source_id="test")
    mlflow.log_expectation(trace_id=root.trace_id, name="expected_response", value=reference, source=source)
    row = {"question": question, "answer": answer, "contexts": contexts, "reference": reference}
    assert _samples([mlflow.get_trace(root.trace_id, flush=True)]) == _samples([row])
