"""Score a LangGraph agent with a retrieval tool while it answers.

By default a stand-in model calls the tool and quotes its result, and the offline judge scores. With one argument, that
model does both::

    python examples/langgraph_agent.py
    python examples/langgraph_agent.py openai:/gpt-4o-mini

The contexts of an answer are the passages that the tool returned and the model received. Results go to
``MLFLOW_TRACKING_URI``, by default ``sqlite:///mlflow.db``. Needs ``pip install langchain langgraph``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import mlflow
from corpus.chain import QuotingModel, WordRetriever, model_of, read_questions
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import create_retriever_tool
from langgraph.checkpoint.memory import InMemorySaver

import mlflow_ragmetrics as rm

INSTRUCTIONS = "Look every question up with search_articles. Answer in one or two sentences, from what it gives only."


def main() -> None:
    uri = sys.argv[1] if len(sys.argv) > 1 else None
    mlflow.set_tracking_uri(os.environ.get("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db"))
    mlflow.set_experiment("LangGraph agent")
    suite = rm.Suite(["faithfulness", "answer_relevance", "context_recall"], judge=uri or "lexical")
    questions = read_questions()[:5]
    agent = made_agent(uri)
    scored: list[tuple[Any, Any]] = []
    with (
        mlflow.start_run(run_name="live") as run,
        rm.RagMetricsCallback(suite, sink=lambda *row: scored.append(row), log=True) as handler,
    ):
        for number, row in enumerate(questions):
            config: Any = {"callbacks": [handler], "configurable": {"thread_id": str(number)}}
            config["metadata"] = {"gold_doc_ids": row["gold_doc_ids"]}
            agent.invoke({"messages": [{"role": "user", "content": row["question"]}]}, config)
    for sample, scores in scored:
        figures = ", ".join(f"{key} {shown(score)}" for key, score in scores.items())
        print(f"{sample.question}\n  {sample.answer}\n  seen: {', '.join(sample.context_ids or ())}\n  {figures}")
    print(f"\n{handler.counts['scored']} of {handler.counts['seen']} answers scored into the run {run.info.run_id}")


def shown(score: rm.Score) -> str:
    return "-" if score.value is None else f"{score.value:.2f}"


def made_agent(uri: str | None) -> Runnable[Any, Any]:
    """An agent that looks things up and remembers each conversation."""
    tool = create_retriever_tool(
        WordRetriever(count=2),
        "search_articles",
        "Search the articles for passages about a question.",
        response_format="content_and_artifact",  # keeps the ids of the documents
    )
    model = LookingUpModel() if uri is None else model_of(uri)
    return create_agent(model, [tool], system_prompt=INSTRUCTIONS, checkpointer=InMemorySaver())


class LookingUpModel(QuotingModel):
    """Replaces a model that calls tools: looks the question up, then quotes a sentence of the result."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> LookingUpModel:
        return self

    def _generate(self, messages: list[BaseMessage], *more: Any, **options: Any) -> ChatResult:
        question = next(str(each.content) for each in reversed(messages) if each.type == "human")
        if messages[-1].type == "tool":
            asked = AIMessage(f"From these passages:\n\n{messages[-1].content}\n\nQuestion: {question}")
            return super()._generate([asked], *more, **options)
        call: Any = {"name": "search_articles", "args": {"query": question}, "id": f"call-{len(messages)}"}
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=[call]))])


if __name__ == "__main__":
    main()
