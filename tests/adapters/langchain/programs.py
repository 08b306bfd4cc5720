"""Programs as people build them, each with its question, the contexts that its model saw, and its answer.

``python tests/adapters/langchain/programs.py`` runs those with a ``shape`` and writes ``docs/guides/langchain.md``.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import operator
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypedDict
from zlib import crc32

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel, FakeListLLM
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.tools import InjectedToolCallId, create_retriever_tool, tool
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import BaseModel, Field

A = Document("The lighthouse on the northern cape was built in 1869 of grey granite.", id="a")
B = Document("Its keeper walks down to the harbour each morning before the ferries leave.", id="b")
C = Document("Ferries leave the harbour at nine and at noon, except on Sundays.", id="c")
ALL = (A, B, C)
QUESTION = "When was the lighthouse built?"
ANSWER = "The lighthouse was built in 1869."
LOOK = "Let me look that up."


class Words(Embeddings):
    """Word counts of a text; similarity is the share of common words."""

    def embed_query(self, text: str) -> list[float]:
        counts = [0.01] * 512
        for word in re.findall(r"\w+", text.casefold()):
            counts[crc32(word.encode()) % len(counts)] += 1.0
        return counts

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


def store_of(documents: Sequence[Document]) -> InMemoryVectorStore:
    store = InMemoryVectorStore(Words())
    store.add_documents(list(documents))
    return store


class Shelf(BaseRetriever):
    """A retriever over these documents in a vector store, best first; by default it returns all of them."""

    documents: list[Document] = Field(default_factory=lambda: list(ALL))
    most: int = 9

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return store_of(self.documents).similarity_search(query, k=self.most)


def replied(messages: Sequence[BaseMessage]) -> str:
    """The answer to the question, or the reply to another kind of prompt."""
    text = str(messages[-1].content)
    if "Standalone question" in text or "standalone question" in text:
        return QUESTION
    if "yes or no" in text:
        return "yes" if "1869" in text else "no"
    if "Summarize" in text:
        return "Granite tower, finished in eighteen sixty-nine." if "1869" in text else "Nothing about any tower here."
    return ANSWER


class Model(BaseChatModel):
    """Answers with a function of the messages; if it has tools, it calls the first one once per turn."""

    reply: Callable[[Sequence[BaseMessage]], Any] = replied
    tools: list[Any] = Field(default_factory=list)
    says: str = ""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Model:
        return self.model_copy(update={"tools": list(tools)})

    def get_num_tokens(self, text: str) -> int:
        return len(text.split())

    def _message(self, messages: list[BaseMessage]) -> AIMessage:
        if self.tools and messages[-1].type == "human" and "thanks" not in str(messages[-1].content):
            return AIMessage(self.says, tool_calls=[{"name": _name(self.tools[0]), "args": self._args(), "id": "1"}])
        told = self.reply(messages)
        return told if isinstance(told, AIMessage) else AIMessage(told)

    def _args(self) -> dict[str, Any]:
        properties = getattr(self.tools[0], "args", None) or _schema(self.tools[0])
        known = {"answer": ANSWER, "sure": 0.9, "sources": ["a"]}
        return {name: known.get(name, QUESTION) for name in properties}

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._message(messages))])

    def _stream(self, messages: list[BaseMessage], *_: Any, run_manager: Any = None, **__: Any) -> Any:
        message = self._message(messages)
        if message.tool_calls:
            calls = [
                {"name": each["name"], "args": json.dumps(each["args"]), "id": each["id"], "index": 0}
                for each in message.tool_calls
            ]
            yield ChatGenerationChunk(message=AIMessageChunk(content=str(message.content), tool_call_chunks=calls))
            return
        for word in str(message.content).split(" "):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=word if word.endswith(".") else word + " "))
            if run_manager is not None:
                run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk


def _name(given: Any) -> str:
    return str(given["title"] if isinstance(given, dict) else getattr(given, "name", getattr(given, "__name__", "")))


def _schema(given: Any) -> dict[str, Any]:
    found: dict[str, Any] = (given if isinstance(given, dict) else given.model_json_schema()).get("properties", {})
    return found


PROMPT = ChatPromptTemplate.from_template("Answer from:\n{context}\n\nQuestion: {question}")


def joined(documents: Sequence[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


class Told(BaseModel):
    """An answer and its confidence."""

    answer: str
    sure: float


def best(documents: Sequence[Document]) -> list[Document]:
    """A reranker's selection: the document that names the keeper, although nobody asked about him."""
    return [document for document in documents if "keeper" in document.page_content]


def invoked(chain: Any, inputs: Any = QUESTION) -> Callable[[Any], Any]:
    return lambda config: chain.invoke(inputs, config)


