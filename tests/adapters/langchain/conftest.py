"""Chains of every kind over a small library; both the retrieved documents and the answer name the question."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.tools import create_retriever_tool, tool

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Sample, Score


class Library(BaseRetriever):
    """Returns two documents for every question, the second one twice."""

    shelf: str = "main"

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        second = Document(page_content=f"{self.shelf}: more on {query}", id=f"{self.shelf}-2")
        first = Document(page_content=f"{self.shelf}: on {query}", id=f"{self.shelf}-1", metadata={"page": 7})
        return [first, second, second]


class Scholar(BaseChatModel):
    """Answers ``"answer to <question>"``; if it has tools, it calls the first one before."""

    looks_up: bool = False

    @property
    def _llm_type(self) -> str:
        return "scholar"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Scholar:
        return Scholar(looks_up=True)

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        last = next(str(message.content) for message in reversed(messages) if message.type == "human")
        asked = last.rsplit("\n", 1)[-1]
        if self.looks_up and messages[-1].type == "human":
            call = {"name": "look_up", "args": {"query": asked}, "id": f"call {asked}"}
            return _result(AIMessage(content="", tool_calls=[call]))
        return _result(AIMessage(content=f"answer to {asked}"))


def _result(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])


def _texts(documents: list[Document]) -> str:
    return "\n".join(document.page_content for document in documents)


def _prompt(state: dict[str, Any]) -> str:
    return f"{state['context']}\n{state['question']}"


def plain_chain() -> Runnable[Any, Any]:
    gather = {"context": Library() | _texts, "question": RunnablePassthrough()}
    return gather | RunnableLambda(_prompt) | Scholar() | RunnableLambda(lambda message: message.content)


def dict_chain() -> Runnable[Any, Any]:
    """The form of older retrieval chains: a dict with the question and the documents."""
    answer = RunnableLambda(lambda state: f"answer to {state['input']}")
    found = RunnableLambda(lambda state: state["input"]) | Library()
    return RunnablePassthrough.assign(context=found) | RunnablePassthrough.assign(answer=answer)


def nested_chain() -> Runnable[Any, Any]:
    inner = plain_chain()
    return RunnableLambda(lambda question: question) | RunnableLambda(lambda question: inner.invoke(question))


def parallel_chain() -> Runnable[Any, Any]:
    gather = RunnableParallel(near=Library(shelf="near"), far=Library(shelf="far"), question=RunnablePassthrough())
    return gather | RunnableLambda(lambda state: f"answer to {state['question']}")


class State(TypedDict, total=False):
    question: str
    documents: list[Document]
    answer: str


def graph() -> Runnable[Any, Any]:
    from langgraph.graph import END, START, StateGraph

    builder = StateGraph(State)
    builder.add_node("retrieve", lambda state: {"documents": Library().invoke(state["question"])})
    builder.add_node("generate", lambda state: {"answer": f"answer to {state['question']}"})
    builder.add_edge(START, "retrieve")
    builder.add_edge("retrieve", "generate")
    builder.add_edge("generate", END)
    return builder.compile()


def agent() -> Runnable[Any, Any]:
    from langchain.agents import create_agent

    return create_agent(Scholar(), [create_retriever_tool(Library(), "look_up", "Looks things up.")])


def artifact_agent() -> Runnable[Any, Any]:
    """An agent whose tool calls no retriever and returns its documents as an artifact."""
    from langchain.agents import create_agent

    @tool(response_format="content_and_artifact")
    def look_up(query: str) -> tuple[str, list[Document]]:
        """Look things up."""
        found = [Document(page_content=f"main: on {query}", id="main-1", metadata={"page": 7})]
        return _texts(found), found

    return create_agent(Scholar(), [look_up])


def _as_messages(question: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}]}


KINDS: dict[str, tuple[Callable[[], Runnable[Any, Any]], Callable[[str], Any]]] = {
    "plain": (plain_chain, lambda question: question),
    "dict": (dict_chain, lambda question: {"input": question}),
    "nested": (nested_chain, lambda question: question),
    "parallel": (parallel_chain, lambda question: question),
    "graph": (graph, lambda question: {"question": question}),
    "agent": (agent, _as_messages),
    "artifact": (artifact_agent, _as_messages),
}
SHELVES = {"parallel": ("near", "far")}


def _stream(chain: Runnable[Any, Any], inputs: list[Any], config: Any) -> None:
    for each in inputs:
        for _ in chain.stream(each, config):
            pass


async def _astream(chain: Runnable[Any, Any], inputs: list[Any], config: Any) -> None:
    async def one(each: Any) -> None:
        async for _ in chain.astream(each, config):
            pass

    await asyncio.gather(*map(one, inputs))


async def _astream_events(chain: Runnable[Any, Any], inputs: list[Any], config: Any) -> None:
    async def one(each: Any) -> None:
        async for _ in chain.astream_events(each, config, version="v2"):
            pass

    await asyncio.gather(*map(one, inputs))


async def _ainvoke(chain: Runnable[Any, Any], inputs: list[Any], config: Any) -> None:
    await asyncio.gather(*(chain.ainvoke(each, config) for each in inputs))


MODES: dict[str, Callable[[Runnable[Any, Any], list[Any], Any], Any]] = {
    "invoke": lambda chain, inputs, config: [chain.invoke(each, config) for each in inputs],
    "batch": lambda chain, inputs, config: chain.batch(inputs, config),
    "stream": _stream,
    "ainvoke": lambda *call: asyncio.run(_ainvoke(*call)),
    "abatch": lambda chain, inputs, config: asyncio.run(chain.abatch(inputs, config)),
    "astream": lambda *call: asyncio.run(_astream(*call)),
    "astream_events": lambda *call: asyncio.run(_astream_events(*call)),
}


@rm.metric
def answer_length(answer: str) -> float:
    """The answer's length in hundreds of characters, at most 1."""
    return min(1.0, len(answer) / 100)


