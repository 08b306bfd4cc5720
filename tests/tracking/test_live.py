"""Answers written to an MLflow run as they arrive."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import mlflow
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.results.marks import Diagnosis
from mlflow_ragmetrics.tracking import live as module
from mlflow_ragmetrics.tracking.live import LiveRun, Service, live_run
from mlflow_ragmetrics.tracking.outbox import LiveFigures, Outbox, open_outbox
from mlflow_ragmetrics.tracking.run import home_of, new_run, resolved_store
from mlflow_ragmetrics.tracking.traces import add_feedback, feedback_of
from mlflow_ragmetrics.tracking.writer import RunWriter, explained
from tests.live_answers import questions


def service(outbox: Outbox | None = None) -> Service:
    return Service(outbox or open_outbox(), home_of({"suite": "custom"}), {"suite": "custom"})


def row(name: str, value: float) -> Row:
    return Row(rm.Sample(id=name, question=name), {"a": Score(value=value), "b": Score(error="E: x")})


class User:
    """A user of a live run."""


@pytest.fixture
def used() -> Iterator[Callable[..., LiveRun]]:
    """Creates live runs with one user each, as in a separate process if ``outbox`` is given."""
    kept: list[User] = []

    def used(name: str, run_id: str | None = None, outbox: Outbox | None = None) -> LiveRun:
        kept.append(User())
        return live_run(service(outbox), name, run_id, kept[-1])

    yield used
    module.close_runs(time.monotonic() + 10)


def wrote(live: LiveRun, name: str, value: float = 0.5) -> None:
    live.count("seen")
    live.append(row(name, value), f"tr-{uuid4().hex}", lambda _: None, is_new=True)
    assert live.wait(time.monotonic() + 60), live.failure


def left(live: LiveRun) -> None:
    live.users.clear()
    live.leave()


def made_run() -> str:
    with mlflow.start_run() as run:
        return str(run.info.run_id)


@pytest.mark.parametrize(
    ("losses", "status", "says"),
    [
        ({"dropped": 1}, "FINISHED", "partial: 1 of 2 answers dropped, 0 failed"),
        ({"failed": 1}, "FINISHED", "partial: 0 of 2 answers dropped, 1 failed"),
        ({"lost": 1}, "FAILED", "answers not written: 1"),
        ({"silent": 2}, "FAILED", "no judge answered"),
        ({"silent": 2, "judged": 1}, "FINISHED", "complete"),
        ({"skipped": 1}, "FINISHED", "complete"),
    ],
    ids=str,
)
def test_a_run_says_what_it_lacks(
    losses: dict[str, int], status: str, says: str, used: Any, caplog: pytest.LogCaptureFixture
) -> None:
    live = used("one")
    wrote(live, "001")
    live.count("seen")
    for name, number in losses.items():
        for _ in range(number):
            live.count(name, settled=name in ("dropped", "failed", "lost", "skipped"))
    if "silent" in losses:
        live.count("other", settled=True)
    left(live)
    (run,) = mlflow.search_runs(output_format="list")
    assert run.info.status == status
    assert says in run.data.tags["ragmetrics.status"]
    for name in ("dropped", "failed", "lost", "skipped"):
        assert run.data.metrics.get(f"calls/{name}", 0) == losses.get(name, 0)
    assert ("lacks answers" in caplog.text) is ("silent" not in losses)


def test_a_run_goes_on_after_one_that_came_before(used: Any) -> None:
    run_id = made_run()
    live = used(run_id, run_id)
    wrote(live, "1", 0.0)
    left(live)
    again = used(run_id, run_id)
    wrote(again, "2", 1.0)
    left(again)
    assert questions(run_id) == ["1", "2"]
    points = mlflow.MlflowClient().get_metric_history(run_id, "a/mean")
    assert sorted((point.step, point.value) for point in points) == [(0, 0.0), (1, 0.5)]


def test_a_run_taken_over_and_then_used_is_waited_for_until_it_is_written(
    used: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, is_used = made_run(), threading.Event()
    params = RunWriter.params
    monkeypatch.setattr(RunWriter, "params", lambda *given: (is_used.wait(30), params(*given)))
    live_run(service(), run_id, run_id)
    live = used(run_id, run_id)
    is_used.set()
    began = time.monotonic()
    wrote(live, "1")
    assert time.monotonic() - began < 20
    assert questions(run_id) == ["1"]


def test_the_writing_thread_ends_when_all_is_written(used: Any) -> None:
    live, until = used("one"), time.monotonic() + 10
    wrote(live, "1")
    while live._ended is not None:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_two_machines_write_into_one_run(tmp_path: Path, used: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its own outbox; the figures and traces contain the answers of both once."""
    run_id = made_run()
    with monkeypatch.context() as patch:
        patch.setenv("RAGMETRICS_OUTBOX", str(tmp_path / "another"))
        far = open_outbox()
    first = used(run_id, run_id)
    second = used(run_id, run_id, far)
    for name, live in (("1", first), ("2", second), ("3", first), ("3b", second), ("4", second)):
        wrote(live, name, float(name[0]))
    assert questions(run_id) == ["1", "2", "3", "3b", "4"]
    metrics = mlflow.get_run(run_id).data.metrics
    assert (metrics["a/mean"], metrics["b/n_error"]) == (pytest.approx(13 / 5), 5)
    first.count("dropped")
    second.count("dropped")
    for live in (first, second):
        left(live)
    assert mlflow.get_run(run_id).data.metrics["calls/dropped"] == 2


