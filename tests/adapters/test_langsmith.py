"""A suite's metrics are evaluators as LangSmith and openevals know them, without a network."""

from __future__ import annotations

import types
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

import mlflow_ragmetrics as rm

INPUTS = {"question": "When was it built?"}
OUTPUTS = {"answer": "It was built in 1869.", "contexts": ["The lighthouse was built in 1869."]}
MESSAGES = [
    HumanMessage("When was it built?"),
    ToolMessage("It was built in 1869.", tool_call_id="1"),
    AIMessage("It was built in 1869."),
]


def test_one_evaluator_a_metric_and_one_evaluation_for_all() -> None:
    judge = rm.ScriptedJudge(rating=5, facts=[{"text": "x", "ok": True}])
    asked: list[Any] = []
    suite = rm.Suite(["faithfulness", "answer_relevance"], judge=judge)
    original = judge.answer
    judge.answer = lambda questions: asked.append(len(questions)) or original(questions)  # type: ignore[method-assign]
    evaluators = rm.langsmith_evaluators(suite)
    results = [each(inputs=INPUTS, outputs=OUTPUTS) for each in evaluators]
    once = len(asked)
    assert [result["key"] for result in results] == ["faithfulness", "answer_relevance"]
    assert [result["score"] for result in results] == [1.0, 1.0]
    evaluators[0](inputs=INPUTS, outputs=OUTPUTS)
    assert len(asked) == once


@pytest.mark.parametrize(
    ("outputs", "context", "score"),
    [
        (OUTPUTS, None, 1.0),
        ("It was built in 1869.", ["The lighthouse was built in 1869."], 1.0),
        ("It was built in 1923.", "The lighthouse was built in 1869.", 0.0),
        (MESSAGES, None, 1.0),
        ({"messages": MESSAGES}, None, 1.0),
    ],
)
def test_texts_mappings_and_messages(outputs: Any, context: Any, score: float) -> None:
    [evaluator] = rm.langsmith_evaluators("faithfulness")
    assert evaluator(inputs=INPUTS, outputs=outputs, context=context)["score"] == score


def test_what_is_missing_is_said() -> None:
    [evaluator] = rm.langsmith_evaluators("rouge")
    result = evaluator(inputs=INPUTS, outputs=OUTPUTS)
    assert result["score"] is None
    assert "reference" in result["comment"]
    assert evaluator(inputs=INPUTS, outputs=OUTPUTS, reference_outputs={"answer": OUTPUTS["answer"]})["score"] == 1.0


def test_langsmith_runs_them() -> None:
    evaluation = pytest.importorskip("langsmith.evaluation.evaluator")
    [evaluator] = rm.langsmith_evaluators("rouge")
    wrapped = evaluation.DynamicRunEvaluator(evaluator)
    run = types.SimpleNamespace(inputs=INPUTS, outputs=OUTPUTS, id=None)
    example = types.SimpleNamespace(inputs=INPUTS, outputs={"answer": OUTPUTS["answer"]}, attachments={})
    _, prepare = evaluation._normalize_evaluator_func(evaluator)
    assert wrapped is not None
    arguments, named, _ = prepare(run, example)
    assert evaluator(*arguments, **named)["score"] == 1.0