@rm.metric
def context_share(contexts: Sequence[str]) -> float:
    """One over the number of chunks."""
    return 1.0 / len(contexts)


@rm.metric
def own_number(answer: str) -> float:
    """The number in the answer, in thousandths, to tell answers apart."""
    return int("".join(character for character in answer if character.isdigit()) or 0) / 1000


class Collected(list[tuple[Sample, dict[str, Score]]]):
    """A sink that stores its arguments."""

    def __call__(self, sample: Sample, scores: dict[str, Score]) -> None:
        self.append((sample, scores))

    @property
    def samples(self) -> list[Sample]:
        return sorted((sample for sample, _ in self), key=lambda sample: sample.question or "")


@pytest.fixture
def suite() -> rm.Suite:
    return rm.Suite([answer_length, context_share, own_number], judge=rm.ScriptedJudge())


@pytest.fixture
def collected() -> Collected:
    return Collected()


@pytest.fixture
def handler(suite: rm.Suite, collected: Collected) -> Iterator[rm.RagMetricsCallback]:
    with rm.RagMetricsCallback(suite, sink=collected) as handler:
        yield handler


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=list(MODES))
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ask(kind: str, mode: str) -> Callable[[list[str], Any], None]:
    """Ask the chain of this kind several questions in this mode."""

    def ask(questions: list[str], config: Any) -> None:
        build, shape = KINDS[kind]
        MODES[mode](build(), [shape(question) for question in questions], config)

    return ask


@pytest.fixture
def chain(kind: str) -> Runnable[Any, Any]:
    """The chain of this kind."""
    return KINDS[kind][0]()


@pytest.fixture
def shelves(kind: str) -> tuple[str, ...]:
    """The retrievers that the chain of this kind calls."""
    return SHELVES.get(kind, ("main",))


@pytest.fixture
def library() -> type[Library]:
    return Library


@pytest.fixture
def scholar() -> type[Scholar]:
    return Scholar


@pytest.fixture
def plain() -> Runnable[Any, Any]:
    return plain_chain()
