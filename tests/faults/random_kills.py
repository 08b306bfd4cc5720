"""Logged evaluations and live scoring, ended at random moments: checks what is left, and the next start.

``python tests/faults/random_kills.py [count] [seed] [evaluate | live]``. Half of the processes run ``ragmetrics
evaluate`` with an output and a run, half score a chain live (or all do one of these). Each is ended by SIGKILL or
SIGTERM at a random moment, the live ones alternately before and after their first answer. Then the same is done again,
and store, files and counts are checked. Processes are forked from one that has imported everything.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import mlflow
from langchain_core.runnables import RunnableLambda

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.cli import main as ragmetrics

ROWS = [{"question": f"Why {n}?", "answer": f"Because of {n}.", "reference": f"For {n}."} for n in range(12)]
_COMMAND = ["evaluate", "rows.jsonl", "-m", "rouge", "-m", "lexical_relevance", "--experiment", "mine"]
_COMMAND += ["--output", "out.jsonl", "--tracking-uri", "sqlite:///mlflow.db"]
_LONGEST = 240.0


def evaluate() -> int:
    """Runs the command as a separate process would."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        ragmetrics(_COMMAND)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def live() -> int:
    """Scores a chain live into one run, and notes each question a moment after it is answered, when it is counted."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    if not Path("run").exists():
        with mlflow.start_run() as run:
            pass
        Path("run.new").write_text(run.info.run_id, encoding="utf-8")
        os.replace("run.new", "run")
    run_id = Path("run").read_text(encoding="utf-8")
    os.environ["RAGMETRICS_OUTBOX"] = "data"
    handler = rm.RagMetricsCallback(["lexical_relevance"], run_id=run_id)
    chain = RunnableLambda(lambda question: f"Because of {question}")
    with Path("answered").open("a", encoding="utf-8") as answered:
        for row in ROWS:
            question = f"{row['question']} ({os.getpid()})"
            chain.invoke(question, {"callbacks": [handler]})
            time.sleep(0.05)
            answered.write(f"{question}\n")
            answered.flush()
    return 0 if handler.close(60) else 1


def is_begun(folder: Path) -> bool:
    """Whether the run of ``live`` exists."""
    return (folder / "run").exists()


def is_answering(folder: Path) -> bool:
    """Whether ``live`` has given an answer."""
    noted = folder / "answered"
    return noted.exists() and noted.read_text(encoding="utf-8") != ""


STAGES = {evaluate: [lambda _: True], live: [is_begun, is_answering]}
"""When the parts of each work begin in which it is ended."""


def forked(work: Callable[[], int], folder: Path) -> int:
    """Forks a process that works in ``folder``, and returns its number."""
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        os.chdir(folder)
        said = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(said, 1)
        os.dup2(said, 2)
        code = work()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended(process: int) -> int:
    """The exit code of a process, or minus the number of the signal that ended it."""
    until = time.monotonic() + _LONGEST
    while time.monotonic() < until:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    raise AssertionError("it did not end")


def wait_for(is_so: Callable[[], bool]) -> None:
    """Waits until a condition is true, for at most a minute."""
    until = time.monotonic() + 60
    while not is_so() and time.monotonic() < until:
        time.sleep(0.01)


class Store:
    """The content of the MLflow store of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with contextlib.closing(sqlite3.connect(folder / "mlflow.db")) as store:
            assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            self.runs = dict(store.execute("SELECT run_uuid, status FROM runs WHERE lifecycle_stage = 'active'"))
            tags = list(store.execute("SELECT run_uuid, key, value FROM tags"))
            self.tags = {run: {key: value for each, key, value in tags if each == run} for run in self.runs}
            self.artifacts = dict(store.execute("SELECT run_uuid, artifact_uri FROM runs"))
            query = "SELECT value, count(*) FROM trace_tags WHERE key = 'ragmetrics.run' GROUP BY value"
            self.traces = dict(store.execute(query))
            query = "SELECT trace_id, name, count(*) FROM assessments GROUP BY trace_id, name HAVING count(*) > 1"
            self.doubled = store.execute(query).fetchall()
            self.points = list(store.execute("SELECT run_uuid, key, step FROM metrics"))
            query = "SELECT run_uuid, value FROM latest_metrics WHERE key = 'calls/lost'"
            self.lost = dict(store.execute(query))

    def traced(self, run: str) -> list[str]:
        """The questions of the run's traces."""
        query = "SELECT request_preview FROM trace_info JOIN trace_tags USING (request_id) WHERE value = ?"
        with contextlib.closing(sqlite3.connect(self.folder / "mlflow.db")) as store:
            return [question for (question,) in store.execute(query, (run,))]

    def questions(self, run: str) -> list[str]:
        path = Path(self.artifacts[run].removeprefix("file://")) / "rag_rows.json"
        path = path if path.is_absolute() else self.folder / path
        if not path.exists():
            return []
        table = json.loads(path.read_text(encoding="utf-8"))
        return [row[table["columns"].index("question")] for row in table["data"]]