@dataclass(frozen=True)
class Program:
    """``run`` calls the program with a config. ``seen``: the contexts (``None``: reported as unknown). ``answer``:
    ``None`` if there is none to score. ``retrieved``: ids. ``shape``: its line in the
    documentation.
    """

    build: Callable[[], Callable[[Any], Any]]
    seen: Sequence[str] | None
    answer: str | None = ANSWER
    question: str = QUESTION
    retrieved: Sequence[str] | None = None
    calls: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    needs: str = "langchain_core"
    shape: str = ""

    @property
    def runs_here(self) -> bool:
        return importlib.util.find_spec(self.needs) is not None


PROGRAMS: dict[str, Program] = {}


def program(seen: Any, name: str = "", **options: Any) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register the function under this decorator, which gives a chain, to be asked ``QUESTION``, or what calls it."""
    texts = None if seen is None else tuple(each if isinstance(each, str) else each.page_content for each in seen)

    def register(build: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> Callable[[Any], Any]:
            made = build()
            return invoked(made) if hasattr(made, "invoke") else made

        PROGRAMS[name or build.__name__] = Program(run, texts, **options)
        return build

    return register


# ---------------------------------------------------------------- LCEL


def answered_from(context: Any, model: Any = None) -> Any:
    return {"context": context, "question": RunnablePassthrough()} | PROMPT | (model or Model()) | StrOutputParser()


def shelf_of(*documents: Document) -> Shelf:
    return Shelf(documents=list(documents))


def cut(documents: list[Document]) -> str:
    ends = (39, 41, None)
    return "\n".join(document.page_content[:end] for document, end in zip(documents, ends, strict=True))


def as_json(documents: list[Document]) -> str:
    return json.dumps([{"id": document.id, "text": document.page_content} for document in documents])


def sentences_numbered(documents: list[Document]) -> str:
    sentences = [sentence for document in documents for sentence in document.page_content.split(". ")]
    return "\n".join(f"[{number}] {sentence.rstrip('.')}." for number, sentence in enumerate(sentences))


def without_doubles(lists: list[list[Document]]) -> list[Document]:
    return list({document.id: document for documents in lists for document in documents}.values())


def failing_first(question: str, attempts: list[str]) -> str:
    attempts.append(question)
    documents = shelf_of(A) if len(attempts) > 1 else shelf_of(B, C)
    text = joined(documents.invoke(question))
    if len(attempts) == 1:
        raise ConnectionError("try again")
    return text


SUMMARIZE = ChatPromptTemplate.from_template("Summarize: {text}")
BY_QUERY = {f"{QUESTION} 1": [A, B], f"{QUESTION} 2": [B, C]}
IN_JSON = Model(reply=lambda _: json.dumps({"answer": ANSWER, "sure": 0.9}))
GATHERED = {"context": Shelf() | joined, "question": RunnablePassthrough()}
Built = Callable[[], Any]
FROM_A_CONTEXT: dict[str, tuple[Any, Built, dict[str, str]]] = {
    "lcel": (
        ALL, lambda: Shelf() | joined,
        {"retrieved": "abc", "shape": "LCEL: a retriever, a formatter, a prompt, a model, a parser"},
    ),
    "documents_put_into_the_prompt_as_they_are": (ALL, Shelf, {"retrieved": "abc"}),
    "reranked_by_a_function": (
        [B], lambda: Shelf() | best | joined,
        {"retrieved": "b", "shape": "LCEL with a function that reranks or filters"},
    ),
    "cut_by_the_formatter": (
        [A], lambda: Shelf() | (lambda documents: joined(documents[:1])),
        {"retrieved": "abc", "shape": "A formatter that takes the first documents only"},
    ),
    "texts_cut_by_the_formatter": (
        ["The lighthouse on the northern cape was", "Its keeper walks down to the harbour each", C],
        lambda: Shelf() | cut, {"retrieved": "abc"},
    ),
    "documents_as_json": (ALL, lambda: Shelf() | as_json, {"retrieved": "abc"}),
    "sentences_numbered_by_the_formatter": (
        [f"{A.page_content} {C.page_content}"],
        lambda: shelf_of(Document(f"{A.page_content} {C.page_content}", id="l")) | sentences_numbered,
        {"retrieved": "l"},
    ),
    "pairs_of_document_and_score": (
        ALL,
        lambda: RunnableLambda(lambda _: [(document, 0.5) for document in ALL])
        | (lambda pairs: joined([document for document, _ in pairs])),
        {"retrieved": "abc", "shape": "A vector store called in a function that returns (document, score) pairs"},
    ),
    "a_function_that_gives_texts": (
        ALL, lambda: RunnableLambda(lambda _: [document.page_content for document in ALL]) | "\n".join,
        {"shape": "A function that returns texts"},
    ),
    "a_function_that_gives_one_text": ([A], lambda: RunnableLambda(lambda _: A.page_content), {}),
    "several_queries_merged": (
        ALL,
        lambda: RunnableLambda(lambda question: [f"{question} 1", f"{question} 2"])
        | RunnableLambda(lambda query: shelf_of(*BY_QUERY[query]).invoke(query)).map() | without_doubles | joined,
        {"retrieved": "abc", "shape": "Several queries, their documents merged in a function"},
    ),
    "retried": (
        [A],
        lambda: RunnableLambda(partial(failing_first, attempts=[])).with_retry(
            wait_exponential_jitter=False, stop_after_attempt=2
        ),
        {"retrieved": "a", "shape": "A failed attempt under `with_retry`"},
    ),
    "nothing_found": ([], lambda: Shelf(documents=[]) | joined, {"retrieved": ""}),
    "retrieved_and_not_used": (None, lambda: Shelf() | (lambda documents: "(withheld)"), {"retrieved": "abc"}),
    "mapped_and_reduced": (
        [A],
        lambda: Shelf() | (lambda documents: [{"text": documents[0].page_content}])
        | (SUMMARIZE | Model() | StrOutputParser()).map() | "\n".join,
        {"retrieved": "abc", "shape": "Documents summarized by a model, one by one (map and reduce)"},
    ),
}  # fmt: skip
for name, (seen, context, options) in FROM_A_CONTEXT.items():
    program(seen, name=name, **options)(lambda context=context: answered_from(context()))
FROM_ALL: dict[str, tuple[Built, str]] = {
    "json_as_answer": (lambda: PROMPT | IN_JSON | StrOutputParser(), "An answer as JSON: its text is read"),
    "structured": (lambda: PROMPT | Model().with_structured_output(Told), "A structured output (pydantic)"),
    "structured_with_the_raw_message": (lambda: PROMPT | Model().with_structured_output(Told, include_raw=True), ""),
    "output_text": (
        lambda: RunnableParallel(output_text=PROMPT | Model() | StrOutputParser(), sure=lambda _: 0.9), ""
    ),
    "a_completion_model": (lambda: PROMPT | FakeListLLM(responses=[ANSWER]), ""),
    "citations_beside_the_answer": (
        lambda: RunnableParallel(
            answer=PROMPT | Model() | StrOutputParser(), citations=lambda _: [{"id": "a", "quote": "built in 1869"}]
        ),
        "An answer and its citations (`RunnableParallel`)",
    ),
}  # fmt: skip
for name, (build, shape) in FROM_ALL.items():
    program(ALL, name=name, retrieved="abc", shape=shape)(lambda build=build: GATHERED | build())


@program([A, B], retrieved="ab", shape="Documents among the chain's inputs")
def documents_in_the_inputs() -> Any:
    chain = RunnablePassthrough.assign(context=lambda state: joined(state["documents"])) | PROMPT | Model()
    return invoked(chain, {"question": QUESTION, "documents": [A, B]})


@program([joined([A, B])], shape="The handler on the generating step only")
def handler_on_the_generating_step() -> Any:
    step = PROMPT | Model() | StrOutputParser()
    context = shelf_of(A, B) | joined
    return lambda config: (
        {"context": context, "question": RunnablePassthrough()} | step.with_config(callbacks=config["callbacks"])
    ).invoke(QUESTION)


@program(None, shape="Everything in one plain function: unknown, name them with `contexts=`")
def all_in_one_function() -> Any:
    model = Model()
    return RunnableLambda(lambda question: model.invoke(f"{joined(ALL)}\n{question}").content)


def fail(_: Any) -> Any:
    raise ConnectionError("down")


@program([A], retrieved="a", shape="A fallback")
def fallen_back() -> Any:
    first = {"context": shelf_of(B, C) | joined, "question": RunnablePassthrough()} | PROMPT | fail
    return first.with_fallbacks([answered_from(shelf_of(A) | joined)])


@program([A], retrieved="a", shape="An async fallback")
def fallen_back_async() -> Any:
    return lambda config: asyncio.run(fallen_back().ainvoke(QUESTION, config))


@program(None, shape="No retrieval at all: unknown")
def no_retrieval() -> Any:
    return ChatPromptTemplate.from_template("{question}") | Model() | StrOutputParser()


@program(ALL, retrieved="abc", answer=f"{ANSWER} [1]", shape="An answer edited afterwards (citations added)")
def citations_added() -> Any:
    return answered_from(Shelf() | joined) | (lambda answer: f"{answer} [1]")


# ---------------------------------------------------------------- follow-ups

HISTORY = [HumanMessage("Is there a lighthouse on the cape?"), AIMessage("Yes, on the northern cape.")]
WITH_HISTORY = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{context}\n{question}")])
SEARCHED = RunnablePassthrough.assign(context=(lambda state: state["question"]) | Shelf() | joined)
LATER = "When was it built?"


@program([A, C, B], retrieved="acb", question=LATER, shape="A follow-up with its history")
def follow_up_with_its_history() -> Any:
    return invoked(SEARCHED | WITH_HISTORY | Model() | StrOutputParser(), {"question": LATER, "history": HISTORY})


# ---------------------------------------------------------------- streams


@program(ALL, retrieved="abc", shape="A stream, read to its end")
def streamed() -> Any:
    return lambda config: list(answered_from(Shelf() | joined).stream(QUESTION, config))


@program(None, answer=None, shape="A stream that is closed early: no answer")
def stream_left_early() -> Any:
    def leave(config: Any) -> None:
        stream = answered_from(Shelf() | joined).stream(QUESTION, config)
        for _ in range(3):
            next(stream)
        stream.close()

    return leave


@program(ALL, retrieved="abc", calls=2)
def batched_as_completed() -> Any:
    return lambda config: list(answered_from(Shelf() | joined).batch_as_completed([QUESTION, QUESTION], config))


# ---------------------------------------------------------------- LangGraph


class State(TypedDict, total=False):
    question: str
    documents: list[Document]
    generation: str
    answer: str


def generate(name: str = "generation") -> Callable[[State], State]:
    def node(state: State) -> Any:
        prompt = PROMPT.invoke({"context": joined(state.get("documents", [])), "question": state["question"]})
        return {name: Model().invoke(prompt).content}

    return node


def graph_of(state: Any, *nodes: tuple[str, Any], **options: Any) -> Any:
    from langgraph.graph import END, START, StateGraph

    output = {"output_schema": options.pop("output_schema")} if "output_schema" in options else {}
    builder = StateGraph(state, **output)
    for name, node in nodes:
        builder.add_node(name, node)
    for first, second in zip((START, *(name for name, _ in nodes)), (*(name for name, _ in nodes), END), strict=True):
        builder.add_edge(first, second)
    return builder.compile(**options)


def retrieving(*documents: Document) -> Callable[[State], Any]:
    return lambda state: {"documents": shelf_of(*documents).invoke(state["question"])}


retrieve = retrieving(*ALL)


def rerank(state: State) -> Any:
    return {"documents": best(state["documents"])}


THREAD = {"configurable": {"thread_id": "t"}}


def memory() -> Any:
    from langgraph.checkpoint.memory import InMemorySaver

    return InMemorySaver()


def grade(state: State) -> Any:
    kept = [
        each
        for each in state["documents"]
        if Model().invoke(f"Does it help, yes or no? {each.page_content} {state['question']}").content == "yes"
    ]
    return {"documents": kept}


@program(ALL, retrieved="abc", needs="langgraph", shape="LangGraph: retrieve, generate")
def graph() -> Any:
    return invoked(graph_of(State, ("retrieve", retrieve), ("generate", generate())), {"question": QUESTION})


class OnlyAnswer(TypedDict):
    answer: str


@program([A], retrieved="a", needs="langgraph", shape="CRAG: documents graded by a model, only the answer returned")
def corrective() -> Any:
    nodes = (("retrieve", retrieve), ("grade", grade), ("generate", generate("answer")))
    return invoked(graph_of(State, *nodes, output_schema=OnlyAnswer), {"question": QUESTION})


@program([], retrieved="bc", needs="langgraph")
def corrective_with_nothing_left() -> Any:
    nodes = (("retrieve", retrieving(B, C)), ("grade", grade), ("generate", generate("answer")))
    return invoked(graph_of(State, *nodes), {"question": QUESTION})


class Growing(TypedDict, total=False):
    question: str
    documents: Annotated[list[Document], operator.add]
    answer: str


def _second_turn(question: str, route: Callable[[Any], Any]) -> Callable[[Any], Any]:
    graph = graph_of(Growing, ("retrieve", route), ("generate", _latest), checkpointer=memory())

    def run(config: Any) -> Any:
        graph.invoke({"question": "Tell me of the harbour."}, THREAD)
        return graph.invoke({"question": question}, {**config, **THREAD})

    return run


def _latest(state: Any) -> Any:
    found = state.get("documents", [])[-1:] if "thanks" not in state["question"] else []
    return {"answer": Model().invoke(f"{joined(found)}\n{state['question']}").content}


@program(
    None, needs="langgraph", question="thanks", shape="A turn that retrieves nothing, in a graph whose state keeps all"
)
def stale_documents_in_the_state() -> Any:
    return _second_turn("thanks", lambda state: {} if "thanks" in state["question"] else retrieving(C)(state))


@program([A], retrieved="a", needs="langgraph", shape="A later turn that retrieves again, in a state that keeps all")
def fresh_documents_beside_stale_ones() -> Any:
    return _second_turn(QUESTION, lambda state: retrieving(C if "harbour" in state["question"] else A)(state))


@program(None, answer=None, needs="langgraph", shape="A graph that is interrupted: no answer")
def interrupted() -> Any:
    from langgraph.types import interrupt

    def ask(state: State) -> Any:
        return {"answer": interrupt("May I?")}

    graph = graph_of(State, ("draft", generate("answer")), ("ask", ask), checkpointer=memory())
    return lambda config: graph.invoke({"question": QUESTION}, {**config, **THREAD})


def halting_graph(**options: Any) -> Any:
    """A graph whose state has a draft under ``answer`` before its last step."""
    nodes = (("retrieve", retrieve), ("draft", generate("answer")), ("send", lambda state: {"answer": ANSWER}))
    return graph_of(State, *nodes, checkpointer=memory(), **options)


@program(
    None,
    answer=None,
    needs="langgraph.callbacks",
    shape="A graph that stops before a step (`interrupt_before`, from LangGraph 1.2 on): no answer",
)
def halted_before_a_step() -> Any:
    graph = halting_graph(interrupt_before=["send"])
    return lambda config: graph.invoke({"question": QUESTION}, {**config, **THREAD})


@program(ALL, retrieved="abc", needs="langgraph", shape="The same graph, resumed")
def resumed_after_a_halt() -> Any:
    graph = halting_graph(interrupt_before=["send"])
    graph.invoke({"question": QUESTION}, THREAD)
    return lambda config: graph.invoke(None, {**config, **THREAD})


@program(ALL, retrieved="abc", needs="langgraph")
def resumed_with_a_command() -> Any:
    from langgraph.types import Command, interrupt

    def ask(state: State) -> Any:
        return {"answer": interrupt("May I?")}

    nodes = (("retrieve", retrieve), ("ask", ask), ("generate", generate("answer")))
    graph = graph_of(State, *nodes, checkpointer=memory(), output_schema=OnlyAnswer)
    graph.invoke({"question": QUESTION}, THREAD)
    return lambda config: graph.invoke(Command(resume="yes"), {**config, **THREAD})


class Mapped(TypedDict, total=False):
    question: str
    notes: Annotated[list[str], operator.add]
    answer: str


@program(ALL, retrieved="abc", needs="langgraph", shape="LangGraph map-reduce: a branch for each document (`Send`)")
def sent_to_branches() -> Any:
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Send

    def spread(state: Mapped) -> Any:
        return [Send("read", {"document": each}) for each in Shelf().invoke(state["question"])]

    def read(state: Any) -> Any:
        found = state["document"]
        asked = f"Note what it says: {found.page_content}"
        return {"notes": [Model(reply=lambda _: f"Document {found.id} was read and noted.").invoke(asked).content]}

    def reduce(state: Mapped) -> Any:
        return {"answer": Model().invoke("\n".join([*state["notes"], state["question"]])).content}

    builder = StateGraph(Mapped)
    builder.add_node("read", read)
    builder.add_node("reduce", reduce)
    builder.add_conditional_edges(START, spread, ["read"])
    builder.add_edge("read", "reduce")
    builder.add_edge("reduce", END)
    return invoked(builder.compile(), {"question": QUESTION})


@program([B], retrieved="b", needs="langgraph", shape="A subgraph that retrieves and reranks")
def subgraph() -> Any:
    finder = graph_of(State, ("retrieve", retrieve), ("rerank", rerank))
    return invoked(graph_of(State, ("find", finder), ("generate", generate())), {"question": QUESTION})


# ---------------------------------------------------------------- agents


def tool_giving(*results: Any, name: str = "look_up", **options: Any) -> Any:
    """A tool that returns these results one after the other, the last one again and again."""
    left = list(results)

    def look_up(query: str) -> Any:
        """Look things up."""
        return left.pop(0) if len(left) > 1 else left[0]

    return tool(name, **options)(look_up)


def look_up_all() -> Any:
    return create_retriever_tool(Shelf(), "look_up", "Looks things up.")


def then_calling(name: str, after: str) -> Model:
    """A model that calls the first tool, after the result of ``after`` this one, and then answers."""
    call = AIMessage("", tool_calls=[{"name": name, "args": {"query": "x"}, "id": "2"}])
    return Model(reply=lambda messages: call if getattr(messages[-1], "name", "") == after else ANSWER)


def agent_of(*tools: Any, model: Any = None, messages: Any = None, **options: Any) -> Any:
    from langchain.agents import create_agent

    agent = create_agent(model or Model(says=LOOK), list(tools), **options)
    return invoked(agent, {"messages": messages or [{"role": "user", "content": QUESTION}]})


@program(ALL, retrieved="abc", needs="langchain", shape="An agent with a retriever tool")
def agent_with_a_retriever_tool() -> Any:
    return agent_of(look_up_all())


@program([A, B], retrieved="ab", needs="langchain", shape="An agent whose tool returns documents as its artifact")
def agent_with_an_artifact() -> Any:
    return agent_of(tool_giving((joined([A, B]), [A, B]), response_format="content_and_artifact"))


@program([A], needs="langchain", shape="An agent whose tool returns text")
def agent_with_a_text_tool() -> Any:
    return agent_of(tool_giving(A.page_content))


@program([A], needs="langchain")
def agent_with_tools_that_direct() -> Any:
    transfer = tool_giving("Successfully transferred to librarian", name="transfer_to_librarian")
    return agent_of(transfer, tool_giving(A.page_content), model=then_calling("look_up", after="transfer_to_librarian"))


@program([A, B], retrieved="ab", needs="langchain", shape="An agent whose tool returns JSON or dicts")
def agent_with_dicts() -> Any:
    return agent_of(tool_giving([{"id": str(each.id), "content": each.page_content} for each in (A, B)]))


@program(ALL, retrieved="abc", needs="langchain", shape="An agent with a structured response")
def agent_with_a_structured_response() -> Any:
    from langchain.agents.structured_output import ToolStrategy

    call = {"name": "Told", "args": {"answer": ANSWER, "sure": 0.9}, "id": "2"}
    model = Model(reply=lambda _: AIMessage("", tool_calls=[call]))
    return agent_of(look_up_all(), model=model, response_format=ToolStrategy(Told))


@program([A], needs="langchain", options={"contexts": ["look_up"]}, shape="Several tools, some named by `contexts=`")
def agent_with_chosen_tools() -> Any:
    log = tool_giving("The request was noted under number 77.", name="log")
    return agent_of(tool_giving(A.page_content), log, model=then_calling("log", after="look_up"))


@program(None, answer=None, needs="langchain", shape="A message that only makes a tool call: no answer")
def agent_stopped_before_its_tool() -> Any:
    from langchain.agents import create_agent

    agent = create_agent(Model(says=LOOK), [look_up_all()], interrupt_before=["tools"], checkpointer=memory())
    asked = {"messages": [HumanMessage(QUESTION)]}
    return lambda config: agent.invoke(asked, {**config, **THREAD})


@program([A, B], needs="langchain_mcp_adapters", shape="An agent with the tools of an MCP server")
def agent_with_mcp_tools() -> Any:
    from langchain.agents import create_agent
    from langchain_mcp_adapters.client import MultiServerMCPClient

    server = {"transport": "stdio", "command": sys.executable, "args": [str(Path(__file__).with_name("mcp_server.py"))]}

    async def asked(config: Any) -> Any:
        tools = await MultiServerMCPClient({"library": server}).get_tools()  # type: ignore[dict-item]
        return await create_agent(Model(says=LOOK), tools).ainvoke({"messages": [HumanMessage(QUESTION)]}, config)

    return lambda config: asyncio.run(asked(config))


# ---------------------------------------------------------------- classic chains


@program(
    ALL,
    retrieved="abc",
    question="When was it built?",
    needs="langchain_classic",
    shape="`ConversationalRetrievalChain`",
)
def classic_conversation() -> Any:
    from langchain_classic.chains import ConversationalRetrievalChain

    chain = ConversationalRetrievalChain.from_llm(Model(), Shelf(), return_source_documents=True)
    history = [("Is there a lighthouse?", "Yes, on the northern cape.")]
    return invoked(chain, {"question": "When was it built?", "chat_history": history})


@program([A, B, C], retrieved="abc", needs="langchain_classic", shape="`EnsembleRetriever`")
def classic_ensemble() -> Any:
    from langchain_classic.retrievers import EnsembleRetriever

    finder = EnsembleRetriever(
        retrievers=[Shelf(documents=[A, B]), Shelf(documents=[A, C])], weights=[0.6, 0.4], id_key=None
    )
    return answered_from(finder | joined)


# ---------------------------------------------------------------- texts, quotes and conversations

TEXT_A, TEXT_B, TEXT_C = (each.page_content for each in ALL)


def answered(messages: Sequence[BaseMessage]) -> str:
    return ANSWER


def calling(name: str, says: str = "", **arguments: Any) -> AIMessage:
    return AIMessage(says, tool_calls=[{"name": name, "args": arguments or {"query": "x"}, "id": f"{name} {says}"}])


class Scripted(Model):
    """A model that calls tools only if its reply says so."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Model:
        return self


