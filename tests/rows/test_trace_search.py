"""Traces as data, in time order, each once, while traces are added and deleted."""

from __future__ import annotations

import time
from collections.abc import Sequence

import mlflow
import pytest
from mlflow.entities import TraceInfo, TraceLocation, TraceState
from mlflow.tracing.client import TracingClient

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.rows import trace_records
from mlflow_ragmetrics.rows.trace_records import TraceSearch, milliseconds, moment


@pytest.fixture
def experiment() -> str:
    return str(mlflow.set_experiment("live").experiment_id)


def begun(experiment: str, times: Sequence[int], prefix: str = "t", state: TraceState = TraceState.OK) -> list[str]:
    """Traces without spans that started at these times."""
    ids = [f"tr-{prefix}{number}" for number in range(len(times))]
    for trace_id, began in zip(ids, times, strict=True):
        location = TraceLocation.from_experiment_id(experiment)
        TracingClient().start_trace(TraceInfo(trace_id, location, request_time=began, state=state))
    return ids


def found(search: TraceSearch) -> list[str]:
    return [info.trace_id for info in search.infos()]


def test_pages_hold_each_trace_once_also_where_many_began_at_once(
    experiment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_records, "_PAGE", 3)
    ids = begun(experiment, [5, 1, 2, 2, 2, 2, 2, 2, 2, 3, 3, 9, 4])
    assert sorted(found(TraceSearch(experiment))) == sorted(ids)
    assert len(found(TraceSearch(experiment))) == len(ids)
    assert found(TraceSearch(experiment, since=4, until=9)) == ["tr-t12", "tr-t0"]


def test_what_arrives_or_goes_meanwhile_moves_no_page(experiment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_records, "_PAGE", 3)
    ids = begun(experiment, [10, 20, 30, 40, 50, 60, 70, 80])
    seen = []
    for number, info in enumerate(TraceSearch(experiment).infos()):
        seen.append(info.trace_id)
        if number == 1:
            begun(experiment, [5, 6, 7, 25, 55], prefix="late")
        if number == 4:
            mlflow.MlflowClient().delete_traces(experiment, trace_ids=ids[:3])
    assert [name for name in seen if "late" not in name] == ids
    assert len(set(seen)) == len(seen)
    assert "tr-late4" in seen


def test_the_sample_is_the_same_each_time_and_part_of_larger_ones(experiment: str) -> None:
    begun(experiment, list(range(100)))
    some, more = (found(TraceSearch(experiment, sample=share)) for share in (0.2, 0.5))
    assert set(some) < set(more)
    assert 8 <= len(some) <= 33
    assert 33 <= len(more) <= 67
    assert some == found(TraceSearch(experiment, sample=0.2))


def test_an_address_is_data_for_a_suite(experiment: str) -> None:
    for number in range(3):
        with mlflow.start_span("answer") as span:
            span.set_inputs({"question": f"How high is tower {number}?"})
            span.set_outputs("It is 330 metres high. It is red.")
    with pytest.raises(ValueError), mlflow.start_span("failed"):
        raise ValueError("no answer")
    mlflow.flush_trace_async_logging()
    suite = rm.Suite(["coherence"])
    report = suite.evaluate("traces:/live?since=1h", progress=False)
    assert {row.sample.question for row in report.rows} == {f"How high is tower {number}?" for number in range(3)}
    run_id = report.log(feedback=True)
    assert mlflow.get_run(run_id).data.params["data"] == "live?since=1h"
    filtered = "traces:/live?filter=feedback.coherence%20IS%20NOT%20NULL%20AND%20trace.name%20%3D%20'answer'"
    assert len(suite.evaluate(filtered, progress=False)) == 3


@pytest.mark.parametrize(
    ("address", "error", "says"),
    [
        ("traces:/nowhere", InvalidDataError, "no experiment 'nowhere'"),
        ("traces:/live?from=1h", InvalidOptionError, "from is not one of since, until"),
        ("traces:/live?since=yesterday", InvalidOptionError, "neither a duration"),
        ("traces:/live?filter=colour = 'red'", InvalidOptionError, "not a valid trace filter of MLflow"),
        ("traces:/live?since=1h", InvalidDataError, "no answered trace"),
    ],
)
def test_an_address_that_cannot_be_read_is_named(
    experiment: str, address: str, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        rm.Suite(["coherence"]).evaluate(address, progress=False)


def test_times_are_durations_or_dates() -> None:
    assert milliseconds("2w", "since") == 14 * 86_400_000
    assert moment("1970-01-02", "since") == 86_400_000
    assert moment("1970-01-01T01:00:00+01:00", "since") == 0
    assert abs(moment("30m", "since") - (time.time() * 1000 - 1_800_000)) < 60_000
