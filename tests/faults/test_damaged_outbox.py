"""A damaged, foreign or unreachable outbox: every service starts, and no figure is wrong."""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import sqlite3
import stat
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import mlflow
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.tracking import outbox as module
from tests.faults.processes import ECHO, ended, forked, own_number, refuse_all, said, wait_for
from tests.live_answers import answers

pytestmark = [pytest.mark.timeout(600), pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")]

LISTED, WAITING, NEVER = 30, 6, 2


def killed() -> int:
    """A service with written, unwritten and unscored answers that ends without warning."""
    handler = rm.RagMetricsCallback([own_number])

    def ask(first: int, last: int, text: str = "") -> None:
        for number in range(first, last):
            ECHO.invoke(f"{text}{number}", {"callbacks": [handler]})

    ask(0, LISTED)
    assert handler.flush(60)
    refuse_all()
    ask(LISTED, LISTED + WAITING)
    wait_for(lambda: handler.counts["scored"] == LISTED + WAITING)
    ask(0, NEVER, "never ")
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory, mlflow_template: Path) -> Path:
    """A folder with the store and the outbox of a killed service; all of the outbox is still in its WAL file."""
    folder = tmp_path_factory.mktemp("left")
    shutil.copyfile(mlflow_template, folder / "mlflow.db")
    with closing(sqlite3.connect(folder / "mlflow.db")) as store, store:
        store.execute("UPDATE experiments SET artifact_location = 'mlruns'")
    assert ended(forked(killed, folder)) == -signal.SIGKILL, said(folder)
    return folder


