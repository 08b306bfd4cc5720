"""A suite's metrics as evaluators for LangSmith and openevals, without a network."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

import mlflow_ragmetrics as rm
from tests.adapters.doors import FailingJudge

INPUTS = {"question": "When was it built?"}
OUTPUTS = {"answer": "It was built in 1869.", "contexts": ["The lighthouse was built in 1869."]}
MESSAGES = [
    HumanMessage("When was it built?"),
    ToolMessage("It was built in 1869.", tool_call_id="1"),
    AIMessage("It was built in 1869."),
]


def test_one_evaluator_a_metric_and_one_evaluation_for_all() -> None:
    judge = FailingJudge(lambda text: False)
    evaluators = rm.langsmith_evaluators(rm.Suite(["faithfulness", "answer_relevance"], judge=judge))
    results = [each(inputs=INPUTS, outputs=OUTPUTS) for each in evaluators]
    once = judge.asked
    assert [result["key"] for result in results] == ["faithfulness", "answer_relevance"]
    assert [result["score"] for result in results] == [1.0, 1.0]
    evaluators[0](inputs=INPUTS, outputs=OUTPUTS)
    assert judge.asked == once > 0


THREAD = [*MESSAGES, HumanMessage("Many thanks!"), AIMessage("You are welcome.")]


def test_an_earlier_turn_s_passages_are_not_held_against_small_talk() -> None:
    [evaluator] = rm.langsmith_evaluators("faithfulness(no_context='skip')")
    assert evaluator(inputs=THREAD[:-1], outputs=THREAD)["score"] is None
    assert evaluator(inputs=THREAD[:-1], outputs=[*THREAD[:-1], AIMessage("Built in 1869.")])["score"] == 1.0


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


def test_langsmith_runs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in LangSmith's documentation of an evaluation without upload; its client uses no network."""
    langsmith = pytest.importorskip("langsmith")
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    now = datetime.now(timezone.utc)
    examples = [
        langsmith.schemas.Example(
            id=uuid4(), dataset_id=uuid4(), inputs=INPUTS, outputs={"answer": answer}, created_at=now, modified_at=now
        )
        for answer in (OUTPUTS["answer"], "Nobody knows.")
    ]
    client = langsmith.Client(api_url="http://127.0.0.1:9", api_key="none", auto_batch_tracing=False)

    def target(inputs: dict[str, Any]) -> dict[str, Any]:
        return OUTPUTS if inputs == INPUTS else {}

    evaluators: Any = rm.langsmith_evaluators("rouge")
    results = langsmith.evaluate(target, data=examples, evaluators=evaluators, client=client, upload_results=False)
    scores = [(each.key, each.score) for row in results for each in row["evaluation_results"]["results"]]
    assert [key for key, _ in scores] == ["rouge1_f1"] * 2
    assert sorted(score for _, score in scores) == [0.0, 1.0]