def scripted(*replies: Any) -> Model:
    """A model that gives these replies, one after the other."""
    left = list(replies)
    return Scripted(reply=lambda _: left.pop(0))


# ---------------------------------------------------------------- passages that come as text


@program([A], shape="A context string among the inputs")
def text_among_the_inputs() -> Any:
    return invoked(PROMPT | Model() | StrOutputParser(), {"context": TEXT_A, "question": QUESTION})


@program([A])
def notes_of_a_model_in_a_list() -> Any:
    """Notes of the first model are not passages, although they are a list of texts."""
    notes = PROMPT | Model(reply=lambda _: "Tower, granite.\nYear: 1869, says the note.") | StrOutputParser()
    return (
        {"context": shelf_of(A) | joined, "question": RunnablePassthrough()}
        | notes
        | (lambda text: [f"Note: {line}" for line in text.splitlines()])
        | (lambda lines: "\n".join([*lines, QUESTION]))
        | Model()
        | StrOutputParser()
    )


# ---------------------------------------------------------------- what formatters do


@program([A, B], shape="One text with two ids, which the formatter shows once")
def one_text_under_two_ids() -> Any:
    again = Document(TEXT_A, id="a2")

    def once(found: list[Document]) -> str:
        return "\n".join(dict.fromkeys(each.page_content for each in found))

    context = Shelf(documents=[A, again, B]) | once
    return answered_from(context)


