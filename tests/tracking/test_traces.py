"""Complete traces with assessments in addition to the run."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import mlflow
import pytest
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.tracking import traces as traces_module
from mlflow_ragmetrics.tracking.traces import log_traces

RECORDS = [
    {
        "id": "a",
        "question": "Where?",
        "answer": "In Paris.",
        "reference": "Paris.",
        "contexts": [{"text": "P", "id": "d1"}],
    },
    {"id": "b", "question": "When?\x00", "answer": "In 1889. \ud800", "contexts": ["Built in 1889.", "It is tall."]},
    {"id": "c", "question": "Who?", "answer": "I do not know", "reference": "Eiffel"},
]


@pytest.fixture
def report() -> rm.Report:
    judge = rm.ScriptedJudge(facts=[{"text": "one", "ok": True}, {"text": "two", "ok": False}])
    return rm.Suite(["faithfulness", "correctness", "rouge"], judge=judge).evaluate(RECORDS)


def traces_of(run_id: str) -> list[Any]:
    found = mlflow.search_traces(run_id=run_id, return_type="list")
    return sorted(found, key=lambda trace: trace.info.client_request_id or trace.data.request)


@pytest.fixture(params=["one transaction", "trace by trace"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "trace by trace":
        monkeypatch.setattr(traces_module, "_write_in_one_transaction", lambda *_: False)
    return request.param


def test_a_trace_a_row_with_spans_feedback_and_expectation(report: rm.Report, way: str) -> None:
    run_id = report.log()
    traces = {json.loads(trace.data.request)["question"]: trace for trace in traces_of(run_id)}
    assert set(traces) == {"Where?", "When?\ufffd", "Who?"}
    trace = traces["Where?"]
    root, child = sorted(trace.data.spans, key=lambda span: span.parent_id is not None)
    assert (root.span_type, root.inputs, root.outputs) == ("CHAIN", {"question": "Where?"}, "In Paris.")
    assert (child.span_type, child.parent_id) == ("RETRIEVER", root.span_id)
    assert "d1" in json.dumps(child.outputs)
    by_name = {each.name: each for each in trace.info.assessments}
    assert by_name["faithfulness"].value == 0.5
    assert by_name["rag_correctness"].error.error_code == "AllJudgesFailedError"
    assert by_name["expected_response"].value == "Paris."
    assert all(each.metadata["mlflow.assessment.sourceRunId"] == run_id for each in by_name.values())
    assert mlflow.get_run(run_id).data.tags["mlflow.runType"] == "genai_evaluate"


def test_a_transaction_that_fails_leaves_nothing_and_the_traces_are_written_one_by_one(
    report: rm.Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, failures = SqlAlchemyStore.log_spans, [MlflowException("the store failed")]

    def log_spans(*arguments: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return write(*arguments, **options)

    monkeypatch.setattr(SqlAlchemyStore, "log_spans", log_spans)
    traces = traces_of(report.log())
    assert not failures
    assert [len(trace.data.spans) for trace in traces] == [2, 2, 1]
    assert [len({each.assessment_id for each in trace.info.assessments}) for trace in traces] == [4, 3, 4]


def test_rows_of_two_runs_are_paired_by_the_id_of_the_sample(report: rm.Report, way: str) -> None:
    first, second = ([t.info.client_request_id for t in traces_of(report.log())] for _ in range(2))
    assert sorted(first) == sorted(second) == ["a", "b", "c"]


def test_mlflow_lists_the_rows_in_their_order(report: rm.Report) -> None:
    found = mlflow.search_traces(run_id=report.log(), return_type="list")
    assert [trace.info.client_request_id for trace in found] == ["a", "b", "c"]


def test_skipped_scores_have_no_value_and_traces_can_be_searched(report: rm.Report, way: str) -> None:
    run_id = report.log()
    skipped = [a for t in traces_of(run_id) for a in t.info.assessments if a.name == "rouge1_f1" and a.value is None]
    assert [each.rationale[:26] for each in skipped] == ["not measured: no reference"]
    assert len(mlflow.search_traces(run_id=run_id)) == 3


def test_a_row_of_a_trace_has_its_times_and_of_others_none_are_invented(report: rm.Report) -> None:
    with mlflow.start_span("rag") as span:
        span.set_inputs({"question": "Where?"})
        time.sleep(0.05)
        span.set_outputs("In Paris.")
    mlflow.flush_trace_async_logging()
    (source,) = mlflow.search_traces(return_type="list")
    from_trace = rm.Suite(["lexical_relevance"]).evaluate([source])
    (copy,) = traces_of(from_trace.log())
    assert copy.info.request_time == source.info.request_time
    assert copy.info.execution_duration == source.info.execution_duration >= 50
    assert {trace.info.execution_duration or 0 for trace in traces_of(report.log())} == {0}


def test_logging_twice_replaces_the_traces(report: rm.Report, way: str) -> None:
    run_id = report.log()
    report.log(run_id=run_id)
    assert len(traces_of(run_id)) == len(mlflow.search_traces(run_id=run_id)) == 3


def test_traces_are_optional(report: rm.Report) -> None:
    run_id = report.log(traces=False)
    assert traces_of(run_id) == []
    assert "mlflow.runType" not in mlflow.get_run(run_id).data.tags


def test_traces_go_to_the_experiment_of_the_run(report: rm.Report, way: str) -> None:
    client = mlflow.MlflowClient()
    run_id = client.create_run(client.create_experiment("elsewhere")).info.run_id
    report.log(run_id=run_id)
    experiment_id = mlflow.get_run(run_id).info.experiment_id
    assert len(mlflow.search_traces([experiment_id], return_type="list")) == 3


@pytest.mark.parametrize("times", [60, pytest.param(700, marks=pytest.mark.slow)])
def test_no_trace_is_lost_and_a_row_takes_milliseconds_of_work(report: rm.Report, times: int) -> None:
    rows = [replace(row, sample=replace(row.sample, id=f"{i}")) for i, row in enumerate([*report.rows] * times)]
    run_id = mlflow.MlflowClient().create_run("0").info.run_id
    began = time.process_time()
    ids = log_traces(rows, run_id)
    seconds = time.process_time() - began
    found = mlflow.search_traces(run_id=run_id, return_type="list", include_spans=False)
    assert len(set(ids)) == len(found) == 3 * times
    assert sum(len(trace.info.assessments) for trace in found) == (4 + 3 + 4) * times
    assert seconds / len(rows) < 0.03


def test_a_store_without_traces_gets_a_warning_and_the_rest(report: rm.Report, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> list[str]:
        raise NotImplementedError("no traces here")

    monkeypatch.setattr(traces_module, "_write", refuse)
    with pytest.warns(UserWarning, match="no traces were written.*no traces here"):
        run_id = report.log()
    assert "faithfulness/mean" in mlflow.get_run(run_id).data.metrics


def test_a_model_is_linked_to_its_traces(report: rm.Report) -> None:
    model = mlflow.create_external_model(name="chain")
    run_id = report.log(model_id=model.model_id)
    assert {trace.info.trace_metadata["mlflow.modelId"] for trace in traces_of(run_id)} == {model.model_id}
