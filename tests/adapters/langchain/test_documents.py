"""Documents in a chain's outputs are found in rank order, once each, as far as the model saw them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, LLMResult

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.adapters.langchain.exchange import (
    Exchange,
    Step,
    _count,
    _is_made_of,
    _likeness,
    _stands_in,
    _uncovered,
    document_lists,
    found_in,
    leading_calls,
    readings,
    seen_in,
)
from mlflow_ragmetrics.core.score import Chunk
from mlflow_ragmetrics.rows.passages import distinct

ONE, TWO = Document(page_content="one", id="1"), Document(page_content="two", id="2")
LONG = "The lighthouse was built in 1869. Its keeper walks down to the harbour. Ferries leave at nine."
EDITED = "The office opened in 1990. John Smith, the first keeper, lives at 5 Main Street in the old town."


def step(kind: Any, value: Any, number: int = 0, reply: str | None = None) -> Step:
    told = None if reply is None else LLMResult(generations=[[ChatGeneration(message=AIMessage(reply))]])
    return Step(kind, UUID(int=number), value, reply=told)


def exchange(outputs: Any, retrieved: list[list[Document]] | None = None, returned: Any = None) -> Exchange:
    steps = [step("retriever", tuple(found), number) for number, found in enumerate(retrieved or [])]
    steps += [] if returned is None else [step("output", returned, 50)]
    return Exchange(UUID(int=99), "why", {}, outputs=outputs, steps=steps)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([ONE, TWO], [[ONE, TWO]]),
        ({"context": [ONE], "answer": "x"}, [[ONE]]),
        ({"near": [ONE], "far": [TWO]}, [[ONE], [TWO]]),
        ({"context": {"a": [ONE], "b": [TWO]}}, [[ONE], [TWO]]),
        ({"context": []}, [[]]),
        ({"messages": []}, []),
        ([(ONE, 0.5), (TWO, 0.25)], [[ONE, TWO]]),
        ([[ONE], [TWO]], [[ONE], [TWO]]),
        (ONE, [[ONE]]),
        (["one"], []),
        ("one", []),
        (None, []),
        ([ONE, "two"], []),
    ],
)
def test_document_lists(value: Any, expected: list[list[Document]]) -> None:
    assert list(document_lists(value)) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (exchange({"source_documents": [TWO]}, [[ONE, TWO]]), ["2"]),
        (exchange("x", [[ONE], [TWO, ONE]]), ["1", "2"]),
        (exchange("x", [[]]), []),
        (exchange("x", None, [TWO, ONE, TWO]), ["2", "1"]),
        (exchange({"documents": [ONE, TWO], "reranked": [TWO]}, [[ONE, TWO]]), ["2"]),
        (exchange({"contexts": ["some text"]}), [None]),
        (exchange({"answer": "x"}), None),
        (exchange("x"), None),
    ],
)
def test_without_a_model_all_that_was_handed_on_counts(call: Exchange, expected: list[str | None] | None) -> None:
    chunks = found_in(call, "x").contexts
    assert (None if chunks is None else [chunk.id for chunk in chunks]) == expected


@pytest.mark.parametrize(("artifact", "expected"), [([ONE], ["1"]), (None, None)])
def test_the_result_of_a_tool_that_gives_the_answer_is_no_passage_for_it(artifact: Any, expected: Any) -> None:
    """Nor did the model that chose the tool's arguments give the answer."""
    answer = "The lighthouse was built in 1869."
    closing = ToolMessage(answer, tool_call_id="1", artifact=artifact)
    call = exchange({"messages": [HumanMessage("why"), closing]})
    call.steps += [step("model", ["why"], 1, "When was the lighthouse built?"), step("tool", closing, 2)]
    chunks = found_in(call, answer).contexts
    assert (None if chunks is None else [chunk.id for chunk in chunks]) == expected


def test_what_was_in_the_state_counts_only_where_the_model_saw_it() -> None:
    old, new = Document(page_content="An old passage.", id="old"), Document(page_content="A new passage.", id="new")
    begun = [step("input", {"documents": [old]}, 1), step("retriever", (new,), 2)]
    call = Exchange(UUID(int=99), "why", {}, outputs={"answer": "so", "documents": [old, new]}, steps=begun)
    assert [chunk.id for chunk in found_in(call, "so").contexts or ()] == ["new"]
    call.steps.append(step("model", ["An old passage. A new passage."], 3, "so"))
    found = found_in(call, "so")
    assert [chunk.id for chunk in found.contexts or ()] == ["new", "old"]
    assert [chunk.id for chunk in found.retrieved or ()] == ["new"]


def test_a_document_that_is_retrieved_again_is_retrieved() -> None:
    begun = [step("input", {"documents": [ONE]}, 1), step("retriever", (ONE,), 2)]
    assert found_in(Exchange(UUID(int=99), "why", {}, outputs="so", steps=begun), "so").retrieved == (
        Chunk("one", "1"),
    )


@pytest.mark.parametrize(
    ("calls", "answer", "leading"),
    [
        ([("question", "so it is")], "so it is", [0]),
        ([("passage one", "A summary of the first passage."), ("A summary of the first passage.", "so")], "so", [0, 1]),
        ([("is it relevant?", "yes"), ("passage", "so it is")], "so it is", [1]),
        ([("one: 1869", "1869"), ("Answers:\n1869\nQuestion", "It was 1869.")], "It was 1869.", [0, 1]),
        ([("draft", "so it is"), ("check: so it is", "yes")], "so it is", [0]),
        ([("passage", "It was built in the year 1869")], "Built: in the year 1869!", [0]),
        ([("rewrite", "another matter altogether")], "so it is", None),
        ([], "so", None),
    ],
)
def test_the_calls_that_led_to_the_answer(calls: Any, answer: str, leading: list[int] | None) -> None:
    steps = [step("model", [HumanMessage(asked)], number, reply) for number, (asked, reply) in enumerate(calls)]
    found = leading_calls(steps, answer)
    assert (None if found is None else [steps.index(call) for call in found]) == leading


