"""A damaged, foreign or unreachable outbox: every service starts, and no figure is wrong."""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import mlflow
import pytest
from langchain_core.runnables import RunnableLambda

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.tracking import outbox as module
from tests.live_answers import answers

pytestmark = [pytest.mark.timeout(600), pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")]

LISTED, WAITING, NEVER = 30, 6, 2
KILLED = """
import os, signal, sys, time
import mlflow
from langchain_core.runnables import RunnableLambda
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
import mlflow_ragmetrics as rm
from tests.faults.test_damaged_outbox import KILLED, LISTED, NEVER, WAITING, own_number

def refuse(*_, **__):
    raise mlflow.exceptions.MlflowException("no route to the server")

def ask(first, last, text=""):
    for number in range(first, last):
        RunnableLambda(lambda given: given).invoke(f"{text}{number}", {"callbacks": [handler]})

handler = rm.RagMetricsCallback([own_number])
ask(0, LISTED)
assert handler.flush(60)
SqlAlchemyStore.log_batch = refuse
ask(LISTED, LISTED + WAITING)
while handler.counts["scored"] < LISTED + WAITING:
    time.sleep(0.01)
ask(0, NEVER, "never ")
time.sleep(0.3)
os.kill(os.getpid(), signal.SIGKILL)
"""


@rm.metric
def own_number(answer: str) -> float:
    """The number in the answer; hangs if the answer asks for it."""
    if "never" in answer:
        import time

        time.sleep(600)
    return int(answer) / 1000


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory, mlflow_template: Path) -> Path:
    """A folder with the store and the outbox of a killed service; all of the outbox is still in its WAL file."""
    folder = tmp_path_factory.mktemp("left")
    shutil.copyfile(mlflow_template, folder / "mlflow.db")
    with closing(sqlite3.connect(folder / "mlflow.db")) as store, store:
        store.execute("UPDATE experiments SET artifact_location = 'mlruns'")
    environment = {
        **os.environ,
        "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db",
        "RAGMETRICS_OUTBOX": str(folder / "data"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=folder, env=environment, capture_output=True, timeout=300)
    assert done.returncode == -9, done.stderr
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
        assert RunnableLambda(lambda given: given).invoke("999", {"callbacks": [handler]}) == "999"
        assert handler.close(60)
    found = Found()
    assert (found.other.info.status, found.other.data.tags["ragmetrics.status"]) == ("FINISHED", "complete")
    assert found.other.data.metrics["own_number/mean"] == pytest.approx(0.999)
    said = [each.getMessage() for each in caplog.records if each.name.endswith("outbox")]
    assert not [line for line in said if "\n" in line]
    return found, said


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
    found, said = started(caplog)
    check_no_wrong_figure(found)
    assert sorted(found.answers) == list(range(LISTED + WAITING))
    assert (found.lost, len(said)) == (NEVER, 1)
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


def checksum(path: Path) -> None:
    content = path.read_bytes()
    place = content.rindex(b'"answer": "35"') + len('"answer": "')
    path.write_bytes(content[:place] + b"7" + content[place + 1 :])


@pytest.mark.parametrize(
    ("damage", "readable"),
    [(random_bytes, 0), (half, None), (nothing, None), (older, 0), (checksum, WAITING - 1)],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_damaged(
    damage: Callable[[Path], None], readable: int | None, outbox: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damage(outbox)
    found, said = started(caplog)
    check_no_wrong_figure(found)
    assert [line for line in said if "was damaged" in line] == said
    assert len(said) == (0 if damage is nothing else 1)
    assert len(list(outbox.parent.glob("outbox.db.damaged-*[0-9]"))) == len(said)  # nothing is deleted
    if readable is not None:
        assert f"unwritten answers recovered: {readable}" in said[0]
        assert len(found.answers) == LISTED + readable
    if len(found.answers) > LISTED:
        assert (found.run.info.status, found.lost) == ("FAILED", None)
        assert found.status == "failed: the outbox was damaged: the number of missing answers is unknown"


@pytest.mark.parametrize("seed", range(20))
def test_some_bytes_are_others(seed: int, outbox: Path, caplog: pytest.LogCaptureFixture) -> None:
    chance, content = random.Random(seed), bytearray(outbox.read_bytes())
    place = chance.randrange(len(content) - 64)
    content[place : place + 64] = chance.randbytes(64)
    outbox.write_bytes(content)
    found, said = started(caplog)
    check_no_wrong_figure(found)
    assert len(said) <= 1


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


def others_may_write(folder: Path) -> None:
    folder.chmod(0o777)


def link_to_the_store(folder: Path) -> None:
    (folder / "outbox.db").unlink()
    (folder / "outbox.db").symlink_to(Path("mlflow.db").absolute())


def link_to_nothing(folder: Path) -> None:
    (folder / "outbox.db").unlink()
    (folder / "outbox.db").symlink_to(folder / "absent")


def directory(folder: Path) -> None:
    (folder / "outbox.db").unlink()
    (folder / "outbox.db").mkdir()


def no_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("")


def of_another_user(folder: Path) -> None:
    if os.geteuid():
        pytest.skip("takes root")
    os.chown(folder, 12345, 12345)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (others_may_write, "other users can write there"),
        (of_another_user, "other users can write there"),
        (link_to_the_store, "symbolic links"),
        (link_to_nothing, "symbolic links"),
        (directory, "Is a directory"),
        (no_folder, "File exists"),
    ],
)
def test_a_place_that_is_refused(
    change: Callable[[Path], None], why: str, outbox: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(sqlite3.connect("mlflow.db")) as store:
        tables = store.execute("SELECT name FROM sqlite_master").fetchall()
    change(outbox.parent)
    found, said = started(caplog)
    check_no_wrong_figure(found)
    assert len(said) == 1
    assert why in said[0]
    assert "for this process only" in said[0]
    with closing(sqlite3.connect("mlflow.db")) as store:
        assert store.execute("SELECT name FROM sqlite_master").fetchall() == tables


def test_a_folder_that_others_can_read_is_closed_to_them(outbox: Path, caplog: pytest.LogCaptureFixture) -> None:
    outbox.parent.chmod(0o755)
    found, _ = started(caplog)
    assert len(found.answers) == LISTED + WAITING
    assert stat.S_IMODE(outbox.parent.stat().st_mode) == 0o700


def test_no_file_can_be_written(outbox: Path, tmp_path: Path) -> None:
    """With ``ulimit -f 0`` the outbox is in memory; the service starts, answers, and logs this in one line."""
    program = """
import resource
from langchain_core.runnables import RunnableLambda
import mlflow
import mlflow_ragmetrics as rm
mlflow.set_tracking_uri("http://127.0.0.1:1")
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
handler = rm.RagMetricsCallback(["lexical_relevance"], run_id="0" * 32)
for number in range(3):
    RunnableLambda(lambda given: f"Because of {given}").invoke("Why?", {"callbacks": [handler]})
handler.close(5)
import json
print(json.dumps(handler.counts))
"""
    environment = {**os.environ, "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    counts: dict[str, Any] = json.loads(done.stdout)
    assert (counts["scored"], counts["written"], counts["unwritten"] + counts["lost"]) == (3, 0, 3)
    assert done.stderr.count("no outbox in") == 1
    assert "Traceback" not in done.stderr
