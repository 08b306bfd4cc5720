"""Several processes and handlers write to one run: its traces contain the answers of all of them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import mlflow
import pytest

from tests.faults.budget import LONG
from tests.live_answers import answers as answers_of

_BEGIN = """
import os, sys, time
import mlflow
import mlflow_ragmetrics as rm
from langchain_core.runnables import RunnableLambda

@rm.metric
def own_number(answer: str) -> float:
    return int("".join(c for c in answer if c.isdigit()) or 0) / 10_000

suite = rm.Suite([own_number], judge=rm.ScriptedJudge())
chain = RunnableLambda(lambda question: question)
mlflow.search_experiments()
"""


def run(tmp_path: Path, program: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "program.py"
    script.write_text(_BEGIN + textwrap.dedent(program))
    return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=240, check=False)


def answers() -> list[str]:
    """The answers of all runs."""
    return sorted(answer for run in mlflow.search_runs(output_format="list") for answer in answers_of(run.info.run_id))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("given", ["", "run_id=mlflow.start_run().info.run_id"], ids=["own run", "run_id"])
def test_forked_workers_share_the_run(given: str, tmp_path: Path) -> None:
    done = run(
        tmp_path,
        f"""
        handler = rm.RagMetricsCallback(suite, {given})
        for n in range(3):
            chain.invoke(f"parent {{n}}", {{"callbacks": [handler]}})
        workers = []
        for worker in range(3):
            pid = os.fork()
            if not pid:
                time.sleep(0.3 * worker)
                for n in range(5):
                    chain.invoke(f"worker {{worker}} {{n}}", {{"callbacks": [handler]}})
                done = handler.close(60)
                counts = handler.counts
                print(done, counts["seen"], counts["written"], counts["unwritten"], counts["lost"], flush=True)
                os._exit(0)
            workers.append(pid)
        for pid in workers:
            os.waitpid(pid, 0)
        for n in range(3, 6):
            chain.invoke(f"parent {{n}}", {{"callbacks": [handler]}})
        print(handler.close(60), handler.counts["written"])
        """,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n")) == ["", *["True 5 5 0 0"] * 3, "True 6"], done.stdout + done.stderr
    expected = [f"parent {n}" for n in range(6)] + [f"worker {w} {n}" for w in range(3) for n in range(5)]
    (found,) = mlflow.search_runs(output_format="list")
    assert answers() == sorted(expected)
    assert found.info.status == "FINISHED" or given


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_multiprocessing_flush_at_their_end(method: str, tmp_path: Path) -> None:
    done = run(
        tmp_path,
        f"""
        import multiprocessing

        def work(run_id, worker):
            handler = rm.RagMetricsCallback(suite, run_id=run_id)
            for n in range(5):
                chain.invoke(f"worker {{worker}} {{n}}", {{"callbacks": [handler]}})

        if __name__ == "__main__":
            with mlflow.start_run() as run:
                pass
            context = multiprocessing.get_context("{method}")
            workers = [context.Process(target=work, args=(run.info.run_id, n)) for n in range(2)]
            for each in workers:
                each.start()
            for each in workers:
                each.join()
        """,
    )
    assert done.returncode == 0, done.stderr
    assert answers() == sorted(f"worker {w} {n}" for w in range(2) for n in range(5)), done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_preloaded_workers_that_are_told_to_end_lose_no_finished_call(tmp_path: Path) -> None:
    """As with ``gunicorn --preload``: the handler is created before the workers. One worker gets SIGTERM."""
    requests = 500 if LONG else 60
    done = run(
        tmp_path,
        f"""
        import signal
        handler = rm.RagMetricsCallback(suite)
        workers = []
        for worker in range(2):
            pid = os.fork()
            if not pid:
                signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
                for n in range({requests}):
                    chain.invoke(f"worker {{worker}} {{n}}", {{"callbacks": [handler]}})
                    os.write(1, f"worker {{worker}} {{n}}\\n".encode())
                    time.sleep(0.005)
                sys.exit(0)
            workers.append(pid)
        time.sleep(0.005 * {requests})
        os.kill(workers[0], signal.SIGTERM)
        for pid in workers:
            os.waitpid(pid, 0)
        handler.close(60)
        """,
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.split("\n") if line]
    found = answers()
    assert len(found) == len(set(found))
    assert set(said) <= set(found)
    (only,) = mlflow.search_runs(output_format="list")
    lost = only.data.metrics.get("calls/lost", 0)
    assert only.data.metrics.get("calls/seen", len(found)) == len(found) + lost
    assert len(found) - len(said) + lost <= 1, "the call that the signal cut off is written, or counted as lost"
    expected = ("FAILED", "failed: answers not written: 1") if lost else ("FINISHED", "complete")
    assert (only.info.status, only.data.tags["ragmetrics.status"]) == expected, done.stderr
    print(f"\n{len(found)} answers of two workers, one of them told to end amid")
