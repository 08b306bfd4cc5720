"""The doors through which a suite can score the same rows; each function returns what the run contains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlflow
import pandas as pd
import pytest
from langchain_core.runnables import RunnableLambda

import mlflow_ragmetrics as rm

__all__ = ["DOORS", "Door", "directly", "suite_of"]

ROWS: list[dict[str, Any]] = [
    {
        "question": f"How tall is tower {number}?",
        "answer": f"Tower {number} is {number}0 metres tall. It is blue [1].",
        "reference": f"Tower {number} is {number}0 metres tall.",
        "contexts": [f"Tower {number} is {number}0 metres tall and red.", "It rains at the sea."],
        "retrieved_doc_ids": [f"tower-{number}", "rain"],
        "gold_doc_ids": [f"tower-{number}"],
    }
    for number in (1, 2, 3)
]
COLUMNS = {name: name for name in ROWS[0] if name not in ("answer", "reference")}


def suite_of(name: str) -> rm.Suite:
    kind, _, preset = name.rpartition("preset ")
    return rm.Suite([preset]) if preset == name or kind else rm.Suite.preset(preset)


def directly(suite: rm.Suite) -> dict[str, float]:
    return dict(suite.evaluate(ROWS, progress=False).metrics)


def extra_metrics(suite: rm.Suite) -> dict[str, float]:
    frame = pd.DataFrame(ROWS)
    mlflow.models.evaluate(
        data=frame, predictions="answer", targets="reference", extra_metrics=rm.extra_metrics(suite, COLUMNS)
    )
    return logged()


def plugin(suite: rm.Suite) -> dict[str, float]:
    mlflow.models.evaluate(
        data=pd.DataFrame(ROWS),
        predictions="answer",
        targets="reference",
        model_type="rag",
        evaluators="ragmetrics",
        evaluator_config={"suite": suite},
    )
    return logged()


def genai(suite: rm.Suite) -> dict[str, float]:
    made = rm.scorer(suite)
    made.log(mlflow.genai.evaluate(data=genai_rows(), scorers=[made]))
    return logged()


def genai_each(suite: rm.Suite) -> dict[str, float]:
    made = rm.scorers(suite)
    made[0].log(mlflow.genai.evaluate(data=genai_rows(), scorers=made))
    return logged()


def genai_rows() -> list[dict[str, Any]]:
    return [
        {
            "inputs": {"question": row["question"], "contexts": row["contexts"]},
            "outputs": {"answer": row["answer"], "retrieved_doc_ids": row["retrieved_doc_ids"]},
            "expectations": {
                "expected_response": row["reference"],
                "expected_retrieved_context": [{"doc_uri": uri} for uri in row["gold_doc_ids"]],
            },
        }
        for row in ROWS
    ]


def callback(suite: rm.Suite) -> dict[str, float]:
    known = {row["question"]: row for row in ROWS}
    keep = ("answer", "contexts")
    chain = RunnableLambda(lambda given: {name: known[given["question"]][name] for name in keep})
    with rm.RagMetricsCallback(
        suite,
        references=lambda question: known[question]["reference"],
        gold_doc_ids=lambda question: known[question]["gold_doc_ids"],
        contexts=lambda outputs, inputs: [
            {"text": text, "id": uri}
            for text, uri in zip(outputs["contexts"], known[inputs["question"]]["retrieved_doc_ids"], strict=True)
        ],
    ) as handler:
        for row in ROWS:
            chain.invoke({"question": row["question"]}, {"callbacks": [handler]})
        assert handler.flush(60)
        assert handler.counts["scored"] == handler.counts["seen"] == len(ROWS)
    return logged()


def logged() -> dict[str, float]:
    (run,) = mlflow.search_runs(output_format="list")
    assert run.info.status == "FINISHED"
    return dict(run.data.metrics)


Door = Callable[[rm.Suite], dict[str, float]]
DOORS = [pytest.param(door, id=door.__name__) for door in (extra_metrics, plugin, genai, genai_each, callback)]
