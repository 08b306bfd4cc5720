"""Disks that are really full or read-only, places that take no file, and an MLflow store that is locked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlflow
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.cli.output import OutputFile
from mlflow_ragmetrics.core.question import Rating
from tests.faults.processes import ECHO, locked, own_number
from tests.live_answers import questions

ROWS = [
    {"question": f"Why {n}?", "answer": f"Because {n}. " + 40 * "Indeed it is. ", "reference": f"For {n}."}
    for n in range(400)
]
Disk = Callable[..., Path]


class Wordy(rm.Judge):
    """A remote judge that counts its questions and gives long reasons."""

    name = fingerprint = "wordy"

    def __init__(self, **_: Any) -> None:
        self.asked = 0

    def answer(self, questions: Any) -> list[Any]:
        self.asked += len(questions)
        return [Rating(4, 20 * f"{self.asked} reasons. ") for _ in questions]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Mounts a file system of this size in KB; skips the test if that is not permitted."""
    mounted: list[Path] = []

    def mount(size: int) -> Path:
        place = tmp_path / f"disk{len(mounted)}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "ragmetrics-test", str(place)]
        if os.geteuid() or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("file systems cannot be mounted here (it takes root)")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)


def make_read_only(place: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)


def fill(place: Path) -> None:
    with (place / "filling").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(1024)):
                pass
        except OSError:
            return


def scored(cache: Path) -> tuple[rm.Report, list[str], Wordy]:
    judge = Wordy()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        report = rm.Suite(["correctness"], judge=judge, cache=cache).evaluate(ROWS)
    assert report.metrics["correctness/n_scored"] == len(ROWS)
    return report, [str(each.message) for each in said if "cache" in str(each.message)], judge


def test_a_disk_that_gets_full_under_the_cache(disk: Disk) -> None:
    place = disk(200)
    _, said, _ = scored(place / "cache.db")
    assert len(said) == 1
    assert "is full" in said[0]
    _, said, judge = scored(place / "cache.db")
    assert 0 < judge.asked < len(ROWS)  # answers stored before the disk was full are found again


@pytest.mark.parametrize("spoil", [fill, make_read_only])
def test_a_disk_that_takes_no_cache(spoil: Callable[[Path], None], disk: Disk) -> None:
    place = disk(200)
    spoil(place)
    _, said, judge = scored(place / "cache.db")
    assert len(said) == 1
    assert judge.asked == len(ROWS)


@pytest.mark.parametrize("place", ["/proc/no/cache.db", "/dev/full/cache.db", "/dev/full", "."])
def test_a_place_that_takes_no_cache(place: str, tmp_path: Path) -> None:
    _, said, _ = scored(tmp_path / place)
    assert len(said) == 1


def test_a_cache_on_a_disk_made_read_only_is_still_read(disk: Disk) -> None:
    place = disk(32000)
    scored(place / "cache.db")
    make_read_only(place)
    _, said, judge = scored(place / "cache.db")
    assert (judge.asked, said) == (0, [])


@pytest.mark.parametrize("spoil", [fill, make_read_only])
def test_parquet(spoil: Callable[[Path], None], disk: Disk) -> None:
    place = disk(2000)
    suite = rm.Suite(["rouge"])
    report = suite.evaluate(ROWS)
    path = str(place / "scored.parquet")

    def written() -> OutputFile:
        with OutputFile(path, suite) as file:
            for row in report.rows:
                file.add(row)
            file.finish(report)
        return file

    assert written().refusal is None
    spoil(place)
    file = written()
    assert re.search(r"scored\.parquet: (No space|Read-only)", str(file.refusal))
    assert pq.read_table(path).num_rows == len(ROWS)
    assert not list(place.glob("*.partial*"))


