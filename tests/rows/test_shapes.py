"""Rows as other libraries write them: names accepted by the type of their values, and earlier turns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage

from mlflow_ragmetrics.core.score import Chunk, Message
from mlflow_ragmetrics.rows import join, read_samples
from mlflow_ragmetrics.rows.aliases import ALIASES_BY_NATURE
from mlflow_ragmetrics.rows.chat_messages import messages_of, turns_before
from mlflow_ragmetrics.rows.passages import are_texts
from mlflow_ragmetrics.rows.record import to_sample

TEXTS = ["It rained all day.", "The sun set at nine."]
HELLO = (Message("user", "Hi"), Message("assistant", "Hello"))
TURNS = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
ASKED = {"role": "user", "content": "Why?"}


@pytest.mark.parametrize("name", ALIASES_BY_NATURE["contexts"])
def test_names_of_contexts_count_where_the_values_are_texts(name: str) -> None:
    for value in (TEXTS, tuple(TEXTS), np.array(TEXTS), str(TEXTS), [{"text": text} for text in TEXTS]):
        sample = to_sample({"answer": "a", name: value})
        assert sample.texts == tuple(TEXTS)
        assert not sample.metadata
    assert to_sample({"answer": "a", name: "One text of several words."}).texts == ("One text of several words.",)
    assert to_sample({"answer": "a", name: []}).texts == ()


@pytest.mark.parametrize(
    "value",
    [
        ["https://example.org/a page".replace(" ", "-"), "https://example.org/b"],
        "https://example.org/a",
        ["doc-1", "doc-2"],
        ["chunk 1", "chunk 2"],
        ["Annual report 2024.pdf"],
        ["https://example.org/a, chapter 2: Lakes", "Lake guide p.45-52"],
        "Handbook, section 3.2",
        ["s3://bucket/key"],
        [1, 2],
        7,
        True,
        {"text": "a mapping is no list"},
        [{"id": "x"}],
        [["nested", "list"]],
        None,
    ],
    ids=repr,
)
@pytest.mark.parametrize("name", ["docs", "sources"])
def test_anything_else_under_these_names_is_metadata(name: str, value: Any) -> None:
    sample = to_sample({"answer": "a", name: value})
    assert sample.contexts is None
    assert not sample.invalid
    assert sample.metadata == {name: value}


def test_text_of_any_script_is_text() -> None:
    assert are_texts(["巴黎是法国的首都。"])
    assert are_texts(["Париж — столица Франции."])
    assert are_texts(["See https://example.org for more."])
    assert are_texts([Document("It rains."), Chunk("It is wet."), None])
    assert not are_texts(["2024-01-01 10:00"])


def test_other_names_of_contexts_beat_them() -> None:
    sample = to_sample({"contexts": ["c"], "docs": TEXTS})
    assert (sample.texts, sample.metadata) == (("c",), {"docs": TEXTS})
    sample = to_sample({"outputs": {"answer": "a", "context": "c"}, "sources": TEXTS})
    assert (sample.texts, sample.metadata) == (("c",), {"sources": TEXTS})
    assert to_sample({"contexts": None, "docs": TEXTS}).texts == tuple(TEXTS)
    assert to_sample({"mine": None, "docs": TEXTS}, {"contexts": "mine"}).texts is None
    conflict = to_sample({"docs": TEXTS, "passages": ["Other words."]})
    assert "`passages`" in conflict.invalid["contexts"]
    assert "`docs`" in conflict.invalid["contexts"]


def test_a_benchmarks_passages_are_not_what_was_retrieved() -> None:
    joined = join([{"qid": "1", "answer": "a"}], [{"qid": "1", "reference": "r", "passages": TEXTS}])
    (sample,) = read_samples(joined.rows)
    assert sample.contexts is None
    assert sample.metadata["reference_passages"] == TEXTS


def test_the_ideal_context_of_deepeval_is_not_what_was_retrieved() -> None:
    first, second = read_samples(pd.DataFrame({"context": [["ideal"]] * 2, "retrieval_context": [["found"], None]}))
    assert (first.texts, first.metadata, second.contexts) == (("found",), {"context": ["ideal"]}, None)
    assert to_sample({"context": ["c"]}).texts == ("c",)
    assert to_sample({"context": ["c"], "retrieval_context": ["d"]}, {"contexts": "context"}).texts == ("c",)
    nested = to_sample({"outputs": {"answer": "a", "context": ["ideal"], "retrieval_context": ["found"]}})
    assert nested.texts == ("found",)


def test_a_conversation_of_ragas() -> None:
    kinds = [("human", "Hi"), ("ai", "Hello"), ("human", "Why?"), ("ai", "So.")]
    messages = [HumanMessage("Hi"), AIMessage("Hello"), HumanMessage("Why?"), AIMessage("So.")]
    for turns in ([{"type": k, "content": c} for k, c in kinds], messages):
        sample = to_sample({"user_input": turns, "response": "So."})
        assert (sample.question, sample.answer, sample.history) == ("Why?", "So.", HELLO)


@pytest.mark.parametrize(
    "expected",
    [{"answer": "r"}, {"output": "r"}, {"reference": "r"}, {"messages": [{"role": "assistant", "content": "r"}]}, "r"],
    ids=repr,
)
def test_an_example_of_langsmith(expected: object) -> None:
    sample = to_sample(
        {"inputs": {"question": "q"}, "outputs": {"answer": "a", "documents": TEXTS}, "reference_outputs": expected}
    )
    assert (sample.question, sample.answer, sample.reference, sample.texts) == ("q", "a", "r", tuple(TEXTS))
    assert not sample.invalid


@pytest.mark.parametrize("name", ["history", "conversation", "chat_history"])
@pytest.mark.parametrize(
    "turns",
    [
        TURNS,
        '[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]',
        {"messages": TURNS},
        [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}, {"role": "ai", "content": "Hello"}],
        [HumanMessage("Hi"), AIMessage("Hello")],
        list(HELLO),
        [("human", "Hi"), ("ai", "Hello")],
        [["Hi", "Hello"]],
        [*TURNS, {"role": "assistant", "content": None, "tool_calls": []}],
    ],
    ids=range(9),
)
def test_history(name: str, turns: object) -> None:
    sample = to_sample({"question": "Why?", name: turns})
    assert sample.history == HELLO
    assert not sample.metadata
    assert to_sample({"inputs": {"question": "Why?", name: turns}}).history == HELLO


@pytest.mark.parametrize("name", ["history", "conversation", "chat_history"])
@pytest.mark.parametrize("value", ["c-17", 17, "Human: Hi", ["Hi"], [["a", "b", "c"]], {"id": 1}], ids=repr)
def test_what_is_not_a_list_of_messages_is_metadata(name: str, value: object) -> None:
    sample = to_sample({"question": "q", name: value})
    assert sample.history is None
    assert not sample.invalid
    assert sample.metadata == {name: value}


def test_a_mapped_history_must_be_one() -> None:
    assert to_sample({"log": TURNS}, {"history": "log"}).history == HELLO
    assert "`log`" in to_sample({"log": "Hi"}, {"history": "log"}).invalid["history"]


@pytest.mark.parametrize(
    "record",
    [
        {"inputs": {"messages": [*TURNS, ASKED]}},
        {"input": [*TURNS, ASKED]},
        {"question": "Why?", "conversation": [*TURNS, ASKED]},
        {"question": "Why?", "answer": "So.", "conversation": [*TURNS, ASKED, {"role": "ai", "content": "So."}]},
        {"request": {"messages": [*TURNS, ASKED]}, "response": "So."},
    ],
    ids=range(5),
)
def test_the_question_itself_is_not_history(record: dict[str, Any]) -> None:
    sample = to_sample(record)
    assert (sample.question, sample.history) == ("Why?", HELLO)


def test_the_first_question_has_no_history() -> None:
    assert to_sample({"inputs": {"messages": [ASKED]}}).history is None
    assert to_sample({"question": "q", "history": []}).history is None


def test_a_question_asked_before_stays() -> None:
    earlier = (Message("user", "Why?"), Message("assistant", "Pardon?"))
    assert turns_before(earlier, "Why?", "So.") == earlier
    assert turns_before((*earlier, Message("user", "Why?")), "Why?", "So.") == earlier
    assert turns_before(earlier, "Why?", "Pardon?") == ()
    assert turns_before(earlier, "Other?", None) == earlier


def test_system_messages_stay() -> None:
    found = messages_of([{"role": "system", "content": "Be brief."}, ASKED])
    assert found == (Message("system", "Be brief."), Message("user", "Why?"))


def test_numbered_columns_of_passages_are_a_list() -> None:
    passages = {"Context 2": "It is b.", "Context 1": "It is a.", "Context 10": "It is c.", "Context 3": None}
    (sample,) = read_samples([{"Question": "q", "doc_1": "a.pdf", "doc_2": "b.pdf", **passages}])
    assert sample.texts == ("It is a.", "It is b.", "It is c.")
    assert sample.metadata == {"doc_1": "a.pdf", "doc_2": "b.pdf"}
    for row in ({"answer": "a", "context_1": "It is b."}, {"context_v1": '["It is a."]', "context_v2": '["It is b."]'}):
        (sample,) = read_samples([row])
        assert sample.contexts is None


def test_a_row_below_one_name_and_a_trace_with_json_texts_are_read() -> None:
    (sample,) = read_samples([{"row_idx": 0, "row": {"question": "q", "answer": "a"}, "truncated_cells": []}])
    assert (sample.question, sample.answer, sample.metadata) == ("q", "a", {"row_idx": 0, "truncated_cells": []})
    (sample,) = read_samples([{"trace_id": "t", "request": '{"question": "q"}', "response": '"a"'}])
    assert (sample.question, sample.answer) == ("q", "a")


def test_the_messages_of_an_openai_eval_may_be_json() -> None:
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Ho"},
        {"role": "user", "content": "q"},
    ]
    for value in (messages, json.dumps(messages)):
        (sample,) = read_samples([{"input": value, "ideal": "a"}])
        assert (sample.question, sample.references) == ("q", ("a",))
        assert sample.history is not None
        assert [message.content for message in sample.history] == ["Hi", "Ho"]


def test_spans_whose_parents_form_a_circle_are_read() -> None:
    spans = [
        {"context.trace_id": "t", "context.span_id": span, "parent_id": parent, "span_kind": kind}
        | {"attributes": {"input.value": "q", "output.value": "a", "retrieval.documents.0.document.content": "It is."}}
        for span, parent, kind in (("1", None, "CHAIN"), ("2", "3", "RETRIEVER"), ("3", "2", "CHAIN"))
    ]
    (sample,) = read_samples(spans)
    assert (sample.question, sample.answer, sample.texts) == ("q", "a", ("It is.",))


def test_runs_without_children_may_have_nan_there() -> None:
    run = {"id": "r", "run_type": "chain", "inputs": {"question": "q"}, "outputs": {"output": "a"}}
    (sample,) = read_samples([{**run, "child_runs": float("nan")}])
    assert (sample.question, sample.answer) == ("q", "a")


def test_metadata_may_hold_metadata() -> None:
    (sample,) = read_samples([{"question": "q", "metadata": {"metadata": {"a": 1}, "b": 2}}])
    assert sample.metadata == {"metadata": {"a": 1}, "b": 2}


def test_a_row_may_be_a_dataclass_with_a_method_update() -> None:
    @dataclass
    class Row:
        question: str

        def update(self) -> None: ...

    (sample,) = read_samples([Row("q")])
    assert sample.question == "q"


def test_records_by_id_are_rows(tmp_path: Path) -> None:
    file = tmp_path / "answers.json"
    file.write_text('{"dev": {"q1": {"question": "q", "answer": "a"}, "q2": {"answer": "b"}}}', encoding="utf-8")
    assert [(sample.id, sample.answer) for sample in read_samples(file)] == [("q1", "a"), ("q2", "b")]
