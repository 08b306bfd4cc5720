"""Two services that are killed and restarted: no answer is in a run of another service, or of another start.

``python tests/faults/two_services.py [number]``: runs this many of the 18 cases {same, other experiment} × {same, other
folder, relative URI} × {store up, locked, down}, by default all. In each, both services score five answers, have two
more that are never scored, and are killed. Both start again when the store works, and once more.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import mlflow
from langchain_core.runnables import RunnableLambda
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

import mlflow_ragmetrics as rm
from tests.faults.random_kills import ended, forked, wait_for, warm
from tests.faults.test_locked import locked

CASES = list(product(("same experiment", "other experiment"), ("same", "other", "relative"), ("up", "locked", "down")))
ANSWERS, NEVER = 5, 2


@rm.metric
def own_number(answer: str) -> float:
    """Hangs if the answer asks for it."""
    if "never" in answer:
        time.sleep(600)
    return 1.0


def serve(start: str, uri: str, experiment: str, outbox: Path, down: Path, *, is_killed: bool) -> int:
    """Answers questions as the ``start`` of a service; writes a file of that name when all answers are scored."""
    os.environ.update(RAGMETRICS_OUTBOX=str(outbox), MLFLOW_EXPERIMENT_NAME=experiment)
    mlflow.set_tracking_uri(uri)
    if down.exists():
        for name in ("create_run", "log_batch", "_search_runs", "get_experiment_by_name", "get_run"):
            setattr(SqlAlchemyStore, name, _refuse)
    handler = rm.RagMetricsCallback([own_number])
    chain = RunnableLambda(lambda question: question)
    for number in range(ANSWERS):
        chain.invoke(f"{start} {number}", {"callbacks": [handler]})
    if not is_killed:
        return 0 if handler.close(120) else 1
    wait_for(lambda: handler.counts["scored"] == ANSWERS)
    for number in range(NEVER):
        chain.invoke(f"{start} never {number}", {"callbacks": [handler]})
    time.sleep(0.1)  # an answer is counted within a moment
    (outbox / start).touch()
    time.sleep(600)
    return 1


def _refuse(*_: Any, **__: Any) -> Any:
    raise MlflowException("no route to the server")


def answers_of(store: Path) -> list[tuple[str, str, Counter[str], float, str]]:
    """For each run: experiment, status, answers, the number of lost ones, and its status tag."""
    found = []
    with contextlib.closing(sqlite3.connect(store)) as database:
        query = (
            "SELECT run_uuid, e.name, r.status FROM runs r JOIN experiments e USING (experiment_id) "
            "WHERE r.lifecycle_stage = 'active'"
        )
        for run, experiment, status in database.execute(query).fetchall():
            query = (
                "SELECT response_preview FROM trace_info JOIN trace_tags USING (request_id) "
                "WHERE key = 'ragmetrics.run' AND value = ?"
            )
            rows = Counter(answer for (answer,) in database.execute(query, (run,)))
            query = "SELECT value FROM latest_metrics WHERE key = 'calls/lost' AND run_uuid = ?"
            lost = database.execute(query, (run,)).fetchone()
            query = "SELECT value FROM tags WHERE key = 'ragmetrics.status' AND run_uuid = ?"
            (says,) = database.execute(query, (run,)).fetchone()
            found.append((experiment, status, rows, lost[0] if lost else 0, says))
    return found


def check(case: tuple[str, str, str], template: Path, folder: Path, wait: float) -> Counter[str]:
    """Runs a case in ``folder``; returns what happened."""
    experiments, place, state = case
    outbox, down = folder / "data", folder / "down"
    homes = {"A": folder / "a", "B": folder / ("a" if place == "same" else "b")}
    for home in homes.values():
        home.mkdir(parents=True, exist_ok=True)
        if place == "relative" or home.name == "a":
            shutil.copyfile(template, home / "mlflow.db")
    outbox.mkdir()
    stores = sorted({homes["A"] / "mlflow.db", homes["B" if place == "relative" else "A"] / "mlflow.db"})
    uris = dict.fromkeys(homes, "sqlite:///mlflow.db" if place == "relative" else f"sqlite:///{stores[0]}")
    named = {"A": "first", "B": "first" if experiments == "same experiment" else "second"}

    def started(name: str, number: int, *, is_killed: bool = False) -> int:
        work = partial(serve, f"{name}{number}", uris[name], named[name], outbox, down, is_killed=is_killed)
        return forked(work, homes[name])

    if state == "down":
        down.touch()
    with contextlib.ExitStack() as stack:
        if state == "locked":
            for store in stores:
                stack.enter_context(locked(store, 600))
        processes = [started(name, 1, is_killed=True) for name in homes]
        wait_for(lambda: all((outbox / f"{name}1").exists() for name in homes))
        time.sleep(wait)
        for process in processes:
            os.kill(process, signal.SIGKILL)
            assert ended(process) == -signal.SIGKILL
    down.unlink(missing_ok=True)
    for number in (2, 3):
        processes = [started(name, number) for name in homes]
        for process in processes:
            assert ended(process) == 0, [path.read_text()[-2000:] for path in folder.glob("*/said")]
    found = [each for store in stores for each in answers_of(store)]
    seen = Counter(runs=len(found))
    for experiment, status, rows, lost, says in found:
        starts = {answer.partition(" ")[0] for answer in rows}
        assert len(starts) == 1, f"a run has answers of {starts}"
        (start,) = starts
        assert experiment == named[start[0]], f"answers of {start} are in {experiment}"
        assert rows == Counter(f"{start} {number}" for number in range(ANSWERS)), rows
        is_killed = start[1] == "1"
        assert (lost, status) == ((NEVER, "FAILED") if is_killed else (0, "FINISHED")), (start, lost, status)
        assert says.startswith(
            f"failed: answers lost because a process ended before they were written: at least {NEVER}"
            if is_killed
            else "complete"
        ), says
        seen.update(answers=sum(rows.values()), lost_and_said=int(lost))
    assert len(found) == 6, "a run for each start of each service"
    return seen


def run(count: int = len(CASES)) -> Counter[str]:
    """Runs this number of cases, spread over all; returns what happened, and the number of ``WRONG`` ones."""
    seen: Counter[str] = Counter()
    step = max(1, len(CASES) // count)
    with tempfile.TemporaryDirectory(prefix="ragmetrics-services-") as name:
        template = Path(name, "mlflow.db")
        make = f"import mlflow; mlflow.MlflowClient('sqlite:///{template}').search_experiments()"
        subprocess.run([sys.executable, "-c", make], check=True, cwd=name, capture_output=True)
        for number, case in enumerate(CASES[::step][:count]):
            folder = Path(name, str(number))
            try:
                seen += check(case, template, folder, wait=(0.0, 0.7, 2.5)[number % 3])
                seen["cases"] += 1
                print("right", case, flush=True)
            except AssertionError as error:
                seen["WRONG"] += 1
                print("WRONG", case, error, *(path.read_text()[-3000:] for path in folder.glob("*/said")), flush=True)
    return seen


if __name__ == "__main__":
    warm()
    found = run(*map(int, sys.argv[1:2]))
    print(dict(found))
    sys.exit(1 if found["WRONG"] else 0)