def check_evaluated(folder: Path, code: int, number: signal.Signals, seen: Counter[str]) -> None:
    """Nothing incomplete looks complete, and the tag says so; a repeated run contains everything once."""
    everything = sorted(row["question"] for row in ROWS)
    store = Store(folder)
    out = folder / "out.jsonl"
    if out.exists():
        for line in out.read_text(encoding="utf-8").splitlines():
            json.loads(line)
    for run, status in store.runs.items():
        says = store.tags[run].get("ragmetrics.status", "")
        assert (status == "FINISHED") <= (says == "complete"), (status, says)
        if says == "complete":
            assert sorted(store.questions(run)) == everything
        if number == signal.SIGTERM and code == 143:
            assert says != "writing" or "Ended at once" in (folder / "said").read_text(), says
    seen[
        f"evaluate, {number.name}, " + ("done before" if code == 0 else "a run was begun" if store.runs else "no run")
    ] += 1
    whole = sum(tags.get("ragmetrics.status") == "complete" for tags in store.tags.values())
    assert whole >= (code == 0)
    assert ended(forked(evaluate, folder)) == 0, (folder / "said").read_text()[-3000:]
    store = Store(folder)
    complete = [run for run in store.runs if store.tags[run]["ragmetrics.status"] == "complete"]
    assert len(complete) == whole + 1, "runs that look complete"
    for run in store.runs:
        says, traces = store.tags[run]["ragmetrics.status"], store.traces.get(run, 0)
        assert says != "writing"
        # a run ended by SIGTERM keeps its traces and is marked; those of a killed run are removed
        allowed = {len(ROWS)} if run in complete else {*range(len(ROWS) + 1)} if says == "failed: interrupted" else {0}
        assert traces in allowed, (says, traces)
    assert store.doubled == []
    assert all(sorted(store.questions(run)) == everything for run in complete)
    assert len(out.read_text(encoding="utf-8").splitlines()) == len(ROWS)


def check_live(folder: Path, code: int, number: signal.Signals, seen: Counter[str]) -> None:
    """After a second process, no answer is in the run twice, and the run reports exactly the missing ones."""
    noted = folder / "answered"
    when = "done before" if code == 0 else "answering" if is_answering(folder) else "at the start"
    seen[f"live, {number.name}, {when}"] += 1
    Store(folder)
    assert ended(forked(live, folder)) == 0, (folder / "said").read_text()[-3000:]
    store = Store(folder)
    run = (folder / "run").read_text(encoding="utf-8")
    answered = set(noted.read_text(encoding="utf-8").splitlines())
    listed = store.traced(run)
    assert len(listed) == len(set(listed)), "a row is there twice"
    points = [step for each, key, step in store.points if (each, key) == (run, "lexical_relevance")]
    # the process may have ended after its handler accepted an answer, but before it was noted here
    assert len(set(listed) - answered) <= 1, "rows that nobody answered"
    assert len(listed) <= len(points) <= len(answered) + 1, "an answer has two points, or a row has none"
    lost, said = len(answered - set(listed)), int(store.lost.get(run, 0))
    assert lost <= said <= lost + 1, f"{lost} answers are lost, the run says {said}"
    status = store.tags[run].get("ragmetrics.status", "")
    assert said == 0 or status.rpartition(" ")[2] == str(said), f"{said} answers are lost, the run's status: {status}"
    with contextlib.closing(sqlite3.connect(folder / "data" / "outbox" / "outbox.db")) as outbox:
        for table in ("runs", "processes", "answers"):
            assert outbox.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), f"{table} of the outbox"
    seen["answers"] += len(answered)
    seen["answers lost with the process"] += lost
    seen["of them said by the run"] += min(lost, said)
    seen["said beyond them, of calls that had not returned"] += said - min(lost, said)


