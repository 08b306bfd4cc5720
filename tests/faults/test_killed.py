"""Commands and services end at random moments: nothing is doubled, lost unsaid or wrongly taken for complete."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import mlflow
import pytest

import mlflow_ragmetrics as rm
from tests.faults.budget import LONG
from tests.faults.processes import (
    ECHO,
    STORE,
    command,
    ended,
    forked,
    listed,
    locked,
    lost,
    own_number,
    refuse_all,
    rows,
    runs,
    said,
    wait_for,
)
from tests.judges.misbehaving_server import Fault, Script, served

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked"),
]
KILLS = int(os.environ.get("RAGMETRICS_KILLS") or (100 if LONG else 3))
CHANCE = random.Random(int(os.environ.get("RAGMETRICS_SEED") or 1))
IN_FLIGHT, TRACES, ANSWERS, NEVER = 8, 40, 5, 2
ROWS = [
    {"question": f"Who built {n}?", "answer": f"Tower {n} was built. It is {n} m high.", "contexts": [f"Tower {n}."]}
    for n in range(24)
]
METRICS = ("-m", "faithfulness", "-m", "answer_relevance")
evaluate = partial(
    command, "evaluate", "rows.jsonl", *METRICS, "--judge", "openai:/local", "--cache", "cache.db",
    "--experiment", "mine", "--output", "out.jsonl", "--tracking-uri", STORE,
)  # fmt: skip
watch = partial(command, "watch", "live", "-m", "coherence", "-m", "lexical_relevance", "--tracking-uri", STORE)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    with served(Script(delay=0.05)) as script:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
        monkeypatch.setenv("OPENAI_BASE_URL", script.url)
        yield script


@pytest.fixture
def copied(tmp_path: Path, mlflow_template: Path) -> Callable[[str], Path]:
    """Makes a folder with rows and a new store."""

    def made(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        shutil.copyfile(mlflow_template, folder / "mlflow.db")
        with contextlib.closing(sqlite3.connect(folder / "mlflow.db")) as store, store:
            store.execute("UPDATE experiments SET artifact_location = ?", [str(folder / "mlruns")])
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
        return folder

    return made


def asked(server: Script, since: int = 0) -> set[str]:
    """The different messages that the server got."""
    return {json.dumps([message["content"] for message in each["messages"]]) for each in server.requests[since:]}


def table(folder: Path, run_id: str) -> list[dict[str, Any]]:
    """The rows of a run's table, without times."""
    ((place,),) = rows(folder, "SELECT artifact_uri FROM runs WHERE run_uuid = ?", run_id)
    found = json.loads((folder / place.removeprefix("file://") / "rag_rows.json").read_text(encoding="utf-8"))
    records = [dict(zip(found["columns"], row, strict=True)) for row in found["data"]]
    return [{name: value for name, value in each.items() if "duration" not in name} for each in records]


def moment(server: Script, calls: int, logging: float) -> Callable[[float], bool]:
    """When to end an evaluation: at its start, after a number of questions, or while its run is written."""
    since, point = len(server.requests), CHANCE.random()
    if point < 0.1:
        start = CHANCE.uniform(0.0, 2.0)
        return lambda passed: passed > start
    number, late = (CHANCE.randint(1, calls), 0.03) if point < 0.6 else (calls, logging)
    wait = CHANCE.uniform(0.0, late)
    return lambda passed: len(server.requests) - since >= number and not time.sleep(wait)


def test_an_evaluation(server: Script, copied: Callable[[str], Path]) -> None:
    """Its output and run are whole or marked; the second attempt asks only what was not answered."""
    calm = copied("calm")
    assert ended(forked(evaluate, calm)) == 0, said(calm)
    logging, calls, whole = time.monotonic() - server.times[-1], len(server.requests), asked(server)
    ((run_id, *_),) = runs(calm)
    expected, seen = table(calm, run_id), Counter[str]()
    for number in range(KILLS):
        folder, ending = copied(str(number)), CHANCE.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
        due, before = moment(server, calls, logging), len(server.requests)
        process, began = forked(evaluate, folder), time.monotonic()
        wait_for(lambda due=due, began=began: due(time.monotonic() - began))
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, ending)
        code = ended(process, 20)
        at_kill, states = len(server.requests), runs(folder)
        assert code in (0, -ending, 128 + ending)
        for _, status, says in states:
            assert (status == "FINISHED") <= (says == "complete")
            assert says != "writing" or code < 0 or "Ended at once" in said(folder)
        out = folder / "out.jsonl"
        assert not out.exists() or all(map(json.loads, out.read_text(encoding="utf-8").splitlines()))
        complete = [says for *_, says in states].count("complete")
        assert complete >= (code == 0)
        assert ended(forked(evaluate, folder)) == 0, said(folder)
        first, again = asked(server, before) - asked(server, at_kill), asked(server, at_kill)
        repeated = len(server.requests) - before - len(first | again)
        assert first | again == whole
        assert repeated <= IN_FLIGHT
        states = runs(folder)
        assert [says for *_, says in states].count("complete") == complete + 1
        for run, _, says in states:
            # a run that could be marked keeps its traces; those of a killed run are removed
            allowed = {len(ROWS)} if says == "complete" else range(len(ROWS) + 1) if says != "killed" else {0}
            assert says != "writing"
            assert len(listed(folder, run)) in allowed, says
            assert says != "complete" or table(folder, run) == expected
        query = "SELECT trace_id, name FROM assessments GROUP BY trace_id, name, source_type HAVING count(*) > 1"
        assert rows(folder, query) == []
        assert len(out.read_text(encoding="utf-8").splitlines()) == len(ROWS)
        assert "Traceback" not in said(folder)
        seen[f"{ending.name}, {'ended before' if code == 0 else 'a run was begun' if states[1:] else 'no run'}"] += 1
        shutil.rmtree(folder)
    print("\n", dict(seen), f"{calls} calls a run, {logging:.1f} s after them")


