"""What waits for a dead store: counted exactly, on disk where memory is full, written by whoever comes next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow
import pytest
from mlflow.exceptions import MlflowException
from mlflow_ragmetrics.adapters.langchain.spill import SpillOptions

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.adapters.langchain.scoring import Answer, Counts, packed, unpacked
from mlflow_ragmetrics.tracking.live import Journal
from mlflow_ragmetrics.tracking.tables import left_unwritten

QUESTIONS = [f"question {number}" for number in range(1, 13)]
Dead = Callable[[], Any]


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> Dead:
    @contextmanager
    def dead() -> Iterator[None]:
        def refuse(*_: Any, **__: Any) -> Any:
            raise MlflowException("no route\nto the \x1b[31mserver")

        with monkeypatch.context() as patch:
            patch.setattr(mlflow.MlflowClient, "log_batch", refuse)
            yield

    return dead


def counted(handler: rm.RagMetricsCallback) -> tuple[int, ...]:
    return tuple(handler.counts[name] for name in ("scored", "written", "unwritten", "lost"))


def stored(run_id: str) -> list[str]:
    return list(mlflow.load_table("rag_rows.json", [run_id])["question"])


def test_a_full_buffer_goes_to_disk_and_is_written_in_order(
    suite: rm.Suite, plain: Any, dead: Dead, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with mlflow.start_run() as run, rm.RagMetricsCallback(suite, buffer_size=3, spill=tmp_path / "s") as handler:
        with dead():
            for question in QUESTIONS:
                plain.invoke(question, {"callbacks": [handler]})
            assert not handler.flush(0.5)
            assert counted(handler) == (12, 0, 12, 0)
            (file,) = (tmp_path / "s").iterdir()
            assert file.stat().st_mode & 0o077 == 0
        assert handler.flush(60)
        assert counted(handler) == (12, 12, 0, 0)
    assert stored(run.info.run_id) == QUESTIONS
    assert not list((tmp_path / "s").iterdir())
    assert all("\n" not in record.getMessage() and "\x1b" not in record.getMessage() for record in caplog.records)


def test_beyond_the_disk_answers_are_dropped_counted_and_said_once(
    suite: rm.Suite, plain: Any, dead: Dead, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with mlflow.start_run() as run:
        handler = rm.RagMetricsCallback(suite, buffer_size=3, spill=tmp_path / "s", spill_bytes=8000)
        with dead():
            for question in QUESTIONS:
                plain.invoke(question, {"callbacks": [handler]})
            assert not handler.flush(0.5)
            scored, written, unwritten, lost = counted(handler)
            assert (scored, written) == (12, 0)
            assert unwritten + lost == 12
            assert 0 < lost < 9
        assert handler.flush(60)
        plain.invoke("later", {"callbacks": [handler]})
        assert handler.close()
        assert counted(handler) == (13, 13 - lost, 0, lost)
    assert stored(run.info.run_id) == [*QUESTIONS[: 12 - lost], "later"]
    assert caplog.text.count("answers are dropped from now on") == 1
    assert f"answers are no longer dropped; {lost} were" in caplog.text


def test_what_a_process_leaves_is_written_by_the_next(suite: rm.Suite, plain: Any, dead: Dead, tmp_path: Path) -> None:
    with mlflow.start_run() as run:
        pass
    first = rm.RagMetricsCallback(suite, run_id=run.info.run_id, buffer_size=2, spill=tmp_path / "s")
    with dead():
        plain.batch(QUESTIONS[:5], {"callbacks": [first]})
        assert not first.close(0.5)
    assert counted(first) == (5, 0, 5, 0)
    with rm.RagMetricsCallback(suite, run_id=run.info.run_id, spill=tmp_path / "s") as second:
        plain.invoke(QUESTIONS[5], {"callbacks": [second]})
    assert counted(second) == (1, 1, 0, 0)
    assert sorted(stored(run.info.run_id)) == sorted(QUESTIONS[:6])
    points = mlflow.MlflowClient().get_metric_history(run.info.run_id, "own_number")
    assert sorted(point.value for point in points) == [pytest.approx(n / 1000) for n in range(1, 7)]


def scored(sample: rm.Sample, *metrics: str) -> Answer:
    (row,) = rm.Suite(metrics or ["rouge"]).score_samples([sample])
    return Answer(row, None, "trace", {}, Counts(()), time_ms=5)


def new(folder: Path) -> Journal:
    return Journal(folder, "store")


def left(folder: Path) -> Journal:
    (journal,) = Journal.left_in(folder, "store")
    return journal


def put(journal: Journal, answer: Answer) -> int:
    journal.accept()
    number = journal.append(packed(answer), 10**6)
    assert number is not None
    return number


def back(journal: Journal, number: int) -> Answer:
    entry = journal.answer(number)
    assert entry is not None
    answer = unpacked(entry, "run", Counts(()))
    assert answer is not None
    return answer


class Odd:
    """Something of the application's in the metadata."""

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("it cannot be copied")


