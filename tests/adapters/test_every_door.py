"""Every metric and every preset through every door, with the offline judge: the same means, and no run that fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import mlflow
import pandas as pd
import pytest
from langchain_core.runnables import RunnableLambda

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.registry import all_metrics
from mlflow_ragmetrics.selection import PRESETS

pytest.importorskip("mlflow.genai.evaluation.harness", reason="this MLflow cannot evaluate outside Databricks")

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

NAMES = sorted({*all_metrics(), "ndcg_5", *(f"preset {name}" for name in PRESETS)})
OFTEN = {"ndcg_5", "faithfulness", "rag_score", "preset retrieval"}
CASES = [pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow) for name in NAMES]


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


DOORS = [extra_metrics, plugin, genai, genai_each, callback]


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MLFLOW_GENAI_EVAL_MAX_WORKERS", "2")
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    yield
    logging.getLogger("mlflow").setLevel(logging.NOTSET)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@pytest.mark.parametrize("name", CASES)
def test_every_metric_has_the_same_mean_through_every_door(name: str, door: Callable[..., dict[str, float]]) -> None:
    suite = suite_of(name)
    expected = {key: directly(suite).get(f"{key}/mean") for key in suite.keys}
    assert any(value is not None for value in expected.values())
    found = door(suite)
    assert {key: found.get(f"{key}/mean") for key in suite.keys} == pytest.approx(expected)
    assert "" not in found
    assert not any(name.endswith("/") for name in found)


def test_no_metric_is_forgotten() -> None:
    assert {name for name, each in all_metrics().items() if isinstance(each, Metric)} <= set(NAMES)
