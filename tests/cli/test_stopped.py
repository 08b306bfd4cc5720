"""SIGTERM ends a command as Ctrl-C does, and what a kill left half written is found, told and marked."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import mlflow
import pytest

import mlflow_ragmetrics as rm

_ROWS = [{"question": f"Why {n}?", "answer": f"Because of {n}.", "reference": f"For {n}."} for n in range(5)]
_PAUSED = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import mlflow_ragmetrics.tracking.report as report
def pause(*_, **__):
    open("paused", "w").close()
    time.sleep(60)
if {stage!r} == "scoring":
    import mlflow_ragmetrics.suite as suite
    suite.Suite.evaluate = pause
else:
    import mlflow_ragmetrics.tracking.traces as traces
    traces._link = pause
from mlflow_ragmetrics.cli import main
main()
"""
_OPTIONS = ["evaluate", "rows.jsonl", "-m", "rouge", "--experiment", "mine"]


def start(folder: Path, stage: str) -> subprocess.Popen[str]:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _ROWS), encoding="utf-8")
    command = [sys.executable, "-c", _PAUSED.format(stage=stage), *_OPTIONS]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True)
    until = time.monotonic() + 120
    while not (folder / "paused").exists():
        assert time.monotonic() < until
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    return process


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["scoring", "logging"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_run_says_that_it_was_stopped(stage: str, number: signal.Signals, tmp_path: Path) -> None:
    process = start(tmp_path, stage)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number, said
    assert said.strip().splitlines()[-1] == "Stopped before the end; nothing more was written."
    assert "Traceback" not in said
    runs = mlflow.search_runs(search_all_experiments=True, output_format="list")
    assert [(run.info.status, run.data.tags["ragmetrics.status"]) for run in runs] == (
        [("FAILED", "failed: interrupted")] if stage == "logging" else []
    )


def test_a_program_finds_what_was_done_on_the_interruption() -> None:
    asked = iter(range(7))

    @rm.metric
    def third(answer: str) -> float:
        if next(asked) == 2:
            raise KeyboardInterrupt
        return 1.0

    with pytest.raises(KeyboardInterrupt) as caught:
        rm.Suite([third]).evaluate(_ROWS)
    assert caught.value.report.incomplete == "interrupted when 2 of 5 rows were scored"
    assert len(caught.value.report) == 2
    asked = iter([0, 2])
    with pytest.raises(KeyboardInterrupt) as caught:
        rm.Suite([third]).evaluate(_ROWS[:1], repeat=3)
    assert caught.value.report.incomplete == "interrupted in repeat 2 of 3"
    asked = iter([2])
    with pytest.raises(KeyboardInterrupt) as caught:
        rm.Suite([third]).evaluate(_ROWS)
    assert not hasattr(caught.value, "report")


@pytest.mark.slow
def test_a_run_left_by_a_kill_is_listed_then_marked_without_its_traces(ragmetrics, tmp_path: Path) -> None:
    process = start(tmp_path, "logging")
    (left,) = mlflow.search_runs(search_all_experiments=True, output_format="list")
    experiment = [left.info.experiment_id]
    assert len(mlflow.search_traces(experiment, return_type="list")) == 5
    assert left.info.run_id not in ragmetrics("doctor").stdout  # it is being written
    process.kill()
    process.communicate()

    doctor = ragmetrics("doctor")
    assert f"{left.info.run_id} was left half written" in doctor.stdout.replace("\n", " ")
    again = ragmetrics(*_OPTIONS)
    assert again.exit_code == 0, again.output
    assert left.info.run_id in again.stderr
    marked = mlflow.get_run(left.info.run_id)
    assert (marked.info.status, marked.data.tags["ragmetrics.status"][:7]) == ("FAILED", "failed:")
    traces = mlflow.search_traces(experiment, return_type="list")
    assert {trace.info.tags["ragmetrics.run"] for trace in traces} == {
        run.info.run_id for run in mlflow.search_runs(experiment, output_format="list") if run.info.status == "FINISHED"
    }
    assert "half written" not in ragmetrics("doctor").stdout