@program([A, B], retrieved="ab", shape="Passages in content blocks of the prompt")
def content_blocks_in_the_prompt() -> Any:
    def blocks(found: list[Document]) -> list[BaseMessage]:
        parts: list[Any] = [{"type": "text", "text": each.page_content} for each in found]
        return [SystemMessage("Answer from these."), HumanMessage([*parts, {"type": "text", "text": QUESTION}])]

    return shelf_of(A, B) | blocks | Model() | StrOutputParser()


# ---------------------------------------------------------------- chains of several calls


@program([A, B], retrieved="ab", answer="Der Leuchtturm wurde 1869 gebaut.")
def translated_afterwards() -> Any:
    told = answered_from(shelf_of(A, B) | joined)
    german = ChatPromptTemplate.from_template("Into German: {text}")
    return {"text": told} | german | Model(reply=lambda _: "Der Leuchtturm wurde 1869 gebaut.") | StrOutputParser()


# ---------------------------------------------------------------- graphs


class Asked(BaseModel):
    """A graph's state."""

    question: str
    documents: list[Any] = Field(default_factory=list)
    answer: str = ""


@program([A, B], retrieved="ab", needs="langgraph", shape="A pydantic object as state and input")
def pydantic_state() -> Any:
    def find(state: Any) -> Any:
        return {"documents": shelf_of(A, B).invoke(state.question)}

    def tell(state: Any) -> Any:
        return {"answer": Model().invoke(f"{joined(state.documents)}\n{state.question}").content}

    return invoked(graph_of(Asked, ("find", find), ("tell", tell)), Asked(question=QUESTION))


