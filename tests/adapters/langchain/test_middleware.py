"""A guardrail scores what an agent answers, and annotates, retries or stops an answer that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.tools import tool

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError
from tests.adapters.langchain.programs import QUESTION, Model

RIGHT, WRONG = "The lighthouse was built in 1869.", "The lighthouse was built in 1923."


@tool
def look_up(query: str) -> str:
    """Look things up."""
    return "The lighthouse was built in 1869."


def better_when_told(messages: Sequence[BaseMessage]) -> str:
    return RIGHT if sum(message.type == "tool" for message in messages) > 1 else WRONG


def asked(middleware: Any, reply: Any, awaited: bool = False) -> Any:
    agent = create_agent(Model(reply=reply), [look_up], middleware=[middleware])
    inputs: Any = {"messages": [HumanMessage(QUESTION)]}
    result = asyncio.run(agent.ainvoke(inputs)) if awaited else agent.invoke(inputs)
    return result["messages"]


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(
    ("on_failure", "reply", "answer", "passed"),
    [
        ("annotate", lambda _: WRONG, WRONG, False),
        ("annotate", lambda _: RIGHT, RIGHT, True),
        ("retry", better_when_told, RIGHT, True),
        ("retry", lambda _: WRONG, WRONG, False),
        ("stop", lambda _: WRONG, "I do not know.", False),
        ("stop", lambda _: RIGHT, RIGHT, True),
    ],
)
def test_what_becomes_of_an_answer(on_failure: Any, reply: Any, answer: str, passed: bool, awaited: bool) -> None:
    middleware = rm.RagMetricsMiddleware("faithfulness(threshold=0.8)", on_failure=on_failure, instead="I do not know.")
    messages = asked(middleware, reply, awaited)
    kinds = [message.type for message in messages]  # told that it failed, the model asks its tool once more
    assert kinds == ["human", *["ai", "tool"] * (1 + (on_failure == "retry")), "ai"]
    assert messages[-1].content == answer
    assert messages[-1].response_metadata["ragmetrics"]["faithfulness"]["passed"] is passed
    assert "ragmetrics" not in messages[1].response_metadata


def test_what_the_user_and_the_model_read_is_in_the_language_of_the_suite() -> None:
    suite = rm.Suite("faithfulness(threshold=0.8)", language="ru")
    stopped = asked(rm.RagMetricsMiddleware(suite, on_failure="stop"), lambda _: WRONG)
    assert stopped[-1].content.startswith("По имеющимся")
    told: list[str] = []

    class Noting(Model):
        def _message(self, messages: list[BaseMessage]) -> Any:
            told.append(str(messages[-1].content))
            return super()._message(messages)

    guard = rm.RagMetricsMiddleware(suite, on_failure="retry")
    agent = create_agent(Noting(reply=lambda _: WRONG), [look_up], middleware=[guard])
    agent.invoke({"messages": [HumanMessage(QUESTION)]})
    assert any(text.startswith("Ваш ответ не подтверждён: faithfulness") for text in told)


def test_a_failing_judge_fails_no_answer() -> None:
    suite = rm.Suite(["faithfulness(threshold=0.8)"], judge=rm.ScriptedJudge(error="closed"))
    messages = asked(rm.RagMetricsMiddleware(suite, on_failure="stop"), lambda _: WRONG)
    assert messages[-1].content == WRONG
    assert messages[-1].response_metadata["ragmetrics"]["faithfulness"]["score"] is None


@pytest.mark.parametrize(
    "options", [{"on_failure": "shout"}, {"retries": 0}, {"suite": "rouge", "on_failure": "stop"}], ids=str
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        rm.RagMetricsMiddleware(**{"suite": "faithfulness(threshold=0.8)", **options})
    assert caught.value.param in options
