"""Programs with passages as plain text, answers and drafts that quote them, and conversations of several turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict
from xml.sax.saxutils import escape

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.tools import InjectedToolCallId, tool
from pydantic import BaseModel, Field

from tests.adapters.langchain import programs as table
from tests.adapters.langchain.programs import (
    ALL,
    PROMPT,
    QUESTION,
    A,
    B,
    C,
    Growing,
    Model,
    Shelf,
    answered_from,
    graph_of,
    invoked,
    joined,
    program,
    shelf_of,
    store_of,
    tool_giving,
)

QUOTED = Document('The keeper said "mind the step" & left; it was <1869>.', id="q")
TEXT_A, TEXT_B, TEXT_C = (each.page_content for each in ALL)


def answered(messages: Sequence[BaseMessage]) -> str:
    return table.ANSWER


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


class Texts(TypedDict, total=False):
    question: str
    context: list[str]
    draft: str
    answer: str


def texts_found(state: Any) -> Any:
    found = store_of([A, B]).similarity_search(state["question"], k=2)
    return {"context": [each.page_content for each in found]}


def drafted(state: Any) -> Any:
    return {"draft": Model(reply=lambda _: TEXT_A).invoke("\n".join([*state["context"], QUESTION])).content}


def from_draft(state: Any) -> Any:
    return {"answer": Model().invoke(f"Better this draft: {state['draft']}\n{state['context'][1]}\n{QUESTION}").content}


@program([A, B], needs="langgraph", shape="LangGraph: texts in the state, a draft that quotes one, an answer")
def texts_in_the_state() -> Any:
    nodes = (("find", texts_found), ("draft", drafted), ("better", from_draft))
    return invoked(graph_of(Texts, *nodes), {"question": QUESTION})


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


@program([QUOTED, A], retrieved="qa", shape="Passages escaped for XML, with quotes")
def escaped_for_xml() -> Any:
    def fenced(found: list[Document]) -> str:
        quotes = {'"': "&quot;", "'": "&apos;"}
        return "\n".join(f"<doc id={each.id!r}>{escape(each.page_content, quotes)}</doc>" for each in found)

    context = (lambda _: "keeper said mind the step, it was built") | shelf_of(QUOTED, A) | fenced
    return answered_from(context)


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
    graph = graph_of(Growing, *nodes, checkpointer=table.memory())

    def run(config: Any) -> Any:
        graph.invoke({"question": "When do ferries leave?"}, table.THREAD)
        return graph.invoke({"question": second}, {**config, **table.THREAD})

    return run


def tell_all(state: Any) -> Any:
    said = "You are welcome." if "thanks" in state["question"] else table.ANSWER
    return {"answer": Model(reply=lambda _: said).invoke(f"{joined(state['documents'])}\n{state['question']}").content}


@program([A], retrieved="a", needs="langgraph", shape="A later turn whose prompt shows an earlier turn's documents too")
def documents_of_all_turns_shown() -> Any:
    return harbour_first(
        QUESTION, tell_all, lambda asked: Shelf(documents=[C if "ferries" in asked else A]).invoke(asked)
    )


@program([], answer="You are welcome.", question="Many thanks!", needs="langgraph")
def small_talk_over_documents_of_the_thread() -> Any:
    return harbour_first("Many thanks!", tell_all, lambda asked: shelf_of(C).invoke(asked) if "?" in asked else [])


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
    return agent_asked(scripted(calling("history"), second, table.ANSWER), history, today)


@program(["Results for 'the year in which the lighthouse was built': " + TEXT_A], needs="langchain")
def tool_that_repeats_its_query() -> Any:
    query = "the year in which the lighthouse was built"
    look_up = tool_giving(f"Results for {query!r}: {TEXT_A}")
    return agent_asked(scripted(calling("look_up", query=query), table.ANSWER), look_up)


@program([A], needs="langchain")
def tool_that_keeps_a_note() -> Any:
    """Notes that the model wrote itself are not passages, although a tool returns them."""

    @tool
    def note(text: str) -> str:
        """Keep a note."""
        return f"Saved: {text}"

    kept = "The visitor wants to know the year of building."
    model = scripted(calling("note", text=kept), calling("look_up"), table.ANSWER)
    return agent_asked(model, note, tool_giving(TEXT_A))


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

    return agent_asked(scripted(calling("look_up"), table.ANSWER), look_up)


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
                return table.ANSWER if asked == QUESTION else str(messages[-1].content)
            return calling("look_up", query=asked)
        return reply()

    agent = create_agent(Scripted(reply=told), [look_up], checkpointer=table.memory())

    def run(config: Any) -> Any:
        for asked in earlier:
            agent.invoke({"messages": [HumanMessage(asked)]}, table.THREAD)
        return agent.invoke({"messages": [HumanMessage(question)]}, {**config, **table.THREAD})

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


@program([A], question="Once more?", needs="langchain")
def a_conversation_given_whole() -> Any:

    found = ToolMessage(TEXT_A, tool_call_id="look_up ", name="look_up")
    turns = [HumanMessage(QUESTION), calling("look_up"), found, AIMessage(TEXT_A), HumanMessage("Once more?")]
    return table.agent_of(tool_giving(TEXT_A), model=Scripted(reply=answered), messages=turns)


# ---------------------------------------------------------------- several results, several calls


@program([A, B], needs="langchain")
def tool_that_gives_a_list_of_texts() -> Any:
    return agent_asked(scripted(calling("look_up"), table.ANSWER), tool_giving([TEXT_A, TEXT_B]))


@program([A, C], needs="langchain")
def one_tool_asked_twice() -> Any:
    calls = calling("look_up", TEXT_A), calling("look_up", f"So: {TEXT_A} Now the ferries.", query="ferries")
    return agent_asked(scripted(*calls, table.ANSWER), tool_giving(TEXT_A, TEXT_C))


@program(["21 degrees", "It is 21 degrees and sunny in the north."], needs="langchain")
def one_result_within_another() -> Any:
    calls = calling("look_up"), calling("look_up", "It is 21 degrees.", query="north")
    results = tool_giving("21 degrees", "It is 21 degrees and sunny in the north.")
    return agent_asked(scripted(*calls, table.ANSWER), results)
