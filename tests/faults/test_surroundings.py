"""No network, no secret, many threads, loops, processes; hostile texts in all that goes to MLflow and the terminal."""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import socket
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.core.question import Rating
from tests.faults.strange import HOSTILE

ROWS = [
    {
        "question": f"Who built tower {number}?",
        "answer": f"Tower {number} was built by engineers in {1800 + number}. I am sure.",
        "reference": f"Engineers built tower {number} in 1889.",
        "contexts": [f"Tower {number} was built in 1889 by engineers.", "It is in Paris."],
        "retrieved_doc_ids": ["a", "b"],
        "gold_doc_ids": ["a"],
    }
    for number in range(40)
]
SECRET = "correct-horse-battery-staple-9000"


def figures(report: rm.Report) -> dict[str, float]:
    return {name: value for name, value in report.metrics.items() if "duration" not in name}


def test_the_offline_path_opens_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a socket was opened")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    report = rm.Suite.preset("full").evaluate(ROWS[:3])
    assert report.log()
    assert all(score.status != "error" for row in report.rows for score in row.scores.values())


def test_one_suite_in_32_threads_and_in_several_loops() -> None:
    suite = rm.Suite.preset("full")
    expected = figures(suite.evaluate(ROWS[:5]))
    with ThreadPoolExecutor(32) as pool:
        assert all(figures(each) == expected for each in pool.map(lambda _: suite.evaluate(ROWS[:5]), range(64)))

    async def together() -> list[rm.Report]:
        return await asyncio.gather(*(suite.aevaluate(ROWS[:5]) for _ in range(4)))

    with ThreadPoolExecutor(3) as loops:
        for reports in loops.map(lambda _: asyncio.run(together()), range(3)):
            assert all(figures(report) == expected for report in reports)


def evaluated(suite: rm.Suite | None, sender: Any) -> None:
    sender.send(figures((suite or rm.Suite.preset("lexical")).evaluate(ROWS[:3])))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_suite_works_in_a_child_process(method: str) -> None:
    suite = rm.Suite.preset("lexical")
    expected = figures(suite.evaluate(ROWS[:3]))
    context = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=evaluated, args=(suite if method == "fork" else None, sender))
    child.start()
    assert receiver.poll(60)
    assert receiver.recv() == expected
    child.join(10)
    assert child.exitcode == 0


class Counting:
    """A remote judge that counts what it is asked."""

    name = fingerprint = "counting"

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self._lock = threading.Lock()

    def answer(self, questions: Any) -> list[Any]:
        with self._lock:
            self.asked.extend(questions)
        return [Rating(4, SECRET if "leak" in str(question) else "fine") for question in questions]


def test_threads_that_share_a_cache_ask_nothing_again(tmp_path: Path) -> None:
    judge = Counting()
    suite = rm.Suite(["correctness", "answer_relevance"], judge=judge, cache=tmp_path / "c.db")
    suite.evaluate(ROWS)
    assert len(judge.asked) == len(set(judge.asked)) == 2 * len(ROWS)
    with ThreadPoolExecutor(8) as pool:
        reports = list(pool.map(lambda _: suite.evaluate(ROWS), range(8)))
    assert len(judge.asked) == 2 * len(ROWS)
    assert all(report.usage["cached"] == 2 * len(ROWS) for report in reports)


@pytest.mark.parametrize("place", ["/proc/no/cache.db", "/dev/full/cache.db", "/dev/full", "folder"])
def test_a_cache_that_cannot_be_kept_is_one_warning(place: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    suite = rm.Suite(["correctness"], judge=Counting(), cache=tmp_path / place)
    with pytest.warns(RuntimeWarning, match="cache") as said:
        report = suite.evaluate(ROWS[:5])
    assert report.metrics["correctness/n_scored"] == 5
    assert len([each for each in said if "cache" in str(each.message)]) == 1


class Leaking:
    """A judge whose every failure tells its key, as clients' errors do."""

    name = "leaking"

    def __init__(self, key: str) -> None:
        self.api_key = key

    def answer(self, questions: Any) -> list[Any]:
        raise RuntimeError(f"401 for {self.api_key} at https://user:{self.api_key}@host/v1?api_key={self.api_key}")


def test_no_secret_is_written_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any, capsys: Any
) -> None:
    monkeypatch.setenv("JUDGE_API_KEY", SECRET)
    monkeypatch.chdir(tmp_path)
    said = []
    with caplog.at_level(logging.DEBUG):
        suite = rm.Suite(["faithfulness", "correctness"], judge=Leaking(SECRET), cache=tmp_path / "c.db")
        report = suite.evaluate(ROWS[:3])
        report.log()
        said.append(repr(report.rows) + str(report.table.to_dict()) + repr(report.description))
        try:
            rm.score("faithfulness", ROWS[0], judge=Leaking(SECRET))
        except rm.RagMetricsError:
            said.append(traceback.format_exc())
        (tmp_path.parent / "suite.yaml").write_text(
            f"preset: lexical\njudges: [{{model: 'openai:/x', api_key: {SECRET}}}]"
        )
        try:
            rm.Suite.from_yaml(tmp_path.parent / "suite.yaml")
        except rm.RagMetricsError:
            said.append(traceback.format_exc())
    out = capsys.readouterr()
    text = "".join([*said, caplog.text, out.out, out.err])
    assert len(said) == 3
    assert SECRET not in text
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_hostile_texts_are_scored_shown_and_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"question": t, "answer": t, "reference": t, "contexts": [t, "x"], t: t} for t in HOSTILE]
    report = rm.Suite.preset("full").evaluate(rows)
    assert len(report.table) == len(rows)
    assert not [s.error for row in report.rows for s in row.scores.values() if s.status == "error"]
    report.log()
    pages = list(tmp_path.rglob("ragmetrics_report.html"))
    assert len(pages) == 1
    assert "<script>alert(1)" not in pages[0].read_text(encoding="utf-8")


def test_hostile_texts_leave_the_terminal_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(
        "".join(json.dumps({"id": f"{n}{t}", "answer": t, "reference": t}) + "\n" for n, t in enumerate(HOSTILE))
    )
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(
        main, ["evaluate", str(path), "-m", "rouge", "-m", "coherence", "--no-log", "--worst", "40"]
    )
    assert result.exit_code == 0, result.output
    assert not {"\x1b", "\x00", "\u202e"} & set(result.output)


def test_an_answer_of_ten_million_characters() -> None:
    answer = "The tower was built in 1889. " * 350_000
    score = rm.score("rouge", {"answer": answer, "reference": "The tower was built in 1889."})
    assert score.value is not None
    assert 0 < score.value < 1