def harbour_first(second: str, tell: Callable[[Any], Any], found: Callable[[str], list[Document]]) -> Any:
    """A graph that stores its documents in the thread's state; only the second question counts."""
    nodes = (("find", lambda state: {"documents": found(state["question"])}), ("tell", tell))
    graph = graph_of(Growing, *nodes, checkpointer=memory())

    def run(config: Any) -> Any:
        graph.invoke({"question": "When do ferries leave?"}, THREAD)
        return graph.invoke({"question": second}, {**config, **THREAD})

    return run


def tell_all(state: Any) -> Any:
    said = "You are welcome." if "thanks" in state["question"] else ANSWER
    return {"answer": Model(reply=lambda _: said).invoke(f"{joined(state['documents'])}\n{state['question']}").content}


@program([A], retrieved="a", needs="langgraph", shape="A later turn whose prompt shows an earlier turn's documents too")
def documents_of_all_turns_shown() -> Any:
    return harbour_first(
        QUESTION, tell_all, lambda asked: Shelf(documents=[C if "ferries" in asked else A]).invoke(asked)
    )


# ---------------------------------------------------------------- agents


def agent_asked(model: Model, *tools: Any, question: str = QUESTION, **options: Any) -> Any:
    from langchain.agents import create_agent

    return invoked(create_agent(model, list(tools), **options), {"messages": [HumanMessage(question)]})


