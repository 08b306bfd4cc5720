"""Rows into an MLflow run while they come."""

from __future__ import annotations

from typing import Any

import mlflow
import pandas as pd
import pytest

from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.tracking.live import LiveRun, TraceAbsentError, add_feedback, end_run, live_run, new_run
from mlflow_ragmetrics.tracking.tables import GrowingTable, left_unwritten
from mlflow_ragmetrics.tracking.writer import RunWriter


@pytest.fixture
def live() -> LiveRun:
    run = LiveRun(new_run("live", "one"))
    run.begin({"suite": "custom"})
    return run


@pytest.mark.parametrize("failing", [1, 2])
@pytest.mark.parametrize("written", [False, True], ids=["before", "amid"])
def test_a_full_disk_leaves_the_tables_as_they_were(
    failing: int, written: bool, live: LiveRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = GrowingTable._add, 0

    def full(table: GrowingTable, rows: Any) -> None:
        nonlocal calls
        calls += 1
        if calls != failing or written:
            real(table, rows)
        if calls == failing:
            raise OSError(28, "No space left on device")

    frames = [pd.DataFrame({"id": ["001"], "answer": ["42"]}), pd.DataFrame({"id": ["001", "001"], "text": ["a", "b"]})]
    live.append(*frames)
    monkeypatch.setattr(GrowingTable, "_add", full)
    with pytest.raises(RagMetricsError, match="No space left on device"):
        live.append(*frames)
    assert [place for _, place in live.append(*frames)] == [1]
    live.publish()
    assert [len(mlflow.load_table(name, [live.run_id])) for name in ("rag_rows.json", "rag_claims.json")] == [2, 4]


def test_tables_grow_and_take_new_columns(live: LiveRun) -> None:
    items = pd.DataFrame({"id": [], "text": []})
    live.append(pd.DataFrame({"id": ["001"], "answer": ["42"]}), items)
    live.append(pd.DataFrame({"id": ["002"], "score": [0.5]}), items)

    live.publish()
    live.publish()

    table = mlflow.artifacts.load_dict(f"runs:/{live.run_id}/rag_rows.json")
    assert table == {"columns": ["id", "answer", "score"], "data": [["001", "42", None], ["002", None, 0.5]]}
    assert (live.rows, live.published) == (2, 2)


def test_a_table_that_the_store_has_is_not_written_again(live: LiveRun, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(RunWriter, "files", lambda self, files, tables: written.append(self.run_id))
    live.publish()
    live.append(pd.DataFrame({"id": ["001"]}), pd.DataFrame({"id": []}))
    live.publish()
    live.publish()
    assert written == [live.run_id]


def test_a_process_that_is_killed_leaves_behind_how_many_answers_it_had(live: LiveRun) -> None:
    points = live.next_metrics({"a": Score(value=0.5)}, 1)
    live.append(pd.DataFrame({"id": ["001"]}), pd.DataFrame({"id": []}))
    live.publish()
    live.write_metrics(points, received=3)
    assert left_unwritten(mlflow.get_run(live.run_id).data.tags) == 2
    live.leave(is_whole=False)
    assert left_unwritten(mlflow.get_run(live.run_id).data.tags) == 2
    live.leave()
    assert left_unwritten(mlflow.get_run(live.run_id).data.tags) == 0


def test_one_live_run_for_all_that_write_into_a_run(live: LiveRun) -> None:
    assert live_run(live.run_id) is live_run(live.run_id)


def test_unscored_rows_take_a_step_and_no_metric(live: LiveRun) -> None:
    first = live.next_metrics({"a": Score(value=0.5), "b": Score(status="skipped")}, 1)
    second = live.next_metrics({"a": Score(error="E: x"), "b": Score(value=1.0)}, 2)
    assert [(point.key, point.step, point.value) for point in first] == [
        ("a", 0, 0.5),
        ("a/mean", 0, 0.5),
        ("a/rolling_mean", 0, 0.5),
        ("b/n_skipped", 0, 1.0),
    ]
    counts = {"a/n_error": 1, "b/n_skipped": 1}
    assert {point.key: point.step for point in second} == {**counts, "b": 1, "b/mean": 1, "b/rolling_mean": 1}
    third = live.next_metrics({"a": Score(value=1.0)}, 3)
    assert {point.key: point.value for point in third} == {
        **counts,
        "a": 1.0,
        "a/mean": 0.75,
        "a/rolling_mean": 0.75,
    }


def test_metrics_may_be_written_again(live: LiveRun) -> None:
    points = live.next_metrics({"a": Score(value=0.5)}, 1_700_000_000_000)
    live.write_metrics(points)
    live.write_metrics(points)
    assert len(mlflow.MlflowClient().get_metric_history(live.run_id, "a")) == 1


def test_a_new_run_is_open_until_it_is_ended(live: LiveRun) -> None:
    assert mlflow.active_run() is None
    assert mlflow.get_run(live.run_id).info.status == "RUNNING"
    end_run(live.run_id)
    assert mlflow.get_run(live.run_id).info.status == "FINISHED"


def test_a_run_is_made_once_for_each_creation_id(live: LiveRun) -> None:
    end_run(live.run_id)
    assert new_run("live", "one") == live.run_id
    assert mlflow.get_run(live.run_id).info.status == "RUNNING"
    assert new_run("live", "another") != live.run_id


def test_errors_are_one_sentence() -> None:
    with pytest.raises(RagMetricsError, match=r"run 0+ cannot be written"):
        LiveRun("0" * 32).begin({})


def test_feedback_on_a_trace_and_on_none(live: LiveRun) -> None:
    with mlflow.start_span("call") as span:
        pass
    add_feedback(span.trace_id, "faithfulness", Score(value=0.5, reason="half"), live.run_id)
    (found,) = mlflow.get_trace(span.trace_id).info.assessments
    assert (found.name, found.value, found.rationale) == ("faithfulness", 0.5, "half")
    assert found.metadata["mlflow.assessment.sourceRunId"] == live.run_id
    with pytest.raises(TraceAbsentError):
        add_feedback("tr-" + "0" * 32, "faithfulness", Score(value=0.5))


def test_causes_are_counted_and_go_on_from_the_table(live: LiveRun) -> None:
    score = {"a": Score(value=0.5)}
    live.next_metrics(score, 1, "retrieval")
    points = {point.key: point.value for point in live.next_metrics(score, 2, "not measured")}
    assert (points["diagnosis/n_retrieval"], points["diagnosis/n_not_measured"]) == (1, 1)
    live.append(pd.DataFrame({"id": ["1", "2", "3"], "diagnosis": ["retrieval", "not measured", None]}), pd.DataFrame())
    live.publish()
    live.leave()
    again = LiveRun(live.run_id)
    again.begin({})
    points = {point.key: point.value for point in again.next_metrics(score, 3, "retrieval")}
    assert (points["diagnosis/n_retrieval"], points["diagnosis/n_not_measured"]) == (2, 1)


def _grown(live: LiveRun, *names: str) -> list[tuple[str, int]]:
    return live.append(pd.DataFrame({"id": list(names)}), pd.DataFrame({"id": []}))


def _ids(run_id: str) -> list[str]:
    return [row[0] for row in mlflow.artifacts.load_dict(f"runs:/{run_id}/rag_rows.json")["data"]]


@pytest.mark.parametrize("alone", [True, False])
def test_what_a_process_that_ended_had_written_is_known(
    alone: bool, live: LiveRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it ended while it was writing, so that it could not tell."""
    if not alone:
        LiveRun(live.run_id).begin({"suite": "custom"})
    places = _grown(live, "a", "b")
    live.publish()
    places += _grown(live, "c")
    with monkeypatch.context() as patch:
        patch.setattr(live._parts, "_write", _fails)  # the tables are not written; its own part is, where it has one
        with pytest.raises(RagMetricsError):
            live.publish()
    places += _grown(live, "d")
    live.leave()

    following = LiveRun(live.run_id)
    following.begin({"suite": "custom"})
    assert following.held(places) == set(places[: 2 if alone else 3])
    following.publish()
    assert _ids(live.run_id) == list("ab" if alone else "abc")


def _fails(*_: object) -> None:
    raise OSError("no")
