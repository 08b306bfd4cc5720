"""One process at a time is at work on a watch."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import mlflow
import pytest

from mlflow_ragmetrics.tracking.watch_run import WatchBusyError, WatchRun, watch_run
from mlflow_ragmetrics.tracking.writer import WRITER_TAG, RunWriter, this_process


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another process of this machine, until it is killed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


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