@program(["21 degrees"], answer="It is 21 degrees.", needs="langchain", shape="A tool that returns a few words")
def weather() -> Any:
    return agent_asked(Model(reply=lambda _: "It is 21 degrees."), tool_giving("21 degrees"))


@program([A, B], needs="langchain", shape="A text next to a tool call that quotes the first tool's output")
def a_word_beside_a_tool_call() -> Any:
    history, today = tool_giving(TEXT_A, name="history"), tool_giving(TEXT_B, name="today")
    second = calling("today", f"{TEXT_A} Let me see what is there today.")
    return agent_asked(scripted(calling("history"), second, ANSWER), history, today)


@program([A, B], needs="langchain", shape="A tool that returns content blocks, or Anthropic's search results")
def tool_with_search_results() -> Any:
    results = [
        {"type": "search_result", "source": each.id, "title": "-", "content": [{"type": "text", "text": text}]}
        for each, text in ((A, TEXT_A), (B, TEXT_B))
    ]
    return agent_asked(Model(reply=answered), tool_giving(results))


@program([A, B], retrieved="ab", needs="langchain")
def tool_with_a_command() -> Any:
    from langgraph.types import Command

    @tool
    def look_up(query: str, call: Annotated[str, InjectedToolCallId]) -> Any:
        """Look things up."""
        found = store_of([A, B]).similarity_search(QUESTION, k=2)
        message = ToolMessage(joined(found), tool_call_id=call, artifact=found)
        return Command(update={"messages": [message]})

    return agent_asked(scripted(calling("look_up"), ANSWER), look_up)


