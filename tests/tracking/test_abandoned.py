"""Abandoned runs are told from those being written, and failed runs end as failed."""

from __future__ import annotations

import os
import platform
import time
from typing import Any
from unittest.mock import Mock

import mlflow
import pytest
from mlflow import MlflowClient

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.tracking.run import abandoned_runs, mark_abandoned, target_run
from mlflow_ragmetrics.tracking.writer import STATUS_TAG, WRITER_TAG, _own_name, is_alive, this_process

DAY = 24 * 3600 * 1000


def made(writer: str, *, age: int = 0, **tags: str) -> str:
    tags = {STATUS_TAG: "writing", WRITER_TAG: writer, **tags}
    return str(MlflowClient().create_run("0", int(time.time() * 1000) - age, tags).info.run_id)


def test_a_process_that_is_gone_left_its_run() -> None:
    gone = made(f"{platform.node()} 999999999 1")
    again = made(f"{platform.node()} {this_process().split()[1]} 1")  # the number now belongs to another process
    odd = made(f"{platform.node()} none")
    old = made("elsewhere 1 1", age=2 * DAY)
    made("elsewhere 1 1")
    made(this_process())
    made(f"{platform.node()} 1 {this_process(1).rpartition(' ')[2]}")  # a process of another user, or ours
    live = made(f"{platform.node()} 999999999 1", **{STATUS_TAG: "", "ragmetrics.live": "x"})
    assert {run.info.run_id for run in abandoned_runs(["0"])} == {gone, again, odd, old}
    assert {run.info.run_id for run in abandoned_runs(["0"], live=True)} == {gone, again, odd, old, live}
    assert len(list(mark_abandoned("0"))) == 4
    assert list(mark_abandoned("0")) == []
    assert mlflow.get_run(gone).info.status == "FAILED"


def test_a_process_whose_beginning_could_not_be_read_is_the_same_all_along(monkeypatch: pytest.MonkeyPatch) -> None:
    _own_name.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.read_text", Mock(side_effect=OSError(24, "Too many open files")))
        unknown = this_process()
    assert this_process() == unknown == f"{platform.node()} {os.getpid()} "
    assert is_alive(unknown, 0.0)
    _own_name.cache_clear()
    assert this_process() != unknown
    assert is_alive(this_process(), 0.0)
    assert not is_alive(f"{platform.node()} {os.getpid()} 1", time.time())
    assert is_alive("elsewhere 1 ", time.time())
    assert not is_alive("elsewhere 1 ", time.time() - 700)


def test_what_fails_in_a_run_is_noted_in_it() -> None:
    def attempt(error: BaseException, run_id: str | None = None) -> Any:
        with (
            pytest.raises(type(error) if not isinstance(error, OSError) else rm.RagMetricsError),
            target_run(run_id, None) as target,
        ):
            raise error
        return mlflow.get_run(target)

    for error, said in (
        (rm.RagMetricsError("no room"), "failed: no room"),
        (OSError("disk full"), "failed: disk full"),
        (KeyboardInterrupt(), "failed: interrupted"),
    ):
        run = attempt(error)
        assert (run.info.status, run.data.tags[STATUS_TAG]) == ("FAILED", said)
    with target_run(run.info.run_id, None) as again:
        MlflowClient().set_tag(again, STATUS_TAG, "complete")
    assert mlflow.get_run(again).info.status == "FINISHED"
    with mlflow.start_run() as active, target_run(None, None) as own:
        assert own == active.info.run_id


def test_memory_that_runs_out_is_a_sentence() -> None:
    with pytest.raises(rm.RagMetricsError, match="memory ran out"), target_run(None, None):
        raise MemoryError


def test_a_store_that_takes_no_run_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(mlflow, "start_run", refuse)
    with pytest.raises(rm.RagMetricsError, match="no run could be started in MLflow: no"), target_run(None, None):
        pass


def test_scores_go_onto_the_traces_that_rows_come_from_once() -> None:
    spans = [mlflow.start_span_no_context("chain", inputs={"question": f"Why {n}?"}) for n in range(2)]
    for span in spans:
        span.end(outputs="Because.")
    mlflow.flush_trace_async_logging()
    rows = [{"question": "Why?", "answer": "Because.", "reference": "For.", "trace_id": s.trace_id} for s in spans]
    report = rm.Suite(["rouge"]).evaluate(rows)
    run_id = report.log(feedback=True)
    report.log(run_id=run_id, feedback=True)
    for span in spans:
        assert [each.name for each in mlflow.get_trace(span.trace_id).info.assessments] == ["rouge1_f1"]
    with pytest.raises(InvalidOptionError, match="rows that come from traces"):
        rm.Suite(["rouge"]).evaluate([{"answer": "a", "reference": "b"}]).log(feedback=True)
