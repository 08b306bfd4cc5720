"""What a process accepted for a live run is in a file, and stays whole where the disk, or the file, is not."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mlflow
import pytest

from mlflow_ragmetrics.tracking.live import Journal, LiveRun, new_run, settle
from mlflow_ragmetrics.tracking.tables import left_unwritten
from mlflow_ragmetrics.tracking.writer import STATUS_TAG, WRITER_TAG, RunWriter

ROOM = 10**6


def left(folder: Path) -> Journal:
    (journal,) = Journal.left_in(folder, "store")
    return journal


def accepted(journal: Journal, answer: str) -> int | None:
    journal.accept()
    return journal.append(answer, ROOM)


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [0, 5], ids=["nothing is written", "half of the line is written"])
def test_a_disk_that_takes_no_more_leaves_the_file_whole(room: int, tmp_path: Path) -> None:
    journal = Journal(tmp_path, "store")
    first = accepted(journal, '{"n": 1}')
    size = journal.size
    with no_file_longer_than(size + room):
        assert accepted(journal, '{"n": 2}') is None
        journal.change({None: {"run": "r"}})
    assert (journal.path.stat().st_size, journal.about) == (size, {})
    second = accepted(journal, '{"n": 3}')
    assert first is not None
    assert second == first + 1
    assert journal.answer(second) == {"n": 3}
    journal.close()
    found = left(tmp_path)
    assert [found.answer(number) for number in found.waiting] == [{"n": 1}, {"n": 3}]
    assert found.unscored == 1
    found.close()


def test_what_stands_behind_a_line_that_is_none_is_cut_off(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "store")
    accepted(journal, '{"n": 1}')
    journal.close()
    with journal.path.open("ab") as file:
        file.write(b'[7, {"n": 7}]\n{"no": "line"\n[1, {"n": 2}]\n')  # number 7 cannot be: 1 comes next
    found = left(tmp_path)
    assert found.waiting == [0]
    assert found.path.read_bytes().endswith(b'[7, {"n": 7}]\n')
    assert accepted(found, '{"n": 3}') == 1
    found.close()
    again = left(tmp_path)
    assert [again.answer(number) for number in again.waiting] == [{"n": 1}, {"n": 3}]
    again.close()


def test_an_answer_whose_line_cannot_be_read_is_none(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "store")
    number = accepted(journal, '{"n": 1}')
    assert number is not None
    assert journal.answer(number + 1) is None
    journal.path.write_bytes(journal.path.read_bytes().replace(b'"n"', b'"n '))
    assert journal.answer(number) is None
    journal.close(keep=False)
    journal.close()  # it is closed already
    assert not journal.path.exists()


def test_the_run_says_once_what_an_ended_process_lost_and_ends(tmp_path: Path) -> None:
    run_id = new_run("live", "one")
    live = LiveRun(run_id)
    live.begin({})
    live.write_metrics(live.next_metrics({}, 1, "retrieval"), received=3)
    RunWriter(run_id).tags({WRITER_TAG: f"{platform.node()} 999999999 1"})
    journal = Journal(tmp_path, "store")
    journal.change({None: {"run": run_id, "part": live.part, "process": "host 12 3"}})
    settle(run_id, journal, 3)
    run = mlflow.get_run(run_id)
    said = "3 answers were accepted and neither written nor dropped: process host 12 3 was ended"
    assert (run.info.status, run.data.tags[STATUS_TAG]) == ("FAILED", f"failed: {said}")
    assert left_unwritten(run.data.tags) == 3
    settle(run_id, journal, 3)
    settle(run_id, Journal(tmp_path, "store"), 2)
    tags = mlflow.get_run(run_id).data.tags
    assert tags[STATUS_TAG].startswith("incomplete: 5 answers were accepted")
    assert left_unwritten(tags) == 5


def test_a_run_that_says_already_what_failed_goes_on_saying_it(tmp_path: Path) -> None:
    run_id = new_run("live", "one")
    RunWriter(run_id).note_failure("no judge answered")
    for lost in (0, 2):
        settle(run_id, Journal(tmp_path, "store"), lost)
        run = mlflow.get_run(run_id)
        assert run.data.tags[STATUS_TAG] == "failed: no judge answered"
        assert left_unwritten(run.data.tags) == lost
    assert run.info.status == "RUNNING"  # this process made it, and lives