@pytest.mark.parametrize("more", [{"a": 1}, {"a": Odd()}, {"a": "half \ud83d, \x00 and a\nline"}, {"a": float("nan")}])
def test_answers_come_back_from_disk_as_they_were(more: dict[str, Any], tmp_path: Path) -> None:
    text = "The tower is 300 m high.\nVery\u2028high."
    sample = rm.Sample(id="1", question="q", answer=text, references=("It is.",), metadata=more)
    answer, journal = scored(sample, "rouge", "lexical_groundedness"), new(tmp_path)
    found = back(journal, put(journal, answer))
    assert (found.run_id, found.trace_id, found.time_ms, found.metrics) == ("run", "trace", 5, None)
    assert found.scored_row.scores == answer.scored_row.scores
    assert found.scored_row.sample.answer == text
    assert more != {"a": 1} or found.scored_row == answer.scored_row


def test_a_journal_says_what_its_process_had(tmp_path: Path) -> None:
    """Five came: one is written, one waits, its metrics and place noted, one was dropped, two are not scored."""
    answer, journal = scored(rm.Sample(question="q", answer="a", references=("a",))), new(tmp_path)
    numbers = [put(journal, answer) for _ in range(2)]
    for _ in range(3):
        journal.accept()
    journal.settle()
    journal.change({None: {"run": "r", "part": "p"}, numbers[1]: {"metrics": [("m", 0.5, 7, 1)], "place": ("p", 3)}})
    journal.done([numbers[0]])
    assert (journal.waiting, journal.unscored, journal.is_over) == ([numbers[1]], 2, False)
    assert list(Journal.left_in(tmp_path, "store")) == []  # the process lives
    journal.close()
    assert list(Journal.left_in(tmp_path, "another store")) == []
    with journal.path.open("ab") as file:
        file.write(b'[2, {"row": {"sam')  # cut off by the kill
    for _ in range(2):
        found = left(tmp_path)
        assert (found.waiting, found.unscored, found.about) == ([numbers[1]], 2, {"run": "r", "part": "p"})
        again = back(found, numbers[1])
        assert again.left_at == ("p", 3)
        assert [(each.key, each.value, each.step) for each in again.metrics or ()] == [("m", 0.5, 1)]
        found.close()
    found = left(tmp_path)
    found.done(found.waiting)
    assert found.unscored == 2
    found.close(keep=False)
    assert not list(tmp_path.glob("*.jsonl"))


def test_what_is_no_journal_and_what_cannot_be_written_are_left_alone(tmp_path: Path) -> None:
    journal = new(tmp_path)
    journal.path.with_stem(f"{journal.path.stem}0").write_bytes(b"")
    assert list(Journal.left_in(tmp_path, "store")) == []
    assert journal.append("{}", 10) is None
    journal.close()
    assert journal.append("{}", 10**6) is None
    journal.accept()
    assert (journal.unscored, journal.waiting) == (0, [])
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        new(tmp_path / "file")


