"""Chains that return only a text, evaluated by MLflow: their contexts come from their traces, or are unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pytest

import mlflow_ragmetrics as rm

CHAIN = """
import mlflow
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda

class Library(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        if "nothing" in query:
            return []
        return [Document(page_content="The tower is red and tall.", id="tower::chunk-1")]

ask = RunnableLambda(lambda inputs: inputs["question"])
answer = RunnableLambda(lambda found: "The tower is blue and small." if found else "The tower is round.")
RETRIEVES = ask | Library() | answer | StrOutputParser()
MODEL_ONLY = RunnableLambda(lambda inputs: "The tower is blue and small.") | StrOutputParser()

mlflow.models.set_model({chain})
"""

DATA = pd.DataFrame({"question": ["What is it?", "How is it?", "And nothing?"], "gold": [["tower"]] * 3})


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    """Enables tracing, regardless of earlier tests in this process."""
    mlflow.langchain.autolog()
    yield
    mlflow.langchain.autolog(disable=True)


def with_extra_metrics(suite: rm.Suite, **options: Any) -> Any:
    return mlflow.models.evaluate(data=DATA, extra_metrics=rm.extra_metrics(suite, {"gold_doc_ids": "gold"}), **options)


def with_plugin(suite: rm.Suite, **options: Any) -> Any:
    config = {"suite": suite, "columns": {"gold_doc_ids": "gold"}}
    return mlflow.models.evaluate(
        data=DATA, model_type="rag", evaluators="ragmetrics", evaluator_config=config, **options
    )


DOORS = pytest.mark.parametrize("evaluate", [with_extra_metrics, with_plugin])


def logged(folder: Path, chain: str) -> str:
    path = folder / "chain.py"
    path.write_text(CHAIN.replace("{chain}", chain), encoding="utf-8")
    with mlflow.start_run():
        example = {"question": "What?"}
        return str(
            mlflow.langchain.log_model(str(path), name="chain", input_example=example, pip_requirements=[]).model_uri
        )


@pytest.mark.slow
@DOORS
def test_contexts_of_a_string_chain_come_from_its_traces(evaluate: Callable[..., Any], tmp_path: Path) -> None:
    suite = rm.Suite(["faithfulness", "context_recall"])
    metrics = evaluate(suite, model=logged(tmp_path, "RETRIEVES")).metrics
    assert (metrics["faithfulness/n_measured"], metrics["faithfulness/n_no_context"]) == (2, 1)
    assert metrics["faithfulness/mean"] == 0.0  # the row without retrieved passages has a value set by a rule
    assert metrics["context_recall/mean"] == pytest.approx(2 / 3)


@DOORS
def test_a_chain_without_a_retriever_is_refused(evaluate: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(Exception, match="needs the field 'contexts' and no row has it"):
        evaluate(rm.Suite(["faithfulness"]), model=logged(tmp_path, "MODEL_ONLY"))
