from __future__ import annotations

import mlflow
import pytest
from mlflow.entities import AssessmentSource

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidDataError
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.results.labels import feedback_labels, has_feedback

PERSON = AssessmentSource(source_type="HUMAN", source_id="ann@example.com")
MODEL = AssessmentSource(source_type="LLM_JUDGE", source_id="judge")


def trace(number: int) -> str:
    with mlflow.start_span(f"answer {number}") as span:
        span.set_inputs({"question": f"question {number}"})
        span.set_outputs("an answer")
    mlflow.flush_trace_async_logging()
    return span.trace_id


def given(trace_id: str, name: str, value: object, source: AssessmentSource = PERSON) -> None:
    mlflow.log_feedback(trace_id=trace_id, name=name, value=value, source=source)


def report(trace_ids: list[str]) -> Report:
    rows = [
        Row(Sample(id=f"r{n}", metadata={"trace_id": each}), {"faithfulness": Score(0.9 if n % 2 else 0.2)})
        for n, each in enumerate(trace_ids)
    ]
    return Report(rows)


@pytest.mark.parametrize("kind", ["pandas", "list"])
def test_peoples_feedback_on_traces_are_labels(kind: str) -> None:
    ids = [trace(number) for number in range(4)]
    for number, each in enumerate(ids[:3]):
        given(each, "faithfulness", bool(number % 2))
        given(each, "faithfulness", not number % 2, MODEL)
    traces = mlflow.search_traces(return_type=kind)
    assert has_feedback(traces)
    found = rm.calibrate(report(ids), traces)
    assert (found.rows, found.unlabelled) == (3, 1)
    assert (found.at_default.found, found.at_default.cleared) == (2, 1)


def test_feedback_of_one_other_name_is_meant_and_of_several_not() -> None:
    one = trace(1)
    given(one, "thumbs", True)
    assert feedback_labels(mlflow.search_traces(), "faithfulness")[one] is True
    given(one, "style", False)
    with pytest.raises(InvalidDataError, match="thumbs, style"):
        feedback_labels(mlflow.search_traces(), "faithfulness")


def test_without_peoples_feedback_it_is_refused() -> None:
    given(trace(1), "faithfulness", True, MODEL)
    with pytest.raises(InvalidDataError, match="no human feedback"):
        feedback_labels(mlflow.search_traces(), "faithfulness")