# ---------------------------------------------------------------- agents over several turns


def thread_of(question: str, reply: Any, *, earlier: Sequence[str] = ("Do ferries leave on Sundays?",)) -> Any:
    """An agent with a memory: the earlier questions are asked without a handler, then ``question`` with it."""
    from langchain.agents import create_agent

    @tool
    def look_up(query: str) -> str:
        """Look things up."""
        (found,) = store_of(ALL).similarity_search(query, k=1)
        return found.page_content

    def told(messages: Sequence[BaseMessage]) -> Any:
        asked = str(next(each for each in reversed(messages) if each.type == "human").content)
        if asked in earlier or asked == QUESTION:
            if messages[-1].type == "tool":
                return ANSWER if asked == QUESTION else str(messages[-1].content)
            return calling("look_up", query=asked)
        return reply()

    agent = create_agent(Scripted(reply=told), [look_up], checkpointer=memory())

    def run(config: Any) -> Any:
        for asked in earlier:
            agent.invoke({"messages": [HumanMessage(asked)]}, THREAD)
        return agent.invoke({"messages": [HumanMessage(question)]}, {**config, **THREAD})

    return run


@program(
    [],
    answer="You are welcome.",
    question="Many thanks!",
    needs="langchain",
    shape="Small talk after a turn that searched",
)
def small_talk_after_a_search() -> Any:
    return thread_of("Many thanks!", lambda: "You are welcome.")


