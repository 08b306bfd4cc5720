"""One process at a time writes a report into a run, and one at a time is at work on a watch."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import mlflow
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.tracking import run as run_module
from mlflow_ragmetrics.tracking.run import alone_in
from mlflow_ragmetrics.tracking.watch_run import WatchBusyError, WatchRun, watch_run
from mlflow_ragmetrics.tracking.writer import STATUS_TAG, WRITER_TAG, RunWriter, this_process


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another process of this machine, until it is killed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def written_by(writer: str) -> str:
    run = mlflow.MlflowClient().create_run("0", tags={STATUS_TAG: "writing", WRITER_TAG: writer})
    return str(run.info.run_id)


def test_a_process_that_writes_is_waited_for_until_it_is_gone(other: subprocess.Popen[bytes]) -> None:
    run_id = written_by(this_process(other.pid))
    ended = threading.Event()

    def end() -> None:
        ended.set()
        other.kill()
        other.wait()

    threading.Timer(0.5, end).start()
    with alone_in(run_id):
        assert ended.is_set()
        assert RunWriter(run_id).present_tags()[WRITER_TAG] == this_process()


def test_one_that_writes_for_longer_is_named(other: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = written_by(this_process(other.pid))
    monkeypatch.setattr(run_module, "_LONGEST_WAIT", 0)
    with pytest.raises(rm.RagMetricsError, match=rf"another process \(.* {other.pid} .*\) writes into run {run_id}"):
        rm.Suite(["rouge"]).evaluate([{"answer": "a", "reference": "a"}]).log(run_id=run_id)


def test_one_of_another_machine_is_waited_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = written_by("elsewhere 12 0")
    monkeypatch.setattr(run_module, "_WAIT_FOR_ELSEWHERE", 0.4)
    began = time.monotonic()
    with alone_in(run_id):
        assert time.monotonic() - began > 0.4


def test_of_two_that_begin_a_watch_at_once_the_last_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with watch_run("watch", "one") as run:
        run_id = run.run_id
        assert isinstance(run, WatchRun)
        assert mlflow.get_run(run_id).info.status == "RUNNING"
    sleep = time.sleep

    def another_comes(seconds: float) -> None:
        RunWriter(run_id).tags({WRITER_TAG: "elsewhere 12 0"})
        sleep(seconds)

    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", another_comes)
        with pytest.raises(WatchBusyError, match="began the same watch at the same time"), watch_run("watch", "one"):
            pass
    assert RunWriter(run_id).present_tags()[WRITER_TAG] == "elsewhere 12 0"


def test_a_watch_that_a_process_of_this_machine_is_at_is_left_to_it(other: subprocess.Popen[bytes]) -> None:
    with watch_run("watch", "one") as run:
        writer = RunWriter(run.run_id)
    writer.tags({WRITER_TAG: this_process(other.pid), "ragmetrics.watch.seen": int(time.time())})
    with (
        pytest.raises(WatchBusyError, match=rf"another process \(\S+ {other.pid}\) is at work"),
        watch_run("watch", "one"),
    ):
        pass
    other.kill()
    other.wait()
    with watch_run("watch", "one") as again:
        assert again.run_id == run.run_id
