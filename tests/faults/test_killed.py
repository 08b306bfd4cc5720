"""``ragmetrics evaluate`` killed at random moments and resumed: its tables equal those of an undisturbed run."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mlflow
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Outcome, Question, cache_key
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from mlflow_ragmetrics.judges.chat.tasks import request_of
from tests.faults.budget import LONG
from tests.judges.fake_models import dutiful
from tests.judges.misbehaving_server import Script, served

KILLS = 50 if LONG else 3
IN_FLIGHT = 8
METRICS = ("faithfulness", "answer_relevance")
ROWS = [
    {
        "question": f"Who built {n}?",
        "answer": f"Tower {n} was built in 1889. It is {n} m high.",
        "contexts": [f"Tower {n}."],
    }
    for n in range(40)
]
COMMAND = [
    *(
        sys.executable,
        "-c",
        "from mlflow_ragmetrics.cli import main; main()",
        "evaluate",
        "rows.jsonl",
        "--judge",
        "openai:/local",
    ),
    *(part for name in METRICS for part in ("-m", name)),
    *("--cache", "cache.db", "--tracking-uri", "sqlite:///mlflow.db"),
]


class Spy(ChatJudge):
    """Records the questions in each message, by the keys under which their answers are stored."""

    def __init__(self) -> None:
        super().__init__(dutiful())
        self.keys: dict[str, set[str]] = {}

    def answer(self, questions: Sequence[Question]) -> list[Outcome]:
        said = json.dumps([text for _, text in self.messages(request_of(questions, self.form))])
        self.keys[said] = {cache_key(question) for question in questions}
        return super().answer(questions)


class Place:
    """A folder with data, cache and MLflow store, where the command runs."""

    def __init__(self, folder: Path, url: str, template: Path | None) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
        if template is not None:
            shutil.copyfile(template, folder / "mlflow.db")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
        self.environment = {**kept, "OPENAI_API_KEY": "sk-test-0123456789abcdef", "OPENAI_BASE_URL": url}

    def start(self) -> subprocess.Popen[bytes]:
        with (self.folder / "said").open("ab") as said:
            return subprocess.Popen(COMMAND, cwd=self.folder, env=self.environment, stdout=said, stderr=said)

    def finish(self) -> None:
        code = self.start().wait(timeout=240)
        assert code == 0, (self.folder / "said").read_text()[-3000:]

    def stored(self) -> set[str]:
        """The keys of the stored answers, read from a copy so that the killed process's files stay unchanged."""
        copy = self.folder / "copy"
        copy.mkdir(exist_ok=True)
        for name in ("cache.db", "cache.db-wal"):
            (copy / name).unlink(missing_ok=True)
            if (self.folder / name).exists():
                shutil.copyfile(self.folder / name, copy / name)
        with sqlite3.connect(copy / "cache.db") as cache:
            if not cache.execute("SELECT 1 FROM sqlite_master").fetchone():
                return set()
            return {key for (key,) in cache.execute("SELECT question FROM answers")}

    def tables(self) -> list[dict[str, Any]]:
        """The tables of the complete run; no other run looks finished."""
        client = mlflow.MlflowClient(f"sqlite:///{self.folder}/mlflow.db")
        complete = []
        for run in client.search_runs([each.experiment_id for each in client.search_experiments()]):
            done = run.data.tags.get("ragmetrics.status") == "complete"
            assert (run.info.status == "FINISHED") <= done, run
            if done:
                assert "faithfulness/mean" in run.data.metrics
                complete.append(Path(run.info.artifact_uri.removeprefix("file://")))
        assert complete
        return [_table(folder / name) for folder in complete for name in ("rag_rows.json", "rag_claims.json")]


def _table(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8"))
    kept = [number for number, name in enumerate(found["columns"]) if "duration" not in name]
    return {"columns": [found["columns"][n] for n in kept], "data": [[row[n] for n in kept] for row in found["data"]]}


def asked(server: Script, since: int = 0) -> list[str]:
    return [json.dumps([each["content"] for each in request["messages"]]) for request in server.requests[since:]]


def moment(chance: random.Random, server: Script, calls: int, seconds: float) -> Callable[[float], bool]:
    """When to kill: at the start, after a number of questions, or while the run is logged."""
    since, point = len(server.requests), chance.random()
    if point < 0.1:
        wait = chance.uniform(0, 2.0)
        return lambda passed: passed > wait
    if point < 0.7:
        number, late = chance.randint(1, calls), chance.uniform(0, 0.03)
        return lambda passed: len(server.requests) - since >= number and not time.sleep(late)
    late = chance.uniform(0, seconds)
    return lambda passed: len(server.requests) - since >= calls and not time.sleep(late)


@pytest.fixture(scope="module")
def server() -> Iterator[Script]:
    with served(Script(delay=0.05)) as script:
        yield script


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_and_resumed(server: Script, tmp_path: Path, mlflow_template: Path) -> None:
    spy = Spy()
    rm.Suite(METRICS, judge=spy).evaluate(ROWS)
    calm = Place(tmp_path / "calm", server.url, mlflow_template)
    began = time.monotonic()
    calm.finish()
    logging, expected, calls = time.monotonic() - began - _asking(server), calm.tables(), len(server.requests)
    assert sorted(asked(server)) == sorted(spy.keys)
    chance, seen = random.Random(7), Counter[str]()
    for number in range(KILLS):
        place = Place(tmp_path / str(number), server.url, mlflow_template if number % 10 or not LONG else None)
        before, due = len(server.requests), moment(chance, server, calls, logging / 2)
        process, began = place.start(), time.monotonic()
        while process.poll() is None and not due(time.monotonic() - began):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        seen["ended before"] += process.wait() == 0
        at_kill, stored = len(server.requests), place.stored()
        place.finish()
        first, again = asked(server)[before:at_kill], asked(server, at_kill)
        seen.update(kills=1, asked_before=len(first), stored=len(stored), asked_again=len(set(first) & set(again)))
        seen["logging had begun"] += len(first) == calls
        assert [said for said in again if spy.keys[said] & stored] == []
        assert len(set(first) & set(again)) <= IN_FLIGHT
        assert set(first) | set(again) == set(spy.keys)
        tables = place.tables()
        assert all(tables[n] == expected[n % 2] for n in range(len(tables)))
        shutil.rmtree(place.folder)
    print("\n", dict(seen), f"{calls} calls a run, {logging:.1f} s beside them")


def _asking(server: Script) -> float:
    return server.times[-1] - server.times[0]
