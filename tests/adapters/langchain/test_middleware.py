"""A guardrail scores an agent's answers, and annotates, retries or stops an answer that fails."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import wrap_model_call
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, tool
from pydantic import AliasChoices, BaseModel, Field
from typing_extensions import TypedDict

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Judge
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


class Reply(BaseModel):
    """A structured answer."""

    answer: str
    confidence: float = 0.5


class Page(TypedDict):
    title: str
    body: str


@dataclasses.dataclass
class Said:
    text: str


class Grade(BaseModel):
    grade: float


class Camel(BaseModel):
    the_text: str = Field(alias="theText")


class Choices(BaseModel):
    the_text: str = Field(validation_alias=AliasChoices("theText", "text"))


SCHEMA = {"title": "Page", "type": "object", "properties": {"text": {"type": ["string", "null"]}}}


class Structured(Model):
    """Looks something up, then gives a structured answer, or calls the tool ``name``, whichever it can."""

    name: str
    fields: Any
    as_json: bool = False

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        fields = self.fields(messages)
        call = {"name": self.name, "args": fields, "id": str(len(messages))}
        if messages[-1].type == "human" and len(messages) == 1:
            call = {"name": "look_up", "args": {"query": "lighthouse"}, "id": "1"}
        elif self.as_json:
            return ChatResult(generations=[ChatGeneration(message=AIMessage(json.dumps(fields)))])
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=[call]))])


@tool(return_direct=True)
def final_answer(text: str) -> str:
    """Give the final answer."""
    return text


@tool(return_direct=True, response_format="content_and_artifact")
def documented(text: str) -> tuple[Any, Any]:
    """Give the final answer with its documents."""
    return {"answer": text}, {"documents": [Document(RIGHT)]}


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(
    ("form", "fields", "options"),
    [
        (ToolStrategy(Reply), lambda text: {"answer": text}, {}),
        (ProviderStrategy(Reply), lambda text: {"answer": text}, {}),
        (ToolStrategy(Said), lambda text: {"text": text}, {}),
        (ToolStrategy(Page), lambda text: {"title": "The lighthouse", "body": text}, {"answer": "body"}),
        (ToolStrategy(Camel), lambda text: {"theText": text}, {}),
        (ToolStrategy(Choices), lambda text: {"theText": text}, {}),
        (ToolStrategy(SCHEMA), lambda text: {"text": text}, {}),
        (final_answer, lambda text: {"text": text}, {}),
        (documented, lambda text: {"text": text}, {}),
    ],
    ids=["tool", "provider", "dataclass", "named", "alias", "choices", "schema", "closing", "documents"],
)
def test_a_structured_answer_and_that_of_a_closing_tool_are_judged(
    form: Any, fields: Any, options: dict[str, Any], awaited: bool
) -> None:
    is_tool = isinstance(form, BaseTool)
    name = form.name if is_tool else "Page" if form.schema is SCHEMA else form.schema.__name__
    tools, response_format = ([look_up, form], None) if is_tool else ([look_up], form)

    def state_of(text: str, on_failure: Any) -> str:
        model = Structured(name=name, fields=lambda _: fields(text), as_json=isinstance(form, ProviderStrategy))
        guard = rm.RagMetricsMiddleware(FAITHFUL, on_failure=on_failure, instead="I do not know.", **options)
        agent = create_agent(model, tools, middleware=[guard], response_format=response_format)
        inputs: Any = {"messages": [HumanMessage(QUESTION)]}
        state = asyncio.run(agent.ainvoke(inputs)) if awaited else agent.invoke(inputs)
        scores = [
            each.response_metadata["ragmetrics"] for each in state["messages"] if "ragmetrics" in each.response_metadata
        ]
        assert [each["faithfulness"]["passed"] for each in scores] == [text == RIGHT]
        final = state.get("structured_response", state["messages"][-1].content)
        texts = [f"{each.content} {getattr(each, 'tool_calls', '')}" for each in state["messages"][3:]]
        return f"{final} {texts}"

    assert WRONG in state_of(WRONG, "annotate")
    assert RIGHT in state_of(RIGHT, "stop")
    stopped = state_of(WRONG, "stop")
    assert "I do not know." in stopped
    assert is_tool or WRONG not in stopped


def test_a_structured_answer_is_asked_for_again() -> None:
    def fields(messages: Sequence[BaseMessage]) -> dict[str, str]:
        return {"answer": RIGHT if messages[-1].type == "human" else WRONG}

    guard = rm.RagMetricsMiddleware(FAITHFUL, on_failure="retry")
    agent = create_agent(
        Structured(name="Reply", fields=fields), [look_up], middleware=[guard], response_format=ToolStrategy(Reply)
    )
    state: Any = agent.invoke({"messages": [HumanMessage(QUESTION)]})  # type: ignore[arg-type]
    assert state["structured_response"].answer == RIGHT


@pytest.mark.parametrize("schema", [Reply, Reply.model_json_schema()])
def test_another_middleware_may_set_a_plain_schema(schema: Any) -> None:
    @wrap_model_call
    def with_schema(request: Any, handler: Any) -> Any:
        return handler(request.override(response_format=schema))

    guard = rm.RagMetricsMiddleware(FAITHFUL, on_failure="stop", instead="I do not know.")
    model = Structured(name="Reply", fields=lambda _: {"answer": WRONG})
    agent = create_agent(model, [look_up], middleware=[with_schema, guard], response_format=ToolStrategy(Reply))
    state: Any = agent.invoke({"messages": [HumanMessage(QUESTION)]})  # type: ignore[arg-type]
    assert "I do not know." in str(state["structured_response"])


@pytest.mark.parametrize(
    ("schema", "options", "way_out"),
    [
        (Page, {}, "name one .*answer=: .'title', 'body'"),
        (Page, {"answer": "author"}, "name one .*answer=: .'title', 'body'"),
        (Grade, {}, "it has no text field"),
    ],
)
def test_an_answer_whose_field_is_unknown_is_refused_before_the_model_is_asked(
    schema: Any, options: dict[str, str], way_out: str
) -> None:
    guard = rm.RagMetricsMiddleware(FAITHFUL, **options)
    agent = create_agent(
        Model(reply=lambda _: 1 / 0), [look_up], middleware=[guard], response_format=ToolStrategy(schema)
    )
    with pytest.raises(InvalidOptionError, match=rf"the answer's field in \w+ is unknown; {way_out}"):
        agent.invoke({"messages": [HumanMessage(QUESTION)]})  # type: ignore[arg-type]