def run(count: int, seed: int = 1, only: str = "", say: Callable[[str], object] = print) -> Counter[str]:
    """Ends that many processes, of ``only`` one kind; returns what happened and the number of ``WRONG`` results."""
    chance, seen = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="ragmetrics-kills-") as place:
        template = Path(place, "template")
        template.mkdir()
        (template / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
        works: list[tuple[Callable[[], int], Callable[..., None], list[float]]] = []
        first = forked(evaluate, template)  # makes the store's tables
        assert ended(first) == 0, (template / "said").read_text()[-3000:]
        fresh = Path(place, "fresh")
        fresh.mkdir()
        shutil.copyfile(template / "rows.jsonl", fresh / "rows.jsonl")
        with contextlib.closing(sqlite3.connect(template / "mlflow.db")) as store:
            for table in ("metrics", "latest_metrics", "params", "tags", "inputs", "input_tags", "runs"):
                store.execute(f"DELETE FROM {table}")
            for table in ("assessments", "spans", "trace_tags", "trace_request_metadata", "trace_info"):
                with contextlib.suppress(sqlite3.OperationalError):
                    store.execute(f"DELETE FROM {table}")
            store.execute("DELETE FROM experiments WHERE name = 'mine'")
            store.commit()
        shutil.copyfile(template / "mlflow.db", fresh / "mlflow.db")
        for work, check in ((evaluate, check_evaluated), (live, check_live)):
            if only not in ("", work.__name__):
                continue
            calm = Path(shutil.copytree(fresh, Path(place, f"calm-{work.__name__}")))
            process, moments = forked(work, calm), []
            for is_so in STAGES[work]:
                wait_for(partial(is_so, calm))
                moments.append(time.monotonic())
            assert ended(process) == 0, (calm / "said").read_text()[-3000:]
            moments.append(time.monotonic())
            works.append((work, check, [end - begin for begin, end in pairwise(moments)]))
        for n in range(count):
            work, check, seconds = works[n % len(works)]
            stage = n // len(works) % len(seconds)
            number = chance.choice((signal.SIGKILL, signal.SIGTERM))
            folder = Path(shutil.copytree(fresh, Path(place, str(n))))
            process = forked(work, folder)
            wait_for(partial(STAGES[work][stage], folder))
            time.sleep(chance.uniform(0, seconds[stage]))
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)
            try:
                check(folder, ended(process), number, seen)
            except AssertionError as error:
                seen["WRONG"] += 1
                say(f"WRONG, process {n}, {work.__name__}, {number.name}: {error}")
                say((folder / "said").read_text(encoding="utf-8", errors="replace")[-2000:])
            shutil.rmtree(folder)
            if (n + 1) % 10 == 0:
                say(f"{n + 1} ended: {dict(sorted(seen.items()))}")
    return seen


def warm() -> None:
    """Imports, once, the modules that the forked processes need."""
    folder = tempfile.mkdtemp(prefix="ragmetrics-kills-")
    before = os.getcwd()
    Path(folder, "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS[:2]), encoding="utf-8")
    try:
        os.chdir(folder)
        report: Any = rm.Suite(["rouge", "lexical_relevance"]).evaluate("rows.jsonl")
        report.to_html(), report.table, report.items
        import mlflow.genai
        import mlflow.store.tracking.sqlalchemy_store  # noqa: F401
        import rich.progress  # noqa: F401

        import mlflow_ragmetrics.cli.evaluate
        import mlflow_ragmetrics.cli.output  # noqa: F401
    finally:
        os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:3]]
    warm()
    found = run(*(numbers or [200]), *sys.argv[3:])
    for name, number in sorted(found.items()):
        print(f"{number:>6}  {name}")
    sys.exit(1 if found["WRONG"] else 0)
