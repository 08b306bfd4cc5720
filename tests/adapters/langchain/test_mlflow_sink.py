"""Scored answers in an MLflow run: steps, means, traces without duplicates, and a store that is down."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.exceptions import MlflowException

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.tracking.outbox import Outbox
from mlflow_ragmetrics.tracking.writer import RunWriter
from tests.adapters.doors import FailingJudge
from tests.live_answers import questions

QUESTIONS = [f"question {number}" for number in range(1, 31)]


def history(run_id: str, key: str) -> list[tuple[int, float]]:
    return sorted((point.step, point.value) for point in mlflow.MlflowClient().get_metric_history(run_id, key))


def test_the_active_run(suite: rm.Suite, plain: Any) -> None:
    with mlflow.start_run() as run, rm.RagMetricsCallback(suite) as handler:
        for question in QUESTIONS:
            plain.invoke(question, {"callbacks": [handler]})

    run_id = run.info.run_id
    assert handler.counts["scored"] == 30
    assert history(run_id, "own_number") == [(number - 1, pytest.approx(number / 1000)) for number in range(1, 31)]
    assert history(run_id, "own_number/mean")[-1] == (29, pytest.approx(0.0155))
    assert questions(run_id) == sorted(QUESTIONS)
    about = mlflow.artifacts.load_dict(f"{run.info.artifact_uri}/ragmetrics_suite.json")["suite"]
    assert sorted(about["metrics"]) == ["answer_length", "context_share", "own_number"]


def test_a_named_run_goes_on_where_it_was(suite: rm.Suite, plain: Any) -> None:
    with mlflow.start_run() as run:
        pass
    for question in ("question 100", "question 300"):
        with rm.RagMetricsCallback(suite, run_id=run.info.run_id) as handler:
            plain.invoke(question, {"callbacks": [handler]})

    assert history(run.info.run_id, "own_number/mean") == [(0, pytest.approx(0.1)), (1, pytest.approx(0.2))]
    assert questions(run.info.run_id) == ["question 100", "question 300"]


def test_rolling_mean_covers_the_last_fifty(suite: rm.Suite, plain: Any) -> None:
    with mlflow.start_run() as run, rm.RagMetricsCallback(suite) as handler:
        for number in range(1, 61):
            plain.invoke(f"question {number}", {"callbacks": [handler]})

    assert history(run.info.run_id, "own_number/rolling_mean")[-1] == (59, pytest.approx(0.0355))


def test_a_sink_alone_leaves_mlflow_alone(suite: rm.Suite, plain: Any) -> None:
    with rm.RagMetricsCallback(suite, sink=lambda *_: None) as handler:
        plain.invoke("why", {"callbacks": [handler]})
    assert mlflow.search_runs(output_format="list") == []

    seen: list[Any] = []
    with rm.RagMetricsCallback(suite, sink=lambda *given: seen.append(given), log=True) as handler:
        plain.invoke("why", {"callbacks": [handler]})
    assert len(seen) == len(mlflow.search_runs(output_format="list")) == 1


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (["dead 1", "dead 2"], "failed: no judge answered; AllJudgesFailedError: "),
        (["dead 1", "alive", "dead 2"], "partial: 0 of 3 answers dropped, 2 failed"),
        (["dead 1", *["alive"] * 20], "complete"),
    ],
    ids=str,
)
def test_a_run_calls_the_judge_dead_only_if_it_never_answered(plain: Any, asked: list[str], status: str) -> None:
    suite = rm.Suite(["answer_relevance"], judge=FailingJudge(lambda text: "dead" in text))
    with rm.RagMetricsCallback(suite) as handler:
        for question in asked:
            plain.invoke(question, {"callbacks": [handler]})
            assert handler.flush()
    (run,) = mlflow.search_runs(output_format="list")
    assert run.data.tags["ragmetrics.status"].startswith(status)
    assert (run.info.status == "FAILED") is status.startswith("failed")


def test_two_handlers_share_a_run(suite: rm.Suite, plain: Any) -> None:
    with mlflow.start_run() as run:
        first, second = rm.RagMetricsCallback(suite), rm.RagMetricsCallback(suite)
        for number in range(1, 11):
            plain.invoke(f"question {number}", {"callbacks": [first if number % 2 else second]})
        assert first.close()
        assert second.close()

    assert [step for step, _ in history(run.info.run_id, "own_number")] == list(range(10))
    assert len(questions(run.info.run_id)) == 10


def test_a_store_that_comes_back(
    suite: rm.Suite, plain: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write, mishaps = RunWriter.metrics, ["before", "after"]

    def metrics(self: Any, *given: Any, **named: Any) -> None:
        mishap = mishaps.pop(0) if mishaps else None
        if mishap == "before":
            raise MlflowException("no route to the server")
        write(self, *given, **named)
        if mishap == "after":
            raise MlflowException("the reply was lost")

    monkeypatch.setattr(RunWriter, "metrics", metrics)
    with mlflow.start_run() as run, rm.RagMetricsCallback(suite) as handler:
        plain.batch(QUESTIONS[:5], {"callbacks": [handler]})

    assert not mishaps
    assert handler.counts["unwritten"] == 0
    assert [step for step, _ in history(run.info.run_id, "own_number")] == list(range(5))
    assert questions(run.info.run_id) == QUESTIONS[:5]
    assert "will be retried" in caplog.text


def test_a_dead_store_is_counted_and_named(
    suite: rm.Suite, plain: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def dead(*_: Any, **__: Any) -> Any:
        raise MlflowException("no route to the server")

    with mlflow.start_run():
        handler = rm.RagMetricsCallback(suite)
        with monkeypatch.context() as patch:
            patch.setattr(mlflow.MlflowClient, "log_batch", dead)
            answers = plain.batch(QUESTIONS[:5], {"callbacks": [handler]})
            assert not handler.flush(1.0)
            assert handler.counts["unwritten"] == 5
        assert answers == [f"answer to {question}" for question in QUESTIONS[:5]]
        assert "scored answers not yet written to MLflow: 5" in caplog.text
        assert "no route to the server" in caplog.text
        assert handler.close()
    assert handler.counts["unwritten"] == 0


def test_waiting_for_a_dead_store_is_no_busy_loop(suite: rm.Suite, plain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[float] = []

    def dead(*_: Any, **__: Any) -> Any:
        attempts.append(time.monotonic())
        raise MlflowException("no route to the server")

    with mlflow.start_run(), rm.RagMetricsCallback(suite) as handler:
        with monkeypatch.context() as patch:
            patch.setattr(mlflow.MlflowClient, "log_batch", dead)
            plain.invoke("why", {"callbacks": [handler]})
            assert not handler.flush(1.0)
        assert 2 <= len(attempts) <= 12
        assert handler.flush(30)


@pytest.mark.parametrize("in_a_run", [True, False])
def test_answers_go_to_mlflow_from_memory_if_the_outbox_is_full(
    in_a_run: bool, suite: rm.Suite, plain: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = mlflow.start_run().info.run_id if in_a_run else None
    mlflow.end_run()
    with rm.RagMetricsCallback(suite, run_id=run_id) as handler:
        plain.invoke(QUESTIONS[0], {"callbacks": [handler]})
        assert handler.flush()
        with monkeypatch.context() as patch:
            changing = Outbox._changing

            def full(self: Outbox) -> Any:
                if not self.is_in_memory:
                    raise sqlite3.OperationalError("database or disk is full")
                return changing(self)

            patch.setattr(Outbox, "_changing", full)
            for question in QUESTIONS[1:20]:
                plain.invoke(question, {"callbacks": [handler]})
            assert handler.flush()
    assert (handler.counts["written"], handler.counts["lost"]) == (20, 0)
    (run,) = mlflow.search_runs(output_format="list")
    assert questions(run.info.run_id) == sorted(QUESTIONS[:20])
    assert run.data.metrics["own_number/mean"] == pytest.approx(0.0105)
    assert not [name for name in run.data.metrics if name.startswith("calls/")]
    assert caplog.text.count("answers wait for MLflow in memory") == 1
    assert in_a_run or (run.info.status, run.data.tags["ragmetrics.status"]) == ("FINISHED", "complete")


def test_one_dead_run_does_not_hold_up_another(suite: rm.Suite, plain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, write = threading.Event(), RunWriter.suite
    with mlflow.start_run() as run:
        pass

    def hang(self: RunWriter, *given: Any) -> None:
        if self.run_id == run.info.run_id:
            gate.wait(20)
        write(self, *given)

    monkeypatch.setattr(RunWriter, "suite", hang)
    dead = rm.RagMetricsCallback(suite, run_id=run.info.run_id)
    with rm.RagMetricsCallback(suite) as alive:
        plain.invoke("why", {"callbacks": [dead, alive]})
        assert not dead.flush(0.3)
        assert alive.flush(10)
    gate.set()
    dead.close(0.1)


def test_a_failure_that_nobody_expects_is_said_and_the_answer_waits(
    suite: rm.Suite, plain: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a fault of our own")

    with mlflow.start_run(), rm.RagMetricsCallback(suite) as handler:
        with monkeypatch.context() as patch:
            patch.setattr(RunWriter, "files", failing)
            plain.invoke("one", {"callbacks": [handler]})
            assert not handler.flush(2)
        assert "a fault of our own; will be retried" in caplog.text
        assert handler.flush(30)
        assert (handler.counts["written"], handler.counts["unwritten"]) == (1, 0)


@pytest.mark.slow
def test_the_interpreter_ends_cleanly(tmp_path: Path, mlflow_store: str) -> None:
    program = textwrap.dedent(
        """
        import mlflow
        import mlflow_ragmetrics as rm
        from langchain_core.runnables import RunnableLambda

        mlflow.search_experiments()  # opens the store, for which a busy machine takes longer than the end may last

        @rm.metric
        def answer_length(answer: str) -> float:
            return min(1.0, len(answer) / 100)

        handler = rm.RagMetricsCallback(rm.Suite([answer_length], judge=rm.ScriptedJudge()))
        chain = RunnableLambda(lambda question: question)
        chain.batch(["one", "two", "three"], {"callbacks": [handler]})
        """
    )
    script = tmp_path / "program.py"
    script.write_text(program)
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=240, check=False)

    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
    (run,) = mlflow.search_runs(output_format="list")
    assert run.info.status == "FINISHED"
    assert len(history(run.info.run_id, "answer_length")) == 3


def test_which_part_failed_is_counted_and_on_the_trace() -> None:
    from langchain_core.runnables import RunnableLambda

    chain = RunnableLambda(lambda question: {"answer": "The tower is red.", "contexts": ["The tower is red."]})
    known = {"reference": "The tower is red. It opened in 1889."}
    with rm.RagMetricsCallback("diagnose", contexts=lambda outputs: outputs["contexts"]) as live:
        chain.invoke("Which colour?", {"callbacks": [live], "metadata": known})
        chain.invoke("Another?", {"callbacks": [live]})
    (run,) = mlflow.search_runs(output_format="list")
    assert run.data.metrics["diagnosis/n_retrieval"] == 1
    assert run.data.metrics["diagnosis/n_not_measured"] == 1
    traces = mlflow.search_traces(["0"], return_type="list")
    causes = [each.value for trace in traces for each in trace.info.assessments if each.name == "diagnosis"]
    assert sorted(causes) == ["not measured", "retrieval"]