@pytest.mark.parametrize("spoil", [fill, make_read_only])
def test_artifacts_and_what_is_logged_again_when_there_is_room(spoil: Callable[[Path], None], disk: Disk) -> None:
    place = disk(2000)
    mlflow.set_experiment(experiment_id=mlflow.create_experiment("on a small disk", (place / "artifacts").as_uri()))
    report = rm.Suite(["rouge"]).evaluate(ROWS)
    spoil(place)
    with pytest.raises(rm.RagMetricsError, match=r"^the report could not be written to .*(No space|Read-only)"):
        report.log()
    (run,) = mlflow.search_runs(output_format="list")
    assert run.info.status == "FAILED"
    assert run.data.tags["ragmetrics.status"].startswith("failed: ")
    subprocess.run(["mount", "-o", "remount,rw,size=64m", str(place)], check=True)
    report.log(run_id=run.info.run_id)
    (run,) = mlflow.search_runs(output_format="list")
    assert (run.info.status, run.data.tags["ragmetrics.status"]) == ("FINISHED", "complete")
    assert len(mlflow.load_table("rag_rows.json", [run.info.run_id])) == len(ROWS)
    assert len(mlflow.search_traces(run_id=run.info.run_id, return_type="list")) == len(ROWS)


@pytest.mark.parametrize("stuck", [0, 5])
def test_answers_of_a_service_whose_outbox_is_full_go_to_mlflow(
    stuck: int, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run tells how many were waiting in the outbox when the disk got full."""
    place, client = disk(4000), mlflow.MlflowClient
    monkeypatch.setenv("RAGMETRICS_OUTBOX", str(place))
    handler = rm.RagMetricsCallback([own_number])

    def ask(*numbers: int) -> None:
        for number in range(*numbers):
            ECHO.invoke(f"question {number}", {"callbacks": [handler]})

    ask(20)
    assert handler.flush(60)
    with monkeypatch.context() as patch:
        patch.setattr(client, "get_run", lambda *_: (_ for _ in ()).throw(OSError("no route to the server")))
        ask(20, 20 + stuck)
        assert handler.flush(1) is (stuck == 0)
        fill(place)
    ask(20 + stuck, 60)
    handler.close(60 if stuck == 0 else 5)
    (run,) = mlflow.search_runs(output_format="list")
    written = [number for number in range(60) if not 20 <= number < 20 + stuck]
    assert questions(run.info.run_id) == sorted(f"question {number}" for number in written)
    status = ("FAILED", f"failed: answers not written: {stuck}") if stuck else ("FINISHED", "complete")
    assert (run.info.status, run.data.tags["ragmetrics.status"]) == status


@pytest.mark.parametrize("spoil", [fill, make_read_only])
@pytest.mark.parametrize("what", ["--output", "--junit", "--tracking-uri"])
def test_the_command_says_it_in_one_sentence(
    what: str, spoil: Callable[[Path], None], disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = disk(200)
    spoil(place)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS[:5]), encoding="utf-8")
    target = {"--output": f"{place}/o.jsonl", "--junit": f"{place}/j.xml", "--tracking-uri": f"sqlite:///{place}/m.db"}
    logged = [] if what == "--tracking-uri" else ["--no-log"]
    result = CliRunner().invoke(
        main, ["evaluate", str(tmp_path / "rows.jsonl"), "-m", "rouge", *logged, what, target[what]]
    )
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit), result.exception
    assert "No space" in result.output or "Read-only" in result.output or "cannot use the MLflow store" in result.output
    assert "rouge" in result.output or what == "--tracking-uri"  # the figures are still shown
    assert not list(place.glob("*.partial"))


def test_mlflows_store_is_waited_for(mlflow_store: str) -> None:
    report = rm.Suite(["rouge"]).evaluate(ROWS[:20])
    mlflow.search_experiments()
    with locked(Path(mlflow_store.removeprefix("sqlite:///")), 1.5):
        run_id = report.log()
    assert mlflow.get_run(run_id).data.tags["ragmetrics.status"] == "complete"


def test_mlflows_store_that_stays_locked_is_one_sentence(mlflow_store: str) -> None:
    report = rm.Suite(["rouge"]).evaluate(ROWS[:20])
    path = Path(mlflow_store.removeprefix("sqlite:///"))
    mlflow.search_experiments()
    with (
        locked(path, 600),
        pytest.raises(rm.RagMetricsError, match=r"^no run could be started .*locked") as said,
    ):
        report.log()
    assert "SQL:" not in str(said.value)
    with mlflow.start_run() as run:
        with locked(path, 600), pytest.raises(rm.RagMetricsError, match=rf"to run {run.info.run_id}: .*locked"):
            report.log()
        report.log()
    found = mlflow.get_run(run.info.run_id)
    assert (found.info.status, found.data.tags["ragmetrics.status"]) == ("FINISHED", "complete")
    assert len(mlflow.search_traces(run_id=run.info.run_id, return_type="list")) == 20