def test_a_journal_that_a_full_disk_cuts_off_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fdopen

    def cut(*arguments: Any, **options: Any) -> Any:
        file = real(*arguments, **options)
        file.write(b"short")
        return SimpleNamespace(write=lambda data: 5, fileno=file.fileno, close=file.close)

    monkeypatch.setattr(os, "fdopen", cut)
    with pytest.raises(OSError, match="No space left on device"):
        new(tmp_path / "s")
    assert not list((tmp_path / "s").iterdir())


def test_a_full_buffer_is_due_however_long_the_table_is() -> None:
    from unittest.mock import patch

    from mlflow_ragmetrics.adapters.langchain import sink as module

    sink = module.MLflowSink({}, run_id="run", buffer_size=10)
    answers = [SimpleNamespace(run_id="run", written=False) for _ in range(5)]
    sink._writing = answers  # type: ignore[assignment]
    seen: list[bool] = []
    live = SimpleNamespace(lock=__import__("threading").Lock(), begun=True, rows=500_000)
    with (
        patch.object(sink, "_live_run", return_value=live),
        patch.object(sink, "_write_into", lambda live, answers, received, *, everything: seen.append(everything)),
    ):
        sink._write()
    assert seen == [True]


def test_a_folder_that_others_can_reach_is_not_used(tmp_path: Path) -> None:
    folder = SpillOptions.of(True).folder
    assert folder is not None
    assert folder.parent == tmp_path
    folder.mkdir(mode=0o700)
    assert SpillOptions.of(True).folder == folder
    folder.chmod(0o777)
    assert SpillOptions.of(True).folder not in (folder, None)
    assert SpillOptions.of(False).folder is None


_KILLED = """
import os, signal, sys, time
import mlflow
import mlflow_ragmetrics as rm
from langchain_core.runnables import RunnableLambda

@rm.metric
def own_number(answer: str) -> float:
    if "never" in answer:
        time.sleep(600)
    return 0.5

handler = rm.RagMetricsCallback([own_number], run_id=sys.argv[1] or None, spill=sys.argv[2])
chain = RunnableLambda(lambda question: question)
for n in range(3):
    chain.invoke(f"question {n}", {"callbacks": [handler]})
begun = lambda: any(run.data.metrics for run in mlflow.search_runs(output_format="list"))
until = time.monotonic() + 120
while handler.counts["scored"] < 3 or (sys.argv[3] and not begun()):
    assert time.monotonic() < until
    time.sleep(0.05)
for n in range(2):
    chain.invoke(f"never {n}", {"callbacks": [handler]})
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs SIGKILL")
@pytest.mark.parametrize(("named", "begun"), [(True, True), (True, False), (False, True)])
def test_of_a_killed_process_the_next_writes_what_was_scored_and_says_what_is_lost(
    named: bool, begun: bool, suite: rm.Suite, plain: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = ""
    if named:
        with mlflow.start_run() as run:
            run_id = run.info.run_id
    command = [sys.executable, "-c", _KILLED, run_id, str(tmp_path / "s"), "begun" if begun else ""]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (file,) = (tmp_path / "s").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    if not named:
        (found,) = mlflow.search_runs(output_format="list")
        run_id = found.info.run_id
    with mlflow.start_run() as other, rm.RagMetricsCallback(suite, spill=tmp_path / "s") as handler:
        plain.invoke(QUESTIONS[0], {"callbacks": [handler]})
    assert not list((tmp_path / "s").iterdir())
    assert stored(other.info.run_id) == QUESTIONS[:1]
    assert sorted(stored(run_id)) == [f"question {n}" for n in range(3)]
    points = mlflow.MlflowClient().get_metric_history(run_id, "own_number")
    assert sorted(point.step for point in points) == [0, 1, 2]
    run = mlflow.get_run(run_id)
    assert left_unwritten(run.data.tags) == 2
    assert not [name for name in run.data.tags if name.startswith("ragmetrics.received.")]
    assert "2 answers were accepted and neither written nor dropped: process" in run.data.tags["ragmetrics.status"]
    assert "2 answers were lost" in caplog.text
    assert run.info.status == ("FINISHED" if named else "FAILED")