@pytest.fixture
def outbox(left: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The outbox in a copy of ``left``, which is the current folder."""
    shutil.copytree(left, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    monkeypatch.setenv("RAGMETRICS_OUTBOX", str(tmp_path / "copy" / "data"))
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'copy' / 'mlflow.db'}")
    path = module.outbox_folder() / "outbox.db"
    with closing(sqlite3.connect(path)) as database:  # the killed service was in the folder ``left``
        database.execute("UPDATE runs SET store = replace(store, ?, ?)", (str(left), str(tmp_path / "copy")))
        database.commit()
        database.execute("PRAGMA journal_mode = DELETE")
        database.execute("PRAGMA journal_mode = WAL")
    return path


class Found:
    """The run of the killed service after another start."""

    def __init__(self) -> None:
        runs = mlflow.search_runs(output_format="list", order_by=["attributes.start_time"])
        self.run, self.other = runs[0], runs[1]
        self.answers = Counter(map(int, answers(self.run.info.run_id)))
        self.status = self.run.data.tags.get("ragmetrics.status", "")
        self.lost = self.run.data.metrics.get("calls/lost")
        history = mlflow.MlflowClient().get_metric_history(self.run.info.run_id, "own_number")
        self.points = Counter((point.step, round(1000 * point.value)) for point in history)


def started(caplog: pytest.LogCaptureFixture) -> tuple[Found, list[str]]:
    """Starts the service, asks one question, and ends it; returns the result and the log lines about the outbox."""
    module._opened.cache_clear()  # as in a new process: no public name lets go of an open outbox
    caplog.clear()
    with caplog.at_level(logging.WARNING, "mlflow_ragmetrics"):
        handler = rm.RagMetricsCallback([own_number])
        assert ECHO.invoke("999", {"callbacks": [handler]}) == "999"
        assert handler.close(60)
    found = Found()
    assert (found.other.info.status, found.other.data.tags["ragmetrics.status"]) == ("FINISHED", "complete")
    assert found.other.data.metrics["own_number/mean"] == pytest.approx(0.999)
    lines = [each.getMessage() for each in caplog.records if each.name.endswith("outbox")]
    assert not [line for line in lines if "\n" in line]
    return found, lines


def check_no_wrong_figure(found: Found) -> None:
    """No answer is duplicated, the mean is the mean of the rows, and a run that lacks answers is not complete."""
    assert set(found.answers) <= set(range(LISTED + WAITING))
    assert set(found.answers.values()) == {1}
    assert found.points.keys() >= {(step, step) for step in range(LISTED)}
    assert set(found.points.values()) == {1}
    assert found.run.info.status != "FINISHED"
    assert not found.status.startswith("complete")
    assert found.lost in (None, 0, NEVER, NEVER + WAITING)
    if found.run.info.status == "FAILED":  # it was written completely
        mean = sum(found.answers) / len(found.answers) / 1000
        assert found.run.data.metrics["own_number/mean"] == pytest.approx(mean)


def test_whole(outbox: Path, caplog: pytest.LogCaptureFixture) -> None:
    found, lines = started(caplog)
    check_no_wrong_figure(found)
    assert sorted(found.answers) == list(range(LISTED + WAITING))
    assert (found.lost, len(lines)) == (NEVER, 1)
    assert found.status.startswith(
        f"failed: answers lost because a process ended before they were written: at least {NEVER}"
    )


def random_bytes(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(path.stat().st_size))


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def nothing(path: Path) -> None:
    os.truncate(path, 0)


def older(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE answers (number INTEGER PRIMARY KEY, text TEXT)")
        database.execute("CREATE TABLE runs (number INTEGER PRIMARY KEY)")


@pytest.mark.parametrize("damage", [random_bytes, half, nothing, older], ids=lambda given: given.__name__)
def test_damaged(damage: Callable[[Path], None], outbox: Path, caplog: pytest.LogCaptureFixture) -> None:
    damage(outbox)
    found, lines = started(caplog)
    check_no_wrong_figure(found)
    assert [line for line in lines if "was damaged" in line and "unwritten answers are lost" in line] == lines
    assert len(lines) == (0 if damage is nothing else 1)
    assert len(list(outbox.parent.glob("outbox.db.damaged-*[0-9]"))) == len(lines)  # nothing is deleted
    assert len(found.answers) == LISTED


@pytest.mark.parametrize("share", [0.1, 0.2, 0.35, 0.5, 0.9])
def test_a_wal_that_is_cut_off_doubles_nothing(
    share: float, left: Path, outbox: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a power failure: the outbox is older than the run."""
    for name in ("outbox.db", "outbox.db-wal"):
        shutil.copyfile(left / "data" / "outbox" / name, outbox.parent / name)
    os.truncate(outbox.parent / "outbox.db-wal", int(share * os.path.getsize(outbox.parent / "outbox.db-wal")))
    with closing(sqlite3.connect(outbox)) as database:
        database.execute("UPDATE runs SET store = replace(store, ?, ?)", (str(left), str(Path.cwd())))
        database.commit()
    found, _ = started(caplog)
    assert set(found.answers.values()) == {1}
    assert found.answers.keys() >= set(range(LISTED))
    assert found.run.info.status != "FINISHED"
    assert (found.lost or 0) <= LISTED + WAITING + NEVER - len(found.answers)  # the counts of the older state
    assert len(found.answers) > LISTED or "the number of missing answers is unknown" in found.status


def link_to_the_store(folder: Path) -> None:
    (folder / "outbox.db").unlink()
    (folder / "outbox.db").symlink_to(Path("mlflow.db").absolute())


def link_to_nothing(folder: Path) -> None:
    (folder / "outbox.db").unlink()
    (folder / "outbox.db").symlink_to(folder / "absent")


def directory(folder: Path) -> None:
    (folder / "outbox.db").unlink()
    (folder / "outbox.db").mkdir()


def of_another_user(folder: Path) -> None:
    if os.geteuid():
        pytest.skip("takes root")
    os.chown(folder, 12345, 12345)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (of_another_user, "other users can write there"),
        (link_to_the_store, "symbolic links"),
        (link_to_nothing, "symbolic links"),
        (directory, "Is a directory"),
    ],
)
def test_a_place_that_is_refused(
    change: Callable[[Path], None], why: str, outbox: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(sqlite3.connect("mlflow.db")) as store:
        tables = store.execute("SELECT name FROM sqlite_master").fetchall()
    change(outbox.parent)
    found, lines = started(caplog)
    check_no_wrong_figure(found)
    assert len(lines) == 1
    assert why in lines[0]
    assert "for this process only" in lines[0]
    with closing(sqlite3.connect("mlflow.db")) as store:
        assert store.execute("SELECT name FROM sqlite_master").fetchall() == tables


def test_a_folder_that_others_can_read_is_closed_to_them(outbox: Path, caplog: pytest.LogCaptureFixture) -> None:
    outbox.parent.chmod(0o755)
    found, _ = started(caplog)
    assert len(found.answers) == LISTED + WAITING
    assert stat.S_IMODE(outbox.parent.stat().st_mode) == 0o700
