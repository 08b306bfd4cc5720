"""What waits for a dead store: counted exactly, on disk where memory is full, written by whoever comes next."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.exceptions import MlflowException

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.adapters.langchain.answer import Answer, Packed, packed, unpacked
from mlflow_ragmetrics.adapters.langchain.scoring import Counts
from mlflow_ragmetrics.adapters.langchain.spill import Spill, SpillOptions
from mlflow_ragmetrics.engine.program import Row

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
            assert len(file.read_text().splitlines()) == 9
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
        handler = rm.RagMetricsCallback(suite, buffer_size=3, spill=tmp_path / "s", spill_bytes=4000)
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


def entry_of(row: Row) -> Packed:
    return packed(Answer(row, None, None, {}, Counts(()), time_ms=5), "run")


def test_rows_come_back_from_disk_as_they_were(tmp_path: Path) -> None:
    (row,) = rm.Suite(["rouge", "lexical_groundedness"]).score_samples(
        [rm.Sample(id="1", question="q", answer="The tower is 300 m high.", references=("It is.",), metadata={"a": 1})]
    )
    spill = Spill(SpillOptions.of(tmp_path / "s"), "store")
    assert spill.append(entry_of(row)) is not None
    found = spill.pop()
    assert found is not None
    answer = unpacked(json.loads(json.dumps(found[1])), Counts(()))
    assert answer is not None
    assert (answer.scored_row, answer.run_id, answer.time_ms) == (row, "run", 5)
    assert len(spill) == 0


def test_the_file_of_a_living_process_is_left_alone_and_a_cut_line_left_out(tmp_path: Path) -> None:
    options = SpillOptions.of(tmp_path / "s")
    (row,) = rm.Suite(["rouge"]).score_samples([rm.Sample(question="q", answer="a", references=("a",))])
    living = Spill(options, "store")
    living.append(entry_of(row))
    assert list(Spill(options, "store").left_behind()) == []
    living.close()
    (path,) = (tmp_path / "s").iterdir()
    with path.open("a") as file:
        file.write('{"row": {"sam')
    assert list(Spill(options, "another store").left_behind()) == []
    assert len(list(Spill(options, "store").left_behind())) == 1
    assert not list((tmp_path / "s").iterdir())


def test_a_full_buffer_is_due_however_long_the_table_is() -> None:
    from types import SimpleNamespace
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
