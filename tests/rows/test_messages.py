"""A conversation with tools becomes a sample with its answer and the tools' results."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.rows.chat_messages import tool_chunks

CALL = AIMessage("Let me look that up.", tool_calls=[{"name": "look_up", "args": {}, "id": "1"}])
RESULT = ToolMessage("The lighthouse is 29 m tall.", tool_call_id="1", name="look_up")
DICTS = [
    {"role": "user", "content": "How tall?"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "look_up"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "The lighthouse is 29 m tall."},
    {"role": "assistant", "content": "29 m."},
]
MESSAGES = [HumanMessage("How tall?"), CALL, RESULT, AIMessage("29 m.")]


@pytest.mark.parametrize("given", [MESSAGES, DICTS, {"messages": MESSAGES}], ids=["langchain", "openai", "state"])
def test_question_answer_and_contexts(given: Any) -> None:
    sample = rm.sample_from_messages(given)
    assert (sample.question, sample.answer, sample.texts) == ("How tall?", "29 m.", ("The lighthouse is 29 m tall.",))
    assert sample.history is None


def test_the_turns_before_are_the_history() -> None:
    sample = rm.sample_from_messages([("user", "Hi"), ("assistant", "Hello"), ("user", "How tall?"), ("ai", "29 m.")])
    assert (sample.question, sample.answer, sample.contexts) == ("How tall?", "29 m.", None)
    assert sample.history == (rm.Message("user", "Hi"), rm.Message("assistant", "Hello"))


@pytest.mark.parametrize("messages", [MESSAGES[:2], MESSAGES[:1], [*MESSAGES, HumanMessage("And how old?")]])
def test_what_announces_a_tool_call_is_no_answer(messages: Any) -> None:
    assert rm.sample_from_messages(messages).answer is None


@pytest.mark.parametrize("given", ["How tall?", [1, 2], None, {"question": "why"}])
def test_what_is_no_conversation(given: Any) -> None:
    with pytest.raises(InvalidDataError, match="not messages"):
        rm.sample_from_messages(given)


PASSAGES = [{"id": "a", "text": "One passage."}, {"id": "b", "text": "Another one."}]


@pytest.mark.parametrize(
    ("content", "artifact", "expected"),
    [
        ("Plain text.", None, [(None, "Plain text.")]),
        (json.dumps(PASSAGES), None, [("a", "One passage."), ("b", "Another one.")]),
        (json.dumps({"results": PASSAGES}), None, [("a", "One passage."), ("b", "Another one.")]),
        ([{"type": "text", "text": "One passage."}, {"type": "text", "text": "Another one."}], None,
         [(None, "One passage."), (None, "Another one.")]),
        ("One passage.", [Document("One passage.", id="a")], [("a", "One passage.")]),
        ("One passage.", {"documents": [Document("One passage.", id="a")]}, [("a", "One passage.")]),
        (str((Document("One passage.", id="a"), Document("Another one."))), None,
         [("a", "One passage."), (None, "Another one.")]),
        (str([[Document("One passage.", id="a")], [Document("Another one.")]]), None,
         [("a", "One passage."), (None, "Another one.")]),
        ('{"temperature":21}', None, [(None, '{"temperature":21}')]),  # as the model saw it
        (json.dumps({"text_of": "Маяк"}), None, [(None, '{"text_of": "Маяк"}')]),
        ("[unfinished", None, [(None, "[unfinished")]),
        ("", None, []),
    ],
)  # fmt: skip
def test_what_a_tool_gave(content: Any, artifact: Any, expected: Any) -> None:
    message = ToolMessage(content, tool_call_id="1", artifact=artifact, name="look_up")
    assert [(chunk.id, chunk.text) for chunk in tool_chunks(message)] == expected
    assert tool_chunks(message, ["another"]) == ()


def test_a_tool_s_error_is_no_context() -> None:
    assert tool_chunks(ToolMessage("no such page", tool_call_id="1", status="error")) == ()


def test_an_agent_s_result_is_scored_against_its_tools() -> None:
    wrong = {"messages": [HumanMessage("How tall?"), CALL, RESULT, AIMessage("The lighthouse is 300 m tall.")]}
    right = {"messages": [HumanMessage("How tall?"), CALL, RESULT, AIMessage("The lighthouse is 29 m tall.")]}
    for result, value in ((wrong, 0.0), (right, 1.0)):
        score = rm.score("faithfulness", result)
        assert (score.value, score.details["no_context"]) == (value, False)
    nested = {"inputs": {"question": "How tall?"}, "outputs": wrong}
    assert rm.score("faithfulness", nested).value == 0.0