def test_an_answer_that_cannot_be_read_is_lost_and_said(used: Any) -> None:
    run_id, outcomes = made_run(), list[int]()
    live = used(run_id, run_id)
    live.count("seen")
    number = live.outbox.append(live._number, {"row": {"of": "another version"}})
    live.pending[number] = outcomes.append
    wrote(live, "1")
    left(live)
    assert (questions(run_id), outcomes) == (["1"], [2])
    assert mlflow.get_run(run_id).data.metrics["calls/lost"] == 1


def test_unscored_rows_take_a_step_and_no_metric() -> None:
    figures = LiveFigures(None)
    first = figures.add(Row(rm.Sample(answer="Yes."), {"a": Score(value=0.5), "b": Score(status="skipped")}), 1)
    figures = LiveFigures(figures.state)
    second = figures.add(Row(rm.Sample(answer="Yes."), {"a": Score(error="E: x"), "b": Score(value=1.0)}), 2)
    assert [(point.key, point.step, point.value) for point in first] == [
        ("a", 0, 0.5),
        ("a/mean", 0, 0.5),
        ("a/rolling_mean", 0, 0.5),
        ("b/n_skipped", 0, 1.0),
    ]
    counts = {"a/n_error": 1, "b/n_skipped": 1}
    assert {point.key: point.step for point in second} == {**counts, "b": 1, "b/mean": 1, "b/rolling_mean": 1}
    third = figures.add(Row(rm.Sample(answer="Yes."), {"a": Score(value=1.0)}), 3)
    assert {point.key: point.value for point in third} == {**counts, "a": 1.0, "a/mean": 0.75, "a/rolling_mean": 0.75}


def test_figures_add_up_over_outboxes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlflow_ragmetrics.tracking.outbox.diagnose", lambda _: Diagnosis("retrieval", ""))
    figures, others = LiveFigures(None), LiveFigures(None)
    for value in (0.0, 1.0):
        others.add(Row(rm.Sample(answer="Yes."), {"a": Score(value=value), "b": Score(error="E: x")}), 1)
    refusal = Row(rm.Sample(answer=""), {"a": Score(value=0.2)})
    points = LiveFigures(figures.state, [others.state]).add(refusal, 1)
    found = {point.key: (point.step, point.value) for point in points}
    assert found["a/mean"] == (2, pytest.approx(0.4))
    assert (found["b/n_error"], found["diagnosis/n_retrieval"], found["n_non_answers"]) == ((2, 2), (2, 3), (2, 1))


