"""``ragmetrics watch`` gets SIGTERM at random moments: it ends in time, and each trace has each score once."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import time
from collections import Counter
from pathlib import Path

import mlflow
import pytest

from mlflow_ragmetrics.cli import main as ragmetrics
from tests.faults.budget import LONG
from tests.faults.random_kills import ended, forked, wait_for

pytestmark = [pytest.mark.timeout(3600), pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")]
TRACES = 40


def watch() -> int:
    """Runs the command as a separate process would."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Path("begun").touch()
    command = ["watch", "live", "--every", "0s", "-m", "coherence", "-m", "lexical_relevance"]
    try:
        ragmetrics([*command, "--tracking-uri", "sqlite:///mlflow.db"])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def make_traces(folder: Path) -> int:
    """Stores traces without scores, in a process of its own."""
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.set_experiment("live")
    for number in range(TRACES):
        with mlflow.start_span("answer") as span:
            span.set_inputs({"question": f"How high is tower {number}?"})
            span.set_outputs(f"Tower {number} is {number} metres high.")
    mlflow.flush_trace_async_logging()
    return 0


def scores(folder: Path) -> Counter[tuple[str, str]]:
    """The number of assessments by trace and name."""
    with contextlib.closing(sqlite3.connect(folder / "mlflow.db")) as store:
        return Counter(store.execute("SELECT trace_id, name FROM assessments").fetchall())


def test_it_ends_in_time_at_any_moment(tmp_path: Path, mlflow_template: Path) -> None:
    template = tmp_path / "template"
    template.mkdir()
    shutil.copyfile(mlflow_template, template / "mlflow.db")
    assert ended(forked(lambda: make_traces(template), template)) == 0
    chance, slowest, done = random.Random(1), 0.0, Counter[int]()
    for number in range(100 if LONG else 3):
        folder = Path(shutil.copytree(template, tmp_path / str(number)))
        process = forked(watch, folder)
        wait_for(lambda folder=folder: (folder / "begun").exists())
        time.sleep(chance.uniform(0.0, 3.0))
        began = time.monotonic()
        os.kill(process, signal.SIGTERM)
        code = ended(process)
        slowest = max(slowest, time.monotonic() - began)
        # before the command has its handlers, the signal itself ends the process
        assert code in (143, -signal.SIGTERM), (folder / "said").read_text()[-3000:]
        assert set(scores(folder).values()) <= {1}
        done[len(scores(folder))] += 1
        assert "Traceback" not in (folder / "said").read_text()
        if number % 10 == 0:  # the next start scores the rest
            process = forked(watch, folder)
            wait_for(lambda folder=folder: len(scores(folder)) == 2 * TRACES)
            os.kill(process, signal.SIGTERM)
            assert ended(process) in (143, -signal.SIGTERM)
            assert set(scores(folder).values()) == {1}
        shutil.rmtree(folder)
    print(f"\nslowest end {slowest:.1f} s; scores at the end: {dict(done)}")
    assert slowest < 15