def test_ctrl_c_ends_it_soon(server: Script, copied: Callable[[str], Path]) -> None:
    """Even while it waits to try again."""
    folder = copied("one")
    server.faults = [Fault(status=429, headers={"Retry-After": "200"})] * 99
    process = forked(evaluate, folder)
    wait_for(lambda: len(server.requests) >= 1)
    time.sleep(1.0)
    os.kill(process, signal.SIGINT)
    assert ended(process, 10) == 130, said(folder)


def live(name: str, run_id: str | None = None) -> int:
    """Answers questions into one run, and notes each a moment after it is answered, when it is counted."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    handler = rm.RagMetricsCallback(["lexical_relevance"], run_id=run_id)
    with Path("answered").open("a", encoding="utf-8") as answered:
        for number in range(12):
            ECHO.invoke(f"{name} {number}", {"callbacks": [handler]})
            time.sleep(0.05)
            answered.write(f"{name} {number}\n")
            answered.flush()
    return 0 if handler.close(60) else 1


def test_live_scoring(copied: Callable[[str], Path]) -> None:
    """After the next process, no answer is in the run twice, and the run says how many are missing."""
    for number in range(KILLS):
        folder, ending = copied(str(number)), CHANCE.choice((signal.SIGKILL, signal.SIGTERM))
        run_id = mlflow.MlflowClient(f"sqlite:///{folder}/mlflow.db").create_run("0").info.run_id
        noted = folder / "answered"
        process = forked(partial(live, "first", run_id), folder)
        wait_for(lambda noted=noted, number=number: noted.exists() and (number % 2 == 0 or noted.stat().st_size > 0))
        time.sleep(CHANCE.uniform(0.0, 1.0))
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, ending)
        ended(process)
        assert ended(forked(partial(live, "second", run_id), folder)) == 0, said(folder)
        answered, found = set(noted.read_text(encoding="utf-8").splitlines()), listed(folder, run_id)
        points = rows(folder, "SELECT step FROM metrics WHERE key = 'lexical_relevance' AND run_uuid = ?", run_id)
        assert len(found) == len(set(found))
        # the process may have ended after its handler accepted an answer, but before it was noted here
        assert len(set(found) - answered) <= 1
        assert len(found) <= len(points) <= len(answered) + 1
        missing, counted = len(answered - set(found)), lost(folder, run_id)
        assert missing <= counted <= missing + 1
        assert counted == 0 or [says.rpartition(" ")[2] for *_, says in runs(folder)] == [str(counted)]
        with contextlib.closing(sqlite3.connect(folder / "data" / "outbox" / "outbox.db")) as outbox:
            for name in ("runs", "processes", "counts", "answers"):
                assert outbox.execute(f"SELECT count(*) FROM {name}").fetchone() == (0,), name
        print(f"\n{ending.name}: {len(answered)} answers, {missing} lost with the process, {counted} said by the run")


def make_traces() -> int:
    """Stores traces without scores."""
    mlflow.set_experiment("live")
    for number in range(TRACES):
        with mlflow.start_span("answer") as span:
            span.set_inputs({"question": f"How high is tower {number}?"})
            span.set_outputs(f"Tower {number} is {number} metres high.")
    mlflow.flush_trace_async_logging()
    return 0


def test_a_watch(copied: Callable[[str], Path]) -> None:
    """It ends in time at any moment, and each trace has each score once."""

    def scores(folder: Path) -> Counter[tuple[str, str]]:
        return Counter(rows(folder, "SELECT trace_id, name FROM assessments"))

    def counted(folder: Path) -> list[Any]:
        return rows(folder, "SELECT value FROM latest_metrics WHERE key = 'traces/scored'")

    for number in range(KILLS):
        folder = copied(str(number))
        assert ended(forked(make_traces, folder)) == 0, said(folder)
        for is_last in (False, True):  # the next start scores the rest
            (folder / "begun").unlink(missing_ok=True)
            is_one_pass = not is_last and number % 2 == 0
            only_counts = len(scores(folder)) == 2 * TRACES  # killed between the last score and the figures
            process = forked(partial(watch, *(("--once",) if is_one_pass else ("--every", "0s"))), folder)
            wait_for((folder / "begun").exists)
            if is_last:
                wait_for(lambda folder=folder: len(scores(folder)) == 2 * TRACES)
                wait_for(lambda folder=folder, only_counts=only_counts: counted(folder) or not only_counts)
            else:
                time.sleep(CHANCE.uniform(0.0, 3.0))
            ending = signal.SIGTERM if is_last else CHANCE.choice((signal.SIGKILL, signal.SIGTERM))
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, ending)
            # before the command has its handlers, the signal itself ends the process; one pass may have ended before
            assert ended(process, 15) in (143, -ending, *((0,) if not is_last and number % 2 == 0 else ())), said(
                folder
            )
            assert set(scores(folder).values()) <= {1}
        assert len(scores(folder)) == 2 * TRACES
        assert counted(folder) == [(TRACES,)]
        assert "Traceback" not in said(folder)


def serve(start: str, uri: str, experiment: str, outbox: Path, *, is_down: bool, is_killed: bool) -> int:
    """Answers questions as the ``start`` of a service; one to be killed makes a file of that name when it is due."""
    os.environ.update(RAGMETRICS_OUTBOX=str(outbox), MLFLOW_EXPERIMENT_NAME=experiment)
    mlflow.set_tracking_uri(uri)
    if is_down:
        refuse_all()
    handler = rm.RagMetricsCallback([own_number])
    for number in range(ANSWERS):
        ECHO.invoke(f"{start} {number}", {"callbacks": [handler]})
    if not is_killed:
        return 0 if handler.close(120) else 1
    wait_for(lambda: handler.counts["scored"] == ANSWERS)
    for number in range(NEVER):
        ECHO.invoke(f"{start} never {number}", {"callbacks": [handler]})
    time.sleep(0.1)  # an answer is counted within a moment
    (outbox / start).touch()
    time.sleep(600)
    return 1


CASES = [("same", "same", "locked"), ("other", "relative", "down")]


@pytest.mark.parametrize(
    ("experiments", "place", "state"),
    list(product(("same", "other"), ("same", "other", "relative"), ("up", "locked", "down"))) if LONG else CASES,
)
def test_two_services(experiments: str, place: str, state: str, copied: Callable[[str], Path], tmp_path: Path) -> None:
    """Both are killed and start twice again: no answer is in a run of another service, or of another start."""
    outbox, homes = tmp_path / "outbox", {"A": copied("a")}
    outbox.mkdir()
    homes["B"] = homes["A"] if place == "same" else copied("b")
    stores = sorted({homes["A"], homes["B"] if place == "relative" else homes["A"]})
    uri = STORE if place == "relative" else f"sqlite:///{homes['A']}/mlflow.db"
    named = {"A": "first", "B": "first" if experiments == "same" else "second"}

    def started(number: int, **options: bool) -> list[int]:
        works = {name: partial(serve, f"{name}{number}", uri, named[name], outbox, **options) for name in homes}
        return [forked(work, homes[name]) for name, work in works.items()]

    with contextlib.ExitStack() as stack:
        for store in stores if state == "locked" else []:
            stack.enter_context(locked(store / "mlflow.db", 600))
        processes = started(1, is_down=state == "down", is_killed=True)
        wait_for(lambda: all((outbox / f"{name}1").exists() for name in homes))
        time.sleep(CHANCE.choice((0.0, 0.7, 2.5)))
        for process in processes:
            os.kill(process, signal.SIGKILL)
            assert ended(process) == -signal.SIGKILL
    for number in (2, 3):
        assert [ended(process) for process in started(number, is_down=False, is_killed=False)] == [0, 0]
    query = "SELECT run_uuid, e.name FROM runs JOIN experiments e USING (experiment_id)"
    experiment = {run: name for store in stores for run, name in rows(store, query)}
    found = [(store, *run) for store in stores for run in runs(store)]
    assert len(found) == 6, "a run for each start of each service"
    for store, run, status, says in found:
        start = listed(store, run)[0].partition(" ")[0]
        assert experiment[run] == named[start[0]]
        assert listed(store, run) == [f"{start} {number}" for number in range(ANSWERS)]
        is_killed = start[1] == "1"
        assert (lost(store, run), status) == ((NEVER, "FAILED") if is_killed else (0, "FINISHED"))
        assert says.endswith(f"at least {NEVER}") if is_killed else says.startswith("complete"), says
