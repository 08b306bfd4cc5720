"""The outbox: its rows outlive a process, its runs belong to one service, and its file never stops a service."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mlflow_ragmetrics.tracking import outbox as module
from mlflow_ragmetrics.tracking.outbox import Home, Outbox, open_outbox

HOME = Home("sqlite:///a.db", "sqlite:////a.db", "id 1", "suite")
_SEEN = "SELECT number FROM counts WHERE name = 'seen'"
_KILLED = """
import os, signal, sys
from mlflow_ragmetrics.tracking.outbox import Home, open_outbox
outbox = open_outbox()
number = outbox.join(Home(*sys.argv[1:5]), sys.argv[5], None)
for _ in range(5):
    outbox.count(number, "seen")
for _ in range(2):
    outbox.append(number, {})
outbox.count(number, "dropped", "settled")
outbox.take_lease(number)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def outbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Outbox:
    monkeypatch.setenv("RAGMETRICS_OUTBOX", str(tmp_path / "data"))
    return open_outbox()


def killed(home: Home, name: str) -> None:
    """Kills a process that used a run of that name: of five answers, two were scored and one was dropped."""
    command = [sys.executable, "-c", _KILLED, home.uri, home.store, home.experiment, home.suite, name]
    subprocess.run(command, timeout=120, check=False)


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_what_a_killed_process_left_goes_to_the_same_service_only(outbox: Outbox) -> None:
    killed(HOME, "first")
    assert outbox.left(HOME.store) == (2, 2)
    for other in ({"store": "sqlite:////b.db"}, {"experiment": "id 2"}, {"suite": "another"}):
        assert outbox.adopt(Home(**{**vars(HOME), **other})) == []
    assert outbox.adopt(HOME) == [("first", None)]
    assert outbox.adopt(HOME) == []  # it is ours now
    number = outbox.join(HOME, "first", None)
    assert outbox.counts(number) == {"dropped": 1, "killed": 2, "seen": 5, "settled": 3}
    assert outbox.take_lease(number)
    assert [each.number for each in outbox.answers(number, measured=False)] == [1, 2]


def test_an_answer_is_deleted_once_it_is_written(outbox: Outbox) -> None:
    number = outbox.join(HOME, "run", "run")
    answers = [outbox.append(number, {"a": 1}) for _ in range(2)]
    outbox.note_measured(number, answers, {"sums": {}})
    assert (outbox.waiting(number), outbox.take_written(number)) == (2, {})
    outbox.note([answers[0]], outcome=0)
    outbox.note([answers[1]], outcome=1)
    assert (outbox.waiting(number), outbox.take_written(number)) == (0, {answers[0]: 0, answers[1]: 1})
    outbox.forget(number)
    assert outbox.run_id(number) == "run"  # this process still uses it
    assert outbox.leave(number)
    outbox.forget(number)
    assert outbox._rows("SELECT * FROM runs") == []


def counted(outbox: Outbox, number: int) -> None:
    """Waits until the file has this number of accepted answers."""
    until = time.monotonic() + 10
    while (found := outbox._rows(_SEEN)) != [(number,)]:
        assert time.monotonic() < until, found
        time.sleep(0.005)


def test_accepting_does_not_wait_for_the_file(outbox: Outbox) -> None:
    number = outbox.join(HOME, "run", None)
    other = Outbox(outbox.path)
    with other._changing():
        began = time.thread_time(), threading.active_count()
        for _ in range(1000):
            outbox.count(number, "seen")
        assert time.thread_time() - began[0] < 0.5
        assert threading.active_count() <= began[1] + 1
        assert outbox._rows(_SEEN) == []
    counted(other, 1000)
    outbox.count(number, "seen")
    counted(other, 1001)


def test_an_answer_is_counted_within_a_moment(outbox: Outbox) -> None:
    """Otherwise a process killed while a judge works would lose an answer without a trace."""
    number = outbox.join(HOME, "run", None)
    outbox.count(number, "seen")
    time.sleep(0.5)  # the limit, on a busy machine
    assert Outbox(outbox.path)._rows(_SEEN) == [(1,)]


def test_a_fork_uses_the_run_from_its_first_answer_on(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    number = outbox.join(HOME, "run", None)
    monkeypatch.setattr(module, "this_process", lambda: "node 7")
    outbox.count(number, "seen")
    outbox.append(number, {})
    assert outbox._rows("SELECT count(*) FROM processes WHERE run = ?", number) == [(2,)]


def test_a_change_that_fails_loses_no_count(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    number = outbox.join(HOME, "run", None)
    monkeypatch.setattr(module, "start_thread", lambda *_, **__: None)  # the machine is too busy to count
    outbox.count(number, "seen")
    with pytest.raises(OSError, match="full"), outbox._changing():
        raise OSError("the disk is full")
    assert outbox._rows(_SEEN) == []
    outbox.append(number, {})
    assert outbox._rows(_SEEN) == [(1,)]


@pytest.mark.parametrize("content", [b"no database" * 1000, None], ids=["garbage", "cut off"])
def test_a_damaged_file_is_set_aside(content: bytes | None, outbox: Outbox, caplog: pytest.LogCaptureFixture) -> None:
    outbox.join(HOME, "run", None)
    outbox._db.close()
    path = outbox.path
    path.write_bytes(content if content is not None else path.read_bytes()[:5000])
    module._opened.cache_clear()
    again = open_outbox()
    assert again.path == path
    assert again.join(HOME, "run", None) == 1
    assert caplog.text.count("was damaged") == 1
    assert len(list(path.parent.glob("outbox.db.damaged-*[0-9]"))) == 1


@pytest.mark.skipif(os.name == "nt", reason="rights of POSIX")
def test_others_cannot_reach_it(outbox: Outbox, caplog: pytest.LogCaptureFixture) -> None:
    folder = outbox.path.parent
    assert [stat.S_IMODE(path.stat().st_mode) & 0o077 for path in (folder, *folder.iterdir())] == [0] * 4
    folder.chmod(0o777)
    module._opened.cache_clear()
    assert open_outbox().path.parent != folder
    assert caplog.text.count("other users can write there") == 1


def test_a_folder_that_cannot_be_made_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RAGMETRICS_OUTBOX", str(tmp_path / "file"))
    home = replace(HOME, suite="of this test")  # the outbox in memory serves all tests of the process
    assert open_outbox().join(home, "run", None) >= 1
    assert "for this process only" in caplog.text


def test_by_default_it_is_in_the_users_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAGMETRICS_OUTBOX")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert module.outbox_folder().name == "outbox"
    assert module.outbox_folder().parent.name == "mlflow_ragmetrics"