@pytest.mark.parametrize("what", ["run", "experiment", "absent"])
@pytest.mark.parametrize("is_named", [True, False])
def test_answers_of_a_deleted_run_go_to_a_new_one(
    what: str, is_named: bool, used: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client, run_id = mlflow.MlflowClient(), None
    experiment_id = mlflow.set_experiment("service").experiment_id
    if is_named:
        run_id = "0" * 32 if what == "absent" else made_run()
    live = used(run_id or "one", run_id)
    if what != "absent":
        wrote(live, "1")
        (run,) = client.search_runs([experiment_id])
        client.delete_run(run.info.run_id) if what == "run" else client.delete_experiment(experiment_id)
    for name in ("2", "3"):
        wrote(live, name)
    left(live)
    experiments = [each.experiment_id for each in client.search_experiments()]
    (new,) = client.search_runs(experiments)
    assert (new.info.status, new.data.tags["ragmetrics.status"]) == ("FINISHED", "complete")
    assert (questions(new.info.run_id), new.data.metrics["a/mean"]) == (["2", "3"], 0.5)
    assert caplog.text.count("its waiting answers go to a new run") == (is_named or what != "absent")
    assert open_outbox().left(resolved_store(mlflow.get_tracking_uri())) == (0, 0)


def test_a_run_is_made_once_for_each_creation_id() -> None:
    run_id = new_run("live", "one")
    assert mlflow.active_run() is None
    assert mlflow.get_run(run_id).info.status == "RUNNING"
    RunWriter(run_id).end()
    assert mlflow.get_run(run_id).info.status == "FINISHED"
    assert new_run("live", "one") == run_id
    assert mlflow.get_run(run_id).info.status == "RUNNING"
    assert new_run("live", "another") != run_id


def test_of_two_runs_made_at_once_the_one_being_written_stays() -> None:
    """The second process was slow: its run has an earlier time, but arrived later."""
    run_id = new_run("live", "one")
    RunWriter(run_id).tags({"ragmetrics.status": "writing"})
    mlflow.MlflowClient().create_run("0", start_time=1, tags={"ragmetrics.live": "one"})
    assert new_run("live", "one") == run_id
    assert [run.info.run_id for run in mlflow.search_runs(output_format="list")] == [run_id]


def test_a_run_is_made_where_the_service_was_begun(used: Any, tmp_path: Path) -> None:
    """Regardless of the store and experiment that the application uses later."""
    uri = mlflow.get_tracking_uri()
    mlflow.set_experiment("of the service")
    live = used("one")
    mlflow.set_experiment("another")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/another.db")
    wrote(live, "1")
    left(live)
    mlflow.set_tracking_uri(uri)
    (run,) = mlflow.search_runs(experiment_names=["of the service"], output_format="list")
    assert questions(run.info.run_id) == ["1"]


def test_a_store_is_the_same_by_its_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolved_store("sqlite:///a.db") == resolved_store(f"sqlite:///{tmp_path}/a.db")
    assert resolved_store("mlruns") == resolved_store(f"{tmp_path}/mlruns")
    assert resolved_store("http://server:5000") == "http://server:5000"


def test_errors_are_one_sentence() -> None:
    with pytest.raises(RagMetricsError, match=r"cannot write to run 0+"), explained("0" * 32):
        RunWriter("0" * 32).end()
    with pytest.raises(RagMetricsError):
        add_feedback("tr-0", feedback_of("a", Score(value=1.0)), "0" * 32)


def test_feedback_on_a_trace_and_on_none() -> None:
    run_id = made_run()
    with mlflow.start_span("call") as span:
        pass
    for _ in range(2):
        feedback = feedback_of("faithfulness", Score(value=0.5, reason="half"), run_id)
        add_feedback(span.trace_id, feedback, run_id)
    (found,) = mlflow.get_trace(span.trace_id).info.assessments
    assert (found.name, found.value, found.rationale) == ("faithfulness", 0.5, "half")
    assert found.metadata["mlflow.assessment.sourceRunId"] == run_id
    with pytest.raises(RagMetricsError, match=r"tr-0+"):
        add_feedback("tr-" + "0" * 32, feedback, run_id)
