"""A metric has one name in every door: as an assessment on traces and as a run metric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlflow
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.adapters.mlflow_watch import Watch
from tests.adapters.doors import ROWS, callback, extra_metrics, genai, genai_each, genai_rows, plugin, quiet  # noqa: F401

SUITE = ["correctness", "faithfulness", "chunk_precision", "fact_recall", "answer_relevance", "context_sufficiency"]
NAMES = {
    "rag_correctness",
    "faithfulness",
    "chunk_precision",
    "fact_recall",
    "answer_relevance",
    "rag_context_sufficiency",
    "rag_score",
}


@pytest.fixture
def suite() -> rm.Suite:
    return rm.Suite([*SUITE, rm.rag_score], judge="lexical")


def report(suite: rm.Suite) -> None:
    suite.evaluate(ROWS, progress=False).log()


def report_on_traces(suite: rm.Suite) -> None:
    _answer()
    suite.evaluate("traces:/Default", progress=False).log(feedback=True)


def plain_genai(suite: rm.Suite) -> None:
    mlflow.genai.evaluate(data=genai_rows(), scorers=rm.scorers(suite))


def traced_callback(suite: rm.Suite) -> None:
    mlflow.langchain.autolog()
    try:
        callback(suite)
    finally:
        mlflow.langchain.autolog(disable=True)


def watch(suite: rm.Suite) -> None:
    _answer()
    Watch(suite, "Default").once()


def _answer() -> None:
    """Traces of a chain whose answers are its retrieved texts."""
    for row in ROWS:
        with mlflow.start_span("answer") as span:
            span.set_inputs({"question": row["question"]})
            with mlflow.start_span("search", span_type="RETRIEVER") as found:
                found.set_outputs([{"page_content": text} for text in row["contexts"]])
            span.set_outputs(row["answer"])
        mlflow.flush_trace_async_logging()
        mlflow.log_expectation(trace_id=span.trace_id, name="expected_response", value=row["reference"])


@pytest.mark.parametrize(
    "door",
    [
        *(report, report_on_traces, plain_genai, genai, extra_metrics, traced_callback, watch),
        *(pytest.param(each, marks=pytest.mark.slow) for each in (genai_each, plugin)),
    ],
)
def test_a_metric_has_the_same_name_in_every_door(door: Callable[[rm.Suite], Any], suite: rm.Suite) -> None:
    door(suite)
    (run,) = mlflow.search_runs(output_format="list")
    means = {name.removesuffix("/mean") for name in run.data.metrics if name.endswith("/mean")}
    is_a_report = door in (report, report_on_traces, genai, genai_each, extra_metrics, plugin)
    assert means == (NAMES | {"rag_score_1to5"} if is_a_report else NAMES)
    assert not any(name.startswith(("correctness", "context_sufficiency")) for name in run.data.metrics)
    traces = mlflow.search_traces(["0"], return_type="list")
    assert len(traces) == len(ROWS)
    for trace in traces:
        assert {each.name for each in trace.info.assessments if each.feedback is not None} == NAMES
        (correctness,) = (each for each in trace.info.assessments if each.name == "rag_correctness")
        assert correctness.metadata["ragmetrics.key"] == "correctness"


@pytest.mark.parametrize("key", ["correctness", pytest.param("context_sufficiency", marks=pytest.mark.slow)])
def test_a_criterion_finds_its_metric(key: str) -> None:
    made = rm.get_scorer(key, threshold=0.99)
    result = mlflow.genai.evaluate(data=genai_rows(), scorers=[made])
    made.log(result)
    traces = mlflow.search_traces(run_id=result.run_id, return_type="list")
    values = [each.value for trace in traces for each in trace.info.assessments if each.name == f"rag_{key}"]
    assert len(values) == len(ROWS)
    assert result.passed is all(value >= 0.99 for value in values)
