"""Chains and traces in the situations that public reports name; guards of agents are in ``test_middleware``."""

from __future__ import annotations

import time
import uuid
from typing import Any

import mlflow
import pytest
from click.testing import CliRunner
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main
from tests.adapters.langchain.programs import Model

LAMP = "The lamp is 41 metres tall."
DOCUMENTS = [Document(page_content=LAMP), Document(page_content="The mill is old.")]


@pytest.mark.parametrize(
    "outputs", [(LAMP, DOCUMENTS), {"answer": LAMP, "context": DOCUMENTS}], ids=["answer_and_documents", "mapping"]
)
def test_chain_tuple(outputs: Any) -> None:
    rows = [{"question": "How tall is the lamp?"}]
    report = rm.evaluate_chain(lambda question: outputs, rows, ["faithfulness"], input_key="question")
    score = report.rows[0].scores["faithfulness"]
    assert score.value == 1.0 or "tuple" in str(score.error)


@pytest.mark.parametrize("answers", [1, 10])
def test_deleted_run(answers: int) -> None:
    """The chain goes on, later answers go to another run, and closing does not hang."""
    experiment = mlflow.set_experiment("deleted").experiment_id
    chain = RunnableLambda(lambda inputs: {"answer": LAMP, "context": [LAMP]})
    client = mlflow.MlflowClient()
    with rm.RagMetricsCallback(["faithfulness"]) as handler:
        for count in (answers, 5):
            for n in range(count):
                chain.invoke({"question": f"How high is {n}?"}, config={"callbacks": [handler]})
            started = time.monotonic()
            assert handler.flush(20)
            assert time.monotonic() - started < 20
            runs = client.search_runs([experiment])
            assert len(runs) == 1
            client.delete_run(runs[0].info.run_id)


def test_feedback_twice() -> None:
    """The same traces evaluated again keep one valid assessment of a name and source (mlflow/mlflow#21002)."""
    experiment = mlflow.set_experiment("twice").experiment_id
    mlflow.trace(lambda question: {"answer": LAMP, "contexts": [LAMP]})("How tall is the lamp?")
    mlflow.flush_trace_async_logging()
    for _ in range(2):
        command = ["evaluate", "traces:/twice", "-m", "faithfulness", "--feedback", "--worst", "0"]
        assert CliRunner().invoke(main, command).exit_code == 0
    traces = mlflow.search_traces(locations=[experiment], return_type="list")
    assessments = [assessment for trace in traces for assessment in trace.info.assessments]
    assert [assessment.name for assessment in assessments if assessment.valid is not False] == ["faithfulness"]


def test_return_direct() -> None:
    """The answer of an agent whose last tool gives it, with the passages found before."""

    @tool(response_format="content_and_artifact")
    def find(query: str) -> tuple[str, list[Document]]:
        """Search."""
        return LAMP, DOCUMENTS[:1]

    @tool(return_direct=True)
    def final_answer(text: str) -> str:
        """Give the final answer."""
        return text

    def reply(messages: Any) -> AIMessage:
        is_found = any(message.type == "tool" for message in messages)
        name, args = ("final_answer", {"text": LAMP}) if is_found else ("find", {"query": "lamp"})
        return AIMessage("", tool_calls=[{"name": name, "args": args, "id": name}])

    answers = []
    with rm.RagMetricsCallback(
        ["faithfulness"], sink=lambda sample, scores: answers.append((sample.answer, scores["faithfulness"].value))
    ) as handler:
        inputs: Any = {"messages": [{"role": "user", "content": "How tall is the lamp?"}]}
        create_agent(Model(reply=reply), [find, final_answer]).invoke(inputs, config={"callbacks": [handler]})
    assert answers == [(LAMP, 1.0)]


class Find(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return DOCUMENTS[:1]


def test_run_id_twice() -> None:
    """A second call with the same run_id (a retry) keeps its contexts (langfuse/langfuse#808)."""
    gather = {"context": Find() | (lambda documents: documents[0].page_content), "question": RunnablePassthrough()}
    chain = gather | RunnableLambda(lambda state: state["context"])
    values, request = [], uuid.uuid4()
    with rm.RagMetricsCallback(
        ["faithfulness"], sink=lambda sample, scores: values.append(scores["faithfulness"].value)
    ) as handler:
        for _ in range(2):
            chain.invoke("How tall is the lamp?", config={"callbacks": [handler], "run_id": request})
    assert values == [1.0, 1.0]
