"""Only one process at a time writes to a run."""

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
from mlflow_ragmetrics.tracking.writer import STATUS_TAG, WRITER_TAG, RunWriter, this_process


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another process on this machine, until it is killed."""
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
    named = pytest.raises(
        rm.RagMetricsError, match=rf"another process \(.* {other.pid} .*\) is writing to run {run_id}"
    )
    with named, alone_in(run_id):
        pass


def test_one_of_another_machine_is_waited_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = written_by("elsewhere 12 0")
    monkeypatch.setattr(run_module, "_WAIT_FOR_ELSEWHERE", 0.4)
    began = time.monotonic()
    with alone_in(run_id):
        assert time.monotonic() - began > 0.4
