"""A guardrail scores an agent's answers, and annotates, retries or stops an answer that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.judge import Judge
from mlflow_ragmetrics.errors import InvalidOptionError
from tests.adapters.langchain.programs import QUESTION, Model

RIGHT, WRONG = "The lighthouse was built in 1869.", "The lighthouse was built in 1923."


class Reader(Judge):
    """Judges these sentences like the offline judge, but under another name."""

    name = "reader"

    def answer(self, questions: Sequence[Any]) -> Sequence[Any]:
        return rm.LexicalJudge().answer(questions)


FAITHFUL = rm.Suite("faithfulness(threshold=0.8)", judge=Reader())


@tool
def look_up(query: str) -> str:
    """Look things up."""
    return "The lighthouse was built in 1869."


def better_when_told(messages: Sequence[BaseMessage]) -> str:
    return RIGHT if sum(message.type == "tool" for message in messages) > 1 else WRONG


def asked(middleware: Any, reply: Any, awaited: bool = False, before: Sequence[Any] = (), ask: str = QUESTION) -> Any:
    agent = create_agent(Model(reply=reply), [look_up], middleware=[middleware])
    inputs: Any = {"messages": [*before, HumanMessage(ask)]}
    result = asyncio.run(agent.ainvoke(inputs)) if awaited else agent.invoke(inputs)
    return result["messages"]


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(
    ("on_failure", "reply", "answer", "passed"),
    [
        ("annotate", lambda _: WRONG, WRONG, False),
        ("annotate", lambda _: RIGHT, RIGHT, True),
        ("retry", better_when_told, RIGHT, True),
        ("retry", lambda _: WRONG, "I do not know.", False),
        ("stop", lambda _: WRONG, "I do not know.", False),
        ("stop", lambda _: RIGHT, RIGHT, True),
    ],
)
def test_what_becomes_of_an_answer(on_failure: Any, reply: Any, answer: str, passed: bool, awaited: bool) -> None:
    middleware = rm.RagMetricsMiddleware(FAITHFUL, on_failure=on_failure, instead="I do not know.")
    messages = asked(middleware, reply, awaited)
    kinds = [message.type for message in messages]  # after the failure, the model calls its tool again
    assert kinds == ["human", *["ai", "tool"] * (1 + (on_failure == "retry")), "ai"]
    assert messages[-1].content == answer
    assert messages[-1].response_metadata["ragmetrics"]["faithfulness"]["passed"] is passed
    assert "ragmetrics" not in messages[1].response_metadata


def test_what_the_user_and_the_model_read_is_in_the_language_of_the_suite() -> None:
    suite = FAITHFUL.replace(language="ru")
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


def test_after_the_last_retry_an_answer_may_be_let_out() -> None:
    guard = rm.RagMetricsMiddleware(FAITHFUL, on_failure="retry", on_exhausted="pass")
    assert asked(guard, lambda _: WRONG)[-1].content == WRONG


SEARCHED = [
    HumanMessage(QUESTION),
    AIMessage("", tool_calls=[{"name": "look_up", "args": {"query": "x"}, "id": "1"}]),
    ToolMessage(RIGHT, tool_call_id="1", name="look_up"),
    AIMessage(RIGHT),
]


@pytest.mark.parametrize(
    ("ask", "answer", "stopped"),
    [
        ("Many thanks!", "You are welcome.", False),
        (QUESTION, "Here is what I found.", False),
        ("In which year, thanks?", RIGHT, False),
        ("In which year, thanks?", WRONG, True),
    ],
)
def test_an_earlier_turn_s_passages_count_where_the_answer_makes_claims(ask: str, answer: str, stopped: bool) -> None:
    guard = rm.RagMetricsMiddleware(FAITHFUL, on_failure="stop", instead="I do not know.")
    said = asked(guard, lambda _: answer, before=SEARCHED, ask=ask)[-1].content
    assert said == ("I do not know." if stopped else answer)


@pytest.mark.parametrize("on_failure", ["annotate", "stop"])
@pytest.mark.parametrize(("way", "said"), [("pass", "is sent unjudged"), ("stop", "is stopped")])
def test_which_way_a_dead_judge_fails(way: Any, said: str, on_failure: Any, caplog: pytest.LogCaptureFixture) -> None:
    suite = rm.Suite(["faithfulness(threshold=0.8)"], judge=rm.ScriptedJudge(error="closed"))
    guard = rm.RagMetricsMiddleware(suite, on_failure=on_failure, on_judge_failure=way, instead="I do not know.")
    message = asked(guard, lambda _: WRONG)[-1]
    assert message.content == (WRONG if way == "pass" else "I do not know.")
    assert message.response_metadata["ragmetrics"]["faithfulness"]["status"] == "error"
    assert f"an answer {said}: faithfulness" in caplog.text


@pytest.mark.parametrize("on_failure", ["retry", "stop"])
def test_the_offline_judge_stops_nothing(on_failure: Any) -> None:
    with pytest.raises(InvalidOptionError, match="marks good paraphrases as unsupported"):
        rm.RagMetricsMiddleware("faithfulness(threshold=0.8)", on_failure=on_failure)
    rm.RagMetricsMiddleware("coherence(threshold=0.8)", on_failure=on_failure)


@pytest.mark.parametrize(
    "options",
    [
        {"on_failure": "shout"},
        {"retries": 0},
        {"suite": "rouge", "on_failure": "stop"},
        {"on_exhausted": "retry"},
        {"on_judge_failure": "annotate"},
    ],
    ids=str,
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        rm.RagMetricsMiddleware(**{"suite": "faithfulness(threshold=0.8)", **options})
    assert caught.value.param in options
