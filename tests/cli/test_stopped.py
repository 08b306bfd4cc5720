"""SIGTERM ends a command like Ctrl-C; half-written runs of killed commands are found, reported and marked."""

from __future__ import annotations

import asyncio
import json
import re
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
def pause(*_, **__):
    open("paused", "w").close()
    time.sleep(60)
if {stage!r} == "scoring":
    import mlflow_ragmetrics.suite as suite
    suite.Suite.evaluate_samples = pause
else:
    import mlflow_ragmetrics.tracking.traces as traces
    traces.link_traces = pause
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


_SLOW = """
import time
import mlflow_ragmetrics as rm

@rm.metric
def slow(answer: str) -> float:
    open("began", "a").write(".")
    time.sleep(0.05)
    return 1.0
"""
_COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from mlflow_ragmetrics.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_was_scored_is_written(number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the store's artifacts are here too
    process = start_slow(tmp_path, "--output", "out.jsonl", "--experiment", "mine")
    process.send_signal(number)
    shown, said = process.communicate(timeout=120)
    assert process.returncode == 128 + number, said
    assert "Traceback" not in shown + said
    last = said.strip().splitlines()[-1]
    found = re.fullmatch(
        r"Stopped: (\d+) of 400 rows were scored; run the same command again to score all of them\.",
        last,
    )
    assert found, said
    done = int(found[1])
    assert 0 < done < 400
    assert len((tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()) == done
    (run,) = mlflow.search_runs(search_all_experiments=True, output_format="list")
    assert run.info.status == "FAILED"
    assert run.data.tags["ragmetrics.status"] == f"incomplete: interrupted when {done} of 400 rows were scored"
    figures = json.loads(mlflow.artifacts.load_text(f"runs:/{run.info.run_id}/rag_figures.json"))
    assert figures["slow/n_scored"] == done
    table = json.loads(mlflow.artifacts.load_text(f"runs:/{run.info.run_id}/rag_rows.json"))
    assert len(table["data"]) == done


@pytest.mark.slow
def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    process = start_slow(tmp_path, "--experiment", "mine")
    process.send_signal(signal.SIGINT)
    while process.stderr.readline()[:9] != "Stopping.":
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert said.endswith("Ended at once: files being written are incomplete.\n")


def start_slow(folder: Path, *options: str) -> subprocess.Popen[str]:
    """Starts the command on 400 rows of 50 ms each and waits until it has begun five."""
    (folder / "slow_metric.py").write_text(_SLOW, encoding="utf-8")
    rows = [{"question": f"Why {n}?", "answer": f"Because of {n}."} for n in range(400)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command = [sys.executable, "-c", _COMMAND, "evaluate", "rows.jsonl", "-m", "slow_metric:slow", *options]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True)
    until = time.monotonic() + 120
    while not (folder / "began").exists() or (folder / "began").stat().st_size < 5:
        assert time.monotonic() < until
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    return process


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


def test_a_cancelled_task_hands_over_what_was_done() -> None:
    scored = []

    @rm.metric
    def slow(answer: str) -> float:
        scored.append(answer)
        time.sleep(0.01)
        return 1.0

    async def cancelled() -> BaseException:
        task = asyncio.create_task(rm.Suite([slow]).aevaluate(_ROWS * 200, progress=False))
        while len(scored) < 3:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        return caught.value

    raised = asyncio.run(cancelled())
    # on Python 3.10 a task raises a new error, with the original one as its context
    report = (raised if sys.version_info >= (3, 11) else raised.__context__).report
    assert 0 < len(report) < 1000
    assert report.incomplete == f"interrupted when {len(report)} of 1000 rows were scored"
    assert report.metrics["slow/n_scored"] == len(report)


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


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "code"), [(0.5, 0), (0.9, 1)])
def test_a_reader_that_leaves_does_not_change_the_exit_code(tmp_path: Path, limit: float, code: int) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text('{"answer": "a b", "reference": "a c"}\n' + '{"answer": "a b", "reference": "a b"}\n')
    command = [sys.executable, "-c", "from mlflow_ragmetrics.cli import main; main()", "evaluate", str(data)]
    command += ["-m", "rouge", "--fail-under", f"rouge1_f1={limit}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        process.stdout.close()
        said = process.stderr.read().decode()
    assert process.returncode == code, said
    assert "BrokenPipe" not in said
    assert len(mlflow.search_runs(experiment_names=["ragmetrics"])) == 1