@pytest.mark.parametrize(
    ("prompt", "seen"),
    [
        (f"Answer from: {LONG} Why?", LONG),
        ('[{"text": "The lighthouse was built in 1869. Its keeper walks down to the harbour. Ferries', LONG[:79]),
        ("Ferries leave at nine. Its keeper walks down to the harbour.", "Its keeper walks down to the harbour."),
        ("Something else.", None),
    ],
)
def test_how_much_of_a_text_was_seen(prompt: str, seen: str | None) -> None:
    assert seen_in(LONG, [prompt]) == seen


@pytest.mark.parametrize("escape", [repr, lambda text: __import__("json").dumps(text), __import__("html").escape])
def test_escaped_texts_are_seen(escape: Any) -> None:
    text = 'Said "no" & left:\n\ta – "café" <b>'
    assert seen_in(text, readings(escape(text))) == text


def test_a_short_text_stands_only_as_a_word() -> None:
    assert seen_in("one", ["everyone"]) is None
    assert seen_in("one", ["no one."]) == "one"


@given(st.lists(st.builds(Chunk, st.sampled_from("abc"), st.sampled_from([None, "1", "2"]))))
def test_distinct_keeps_first_ranks(chunks: list[Chunk]) -> None:
    kept = distinct(chunks)
    keys = [(chunk.id, chunk.text) for chunk in chunks]
    assert [(chunk.id, chunk.text) for chunk in kept] == list(dict.fromkeys(keys))


@pytest.mark.parametrize(
    ("calls", "assumed"),
    [([], "no_model_call"), (["another matter altogether"], "no_call_matches"), (["so it is"], None)],
)
def test_contexts_that_nobody_saw_the_model_read_are_marked(calls: list[str], assumed: str | None) -> None:
    told = [step("model", [f"why? {LONG}"], number, reply) for number, reply in enumerate(calls, 60)]
    call = exchange("so it is", [[Document(page_content=LONG)]])
    call.steps += told
    assert [chunk.text for chunk in found_in(call, "so it is").contexts or ()] == [LONG]
    assert found_in(call, "so it is").assumed == assumed
    call.steps[:1] = []
    assert found_in(call, "so it is").assumed is None


@rm.metric
def brief(answer: str) -> bool:
    """Whether the answer has at most a hundred characters."""
    return len(answer) <= 100


@pytest.mark.parametrize(
    ("language", "said", "counted"),
    [
        ("en", "The model's input is unknown because no model call", "1 of 1 row has assumed contexts"),
        ("ru", "Что видела модель, неизвестно: ни одного", "1 из 1 строки с предполагаемыми контекстами"),
    ],
)
def test_assumed_contexts_are_said_in_the_reader_s_language(language: str, said: str, counted: str) -> None:
    suite = rm.Suite(["faithfulness", brief, "context_recall"], language=language)
    gold = [{"question": "why", "gold_doc_ids": ["1"]}]
    found = {"context": [ONE], "answer": "It is one."}
    report = rm.evaluate_chain(lambda _: found, gold, suite, progress=False, log=False)
    scores = report.rows[0].scores
    assert [text.startswith(said) for _, text in scores["faithfulness"].warnings] == [True]
    assert scores["brief"].warnings == scores["context_recall"].warnings == ()
    assert report.rows[0].sample.metadata["contexts_assumed"] == "no_model_call"
    assert report.metrics["faithfulness/n_assumed"] == 1
    assert any(line.startswith(counted) and line.endswith("faithfulness") for line in report.banner)


@pytest.mark.parametrize(
    ("prompt", "part"),
    [
        ("The office opened in 1990. [NAME], the first keeper, lives at 5 Main Street in the old town.", EDITED),
        ("The office opened in 1990. John Smith, the first keeper, lives at [PLACE] in the old town.", EDITED),
        ("The office opened in 1990. John Smith, the first keeper, lives", EDITED[:62]),
        ("[NAME] opened it.", None),
    ],
)
def test_a_sentence_that_was_edited_is_seen(prompt: str, part: str | None) -> None:
    assert seen_in(EDITED, [prompt]) == part


@pytest.mark.parametrize(("length", "matches"), [(19, False), (20, True)])
def test_a_text_of_twenty_characters_matches_within_another(length: int, matches: bool) -> None:
    text = "x" * length
    assert bool(_count(text, f"a{text}a")) is matches
    assert _stands_in(text, f"So {text} it is") is matches
    for chunk, chosen in ((text, f"a {text} b"), (f"a {text} b", text)):
        assert (_uncovered({("key",): Chunk(chunk)}, [Chunk(chosen)]) == {}) is matches


@pytest.mark.parametrize(
    ("reply", "answer", "likeness"),
    [("Red", "red", 4), ("abcd", "abcdefgh", 3), ("abc", "abcdefgh", 0), ("a tower", "wer", 0), ("a tower", "ower", 3)],
)
def test_an_answer_is_like_the_reply_it_contains_at_half_its_length(reply: str, answer: str, likeness: int) -> None:
    assert _likeness(reply, answer) == likeness


def test_a_text_is_made_of_replies_that_hold_two_thirds_of_its_words() -> None:
    made = [_is_made_of(["one two"], text) for text in ("one two three", "one two three four", "a one two b")]
    assert made == [True, False, False]