@program([C], answer=TEXT_C, question="Say that again?", needs="langchain", shape="A turn that quotes an earlier turn")
def an_earlier_result_quoted() -> Any:
    return thread_of("Say that again?", lambda: TEXT_C)


@program([C], answer="Ferries leave the harbour at ten.", question="At what hour?", needs="langchain")
def an_earlier_result_told_wrongly() -> Any:
    return thread_of("At what hour?", lambda: "Ferries leave the harbour at ten.")


@program([A], needs="langchain", shape="A third turn with its own search")
def a_third_turn_with_its_own_search() -> Any:
    return thread_of(QUESTION, lambda: "", earlier=("Do ferries leave on Sundays?", "Who walks down each morning?"))


# ---------------------------------------------------------------- several results, several calls


@program([A, C], needs="langchain")
def one_tool_asked_twice() -> Any:
    calls = calling("look_up", TEXT_A), calling("look_up", f"So: {TEXT_A} Now the ferries.", query="ferries")
    return agent_asked(scripted(*calls, ANSWER), tool_giving(TEXT_A, TEXT_C))


# ---------------------------------------------------------------- the page

_HEAD = """# What counts as question, contexts and answer

The table shows what the callback detects in each kind of program. `a`, `b` and `c` are ids of documents; "text" is a
passage without an id. `python tests/adapters/langchain/programs.py` runs the programs and writes this page.

| program | question | retrieved | contexts: what the model saw | answer |
|---|---|---|---|---|
"""


def line(program: Program) -> str:
    """The program's line in the table, as it comes out."""
    import mlflow_ragmetrics as rm

    found: list[Any] = []
    with rm.RagMetricsCallback("coherence", sink=lambda sample, _: found.append(sample), **program.options) as handler:
        program.build()({"callbacks": [handler]})
    if not found:
        return f"| {program.shape} | | | | none: not scored |"
    sample = found[0]
    retrieved = ", ".join(sample.retrieved_doc_ids or ())
    named = ", ".join(each.id or "text" for each in sample.contexts or ()) or "nothing retrieved"
    seen = "unknown: skipped" if sample.contexts is None else named
    return f"| {program.shape} | {sample.question} | {retrieved} | {seen} | {sample.answer} |"


def main() -> None:
    """Write the page."""
    from tests.adapters.langchain import programs

    page = Path(__file__).parents[3] / "docs" / "guides" / "langchain.md"
    page.parent.mkdir(exist_ok=True)
    lines = [line(program) for program in programs.PROGRAMS.values() if program.shape and program.runs_here]
    page.write_text(_HEAD + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
