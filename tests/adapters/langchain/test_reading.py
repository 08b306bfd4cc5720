"""Questions and answers are found in the inputs and outputs of all kinds of chains."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from pydantic import BaseModel

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.adapters.langchain.exchange import Exchange
from mlflow_ragmetrics.adapters.langchain.recorder import Reading, call_with

CALL = AIMessage(content="", tool_calls=[{"name": "look_up", "args": {}, "id": "1"}])


class Structured(BaseModel):
    answer: str
    sources: list[str] = []


def read(inputs: Any, outputs: Any, metadata: Any = None, **options: Any) -> Any:
    return Reading(**options).sample(Exchange(UUID(int=7), inputs, metadata or {}, outputs=outputs))


@pytest.mark.parametrize(
    "inputs",
    [
        "why",
        {"question": "why"},
        {"input": "why", "chat_history": []},
        {"query": "why"},
        {"topic": "why"},
        {"messages": [HumanMessage("before"), AIMessage("x"), HumanMessage("why")]},
        {"messages": [{"role": "user", "content": "why"}]},
        [HumanMessage("why")],
        HumanMessage("why"),
        {"messages": [HumanMessage([{"type": "text", "text": "why"}])]},
    ],
    ids=lambda value: type(value).__name__,
)
def test_questions(inputs: Any) -> None:
    assert read(inputs, "so").question == "why"


def test_a_function_reads_no_outputs_of_an_interrupted_call() -> None:
    exchange = Exchange(UUID(int=7), "why", {}, outputs={}, left=True)
    assert Reading(answer=lambda outputs: outputs["answer"]).sample(exchange).answer is None


def test_the_question_may_be_among_the_outputs_only() -> None:
    """A graph that resumes after an interrupt, or whose messages were given as tuples."""
    messages = [HumanMessage("why"), AIMessage("so")]
    assert read({"messages": [("user", "why")]}, {"messages": messages}).question == "why"


@pytest.mark.parametrize(
    "outputs",
    [
        "so",
        AIMessage("so"),
        AIMessageChunk("so"),
        {"answer": "so", "context": []},
        {"result": "so"},
        {"output": "so"},
        {"messages": [HumanMessage("why"), CALL, ToolMessage("found", tool_call_id="1"), AIMessage("so")]},
        {"messages": [{"role": "user", "content": "why"}, {"role": "assistant", "content": "so"}]},
        Structured(answer="so"),
        {"answer": AIMessage("so")},
        ("so", ["a passage"]),
        ["so", [[], ["a passage"]]],
        {"messages": [HumanMessage("why"), CALL, ToolMessage("so", tool_call_id="1")]},
    ],
    ids=lambda value: type(value).__name__,
)
def test_answers(outputs: Any) -> None:
    assert read("why", outputs).answer == "so"


@pytest.mark.parametrize(
    "outputs",
    [
        {"messages": [AIMessage("old"), HumanMessage("why"), CALL]},
        {"a": "x", "b": "y"},
        True,
        object(),
        [],
        ("so", "so"),
        {"messages": [HumanMessage("why"), CALL, ToolMessage("failed", tool_call_id="1", status="error")]},
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_answer(outputs: Any) -> None:
    assert read("why", outputs).answer is None


def test_blank_answers_are_answers() -> None:
    assert read("why", "").answer == ""
    assert read("why", {"answer": ""}).answer == ""


def test_metadata_keeps_the_application_s_own_and_leads_back() -> None:
    sample = read("why", "so", {"tenant": "t", "qid": "q1", "ls_provider": "x", "langgraph_step": 1, "response": "r"})
    assert sample.id == "q1"
    assert {name: sample.metadata.get(name) for name in ("tenant", "chain_run")} == {
        "tenant": "t",
        "chain_run": str(UUID(int=7)),
    }
    assert not {"ls_provider", "langgraph_step", "response"} & set(sample.metadata)
    assert read("why", "so").id == str(UUID(int=7))


def test_call_with_gives_what_is_asked_for() -> None:
    assert call_with({"why": "so"}.get, "why", "id") == "so"
    assert call_with(lambda one, two: one + two, "a", "b") == "ab"
    assert call_with(lambda one, two="x": one + two, "a", "b") == "ax"
    assert call_with(len, "abc", "b") == 3


HISTORY = (rm.Message("user", "before"), rm.Message("assistant", "x"))


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ({"messages": [HumanMessage("before"), AIMessage("x"), HumanMessage("why")]}, "so"),
        ({"input": "why", "chat_history": [HumanMessage("before"), AIMessage("x")]}, {"answer": "so"}),
        ({"input": "why", "chat_history": [("human", "before"), ("ai", "x")]}, {"answer": "so"}),
        ([HumanMessage("before"), AIMessage("x"), HumanMessage("why")], AIMessage("so")),
        (
            {"messages": [HumanMessage("why")]},
            {"messages": [HumanMessage("before"), AIMessage("x"), HumanMessage("why"), AIMessage("so")]},
        ),
    ],
)
def test_the_turns_before_the_question_are_the_history(inputs: Any, outputs: Any) -> None:
    sample = read(inputs, outputs)
    assert (sample.question, sample.answer, sample.history) == ("why", "so", HISTORY)


def test_a_single_turn_has_no_history() -> None:
    assert (
        read({"messages": [HumanMessage("why")]}, {"messages": [HumanMessage("why"), AIMessage("so")]}).history is None
    )
    assert read("why", "so").history is None


class Cited(BaseModel):
    source_id: int
    quote: str


class CitedAnswer(BaseModel):
    answer: str
    citations: list[Any]


@pytest.mark.parametrize(
    "outputs",
    [
        {"answer": "so", "citations": [1, 2]},
        {"question": "why", "answer": CitedAnswer(answer="so", citations=[1, 2])},
        {
            "messages": [HumanMessage("why"), AIMessage("so")],
            "structured_response": CitedAnswer(answer="so", citations=[1, 2]),
        },
        {"raw": AIMessage(""), "parsed": {"answer": "so", "citations": [1, 2]}, "parsing_error": None},
        CitedAnswer(answer="so", citations=[1, 2]),
        AIMessage('{"answer": "so", "citations": [1, 2]}'),
        '{"answer": "so", "citations": [1, 2]}',
    ],
    ids=lambda value: type(value).__name__,
)
def test_citations_beside_the_answer_reach_the_metrics(outputs: Any) -> None:
    found = read("why", outputs)
    assert found.answer == "so"
    assert found.metadata["citations"] == [1, 2]


def test_citations_that_are_models_are_read_as_mappings() -> None:
    cited = CitedAnswer(answer="so", citations=[Cited(source_id=0, quote="It is so.")])
    assert read("why", {"answer": cited}).metadata["citations"] == [{"source_id": 0, "quote": "It is so."}]
    assert "citations" not in read("why", {"answer": "so", "citations": []}).metadata
    assert "citations" not in read("why", "so").metadata
