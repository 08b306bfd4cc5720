"""Reads columns in the form in which Spark sends them, without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError, MissingFieldError
from mlflow_ragmetrics.rows.record import to_sample
from mlflow_ragmetrics.spark import Recipe, columns_read, records_of, score_batches

MAP = pa.map_(pa.string(), pa.string())
DOCUMENT = pa.struct({"page_content": pa.string(), "metadata": MAP})


def test_documents_of_langchain_keep_the_ids_in_their_metadata() -> None:
    documents = [[{"page_content": "Paris.", "metadata": [("doc_uri", "u1")]}], None]
    batch = pa.RecordBatch.from_pydict({"documents": pa.array(documents, pa.list_(DOCUMENT))})
    records = records_of(batch, ["documents"])
    assert records[0]["documents"] == [{"page_content": "Paris.", "metadata": {"doc_uri": "u1"}}]
    assert to_sample(records[0]).retrieved_doc_ids == ("u1",)
    assert to_sample(records[1]).contexts is None


def test_maps_of_lists_of_maps_become_mappings() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"inputs": pa.array([[("a", [[("b", "c")]])]], pa.map_(pa.string(), pa.list_(MAP)))}
    )
    assert records_of(batch, ["inputs"]) == [{"inputs": {"a": [{"b": "c"}]}}]


def test_a_value_that_python_cannot_read_fails_its_row_alone() -> None:
    answers = pa.array([b"fine", b"\xff\xfe", None], pa.binary()).view(pa.string())
    beyond = pa.array([0, 316_516_204_800_000_000, None], pa.timestamp("us"))
    rows = [
        to_sample(record)
        for record in records_of(pa.RecordBatch.from_pydict({"answer": answers, "context": beyond}), ["answer"])
    ]
    assert [row.answer for row in rows] == ["fine", None, None]
    assert "UnicodeDecodeError" in rows[1].invalid["answer"]
    assert not rows[2].invalid
    assert isinstance(
        records_of(pa.RecordBatch.from_pydict({"metadata": beyond}), ["metadata"])[1]["metadata"], OverflowError
    )


def test_rows_without_any_column_of_interest_are_rows() -> None:
    assert records_of(pa.RecordBatch.from_pydict({"other": [1, 2]}), []) == [{}, {}]


def test_only_what_metrics_may_look_at_is_read() -> None:
    names = ["qid", "query", "said", "reference", "when", "metadata"]
    read = columns_read(rm.Suite(["rouge"]), names, {"answer": "said"})
    assert read == ("qid", "query", "said", "reference", "metadata")

    @rm.metric
    def dated(metadata: dict[str, object]) -> float:
        """Uses a column that is not a field."""
        return float("when" in metadata)

    assert columns_read(rm.Suite([dated]), names, None) == tuple(names)


@pytest.mark.parametrize("names", [["answer", "ground_truth"], ["answer", "expectations"], ["outputs", "target"]])
def test_a_field_may_have_any_of_its_names_or_lie_in_a_holder(names: list[str]) -> None:
    assert columns_read(rm.Suite(["rouge"]), names, None) == tuple(names)


def test_a_field_that_no_column_holds_is_refused_before_anything_runs() -> None:
    with pytest.raises(MissingFieldError, match="needs the field 'reference'"):
        columns_read(rm.Suite(["rouge"]), ["answer", "gold"], None)
    with pytest.raises(MissingFieldError, match=r"field 'contexts' .* \(unused columns: blurbs\)"):
        columns_read(rm.Suite(["faithfulness"]), ["answer", "blurbs"], None)
    columns_read(rm.Suite(["faithfulness"]), ["answer", "blurbs"], {"contexts": "blurbs"})
    columns_read(rm.Suite(["faithfulness(no_context='floor')"]), ["answer"], None)
    columns_read(rm.Suite.preset("white_paper"), ["answer", "question"], None)
    columns_read(rm.Suite.preset("lexical"), ["answer", "question"], None)
    columns_read(rm.Suite(["context_recall"]), ["contexts", "gold_doc_ids"], None)


def test_names_given_twice_or_mapped_to_nothing_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="two columns 'answer'"):
        columns_read(rm.Suite(["coherence"]), ["answer", "answer"], None)
    with pytest.raises(InvalidOptionError, match="said"):
        columns_read(rm.Suite(["coherence"]), ["answer"], {"answer": "said"})


def test_columns_that_count_by_their_values_are_read_too() -> None:
    names = ["answer", "docs", "chat_history", "other"]
    assert columns_read(rm.Suite(["faithfulness"]), names, None) == ("answer", "docs", "chat_history")


def test_unknown_contexts_are_skipped_and_empty_ones_are_not() -> None:
    contexts = pa.array([None, [], [" "]], pa.list_(pa.string()))
    batch = pa.RecordBatch.from_pydict({"answer": ["It is red."] * 3, "contexts": contexts})
    (found,) = score_batches(
        [batch], recipe=Recipe(["faithfulness"], {}), columns=None, read=["answer", "contexts"], adds_id=False
    )
    assert found.column("faithfulness").to_pylist() == [None, 1.0, 1.0]
    assert found.column("faithfulness_no_context").to_pylist() == [False, True, True]
