"""An ``mlflow server`` on PostgreSQL is killed and restarted while a live service and a watch use it."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
from langchain_core.runnables import RunnableLambda

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.adapters.mlflow_watch import Watch
from tests.docker.services import PASSWORD, postgres, postgres_binaries
from tests.live_answers import questions
from tests.mlflow_server import Server, free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PROCESSES, QUESTIONS, TRACES = 2, 60, 120


@rm.metric
def answer_length(answer: str) -> float:
    """A cheap metric that takes a moment."""
    time.sleep(0.02)
    return min(1.0, len(answer) / 100)


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    binaries, port = postgres_binaries(), free_port()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    pytest.importorskip("psycopg2")
    with postgres(binaries, port):
        yield f"postgresql+psycopg2://mlflow:{PASSWORD}@127.0.0.1:{port}/mlflow"


@pytest.fixture
def server(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Server]:
    folder = tmp_path / "server"
    folder.mkdir()
    server = Server(folder, database)
    server.start()
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    mlflow.set_tracking_uri(server.url)
    mlflow.set_experiment(request.node.name)
    try:
        yield server
    finally:
        server.kill()


@contextlib.contextmanager
def away(server: Server, after: float, seconds: float) -> Iterator[None]:
    """The server is killed, and restarted after the block."""

    def restart() -> None:
        time.sleep(after)
        server.kill()
        time.sleep(seconds)
        server.start()

    thread = threading.Thread(target=restart)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def serve(handler: rm.RagMetricsCallback, number: int) -> None:
    """A worker of the service."""
    chain = RunnableLambda(lambda question: f"answer to {question}")
    for question in range(QUESTIONS):
        chain.invoke(f"{number} {question}", {"callbacks": [handler]})
        time.sleep(0.1)
    assert handler.close(120)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_live_service(method: str, server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    """Each answer is in the run once, and stderr has no progress bar."""
    run_id = mlflow.start_run().info.run_id
    mlflow.end_run()
    handler = rm.RagMetricsCallback([answer_length], run_id=run_id)
    context = multiprocessing.get_context(method)
    workers = [context.Process(target=serve, args=(handler, number)) for number in range(PROCESSES)]
    for worker in workers:
        worker.start()
    with away(server, 3.0, 4.0):
        for worker in workers:
            worker.join(600)
    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    assert handler.close(60)
    assert "artifacts: " not in capfd.readouterr().err
    assert Counter(questions(run_id)) == Counter(f"{each} {n}" for each in range(PROCESSES) for n in range(QUESTIONS))
    points = mlflow.MlflowClient().get_metric_history(run_id, "answer_length")
    assert sorted(point.step for point in points) == list(range(PROCESSES * QUESTIONS))
    metrics = mlflow.get_run(run_id).data.metrics
    assert not [name for name in metrics if name.startswith("calls/")]


def test_a_watch(server: Server) -> None:
    """Each trace is scored once, although the pass was interrupted."""
    for number in range(TRACES):
        with mlflow.start_span("answer") as span:
            span.set_inputs({"question": f"How high is tower {number}?"})
            span.set_outputs(f"Tower {number} is {number} metres high.")
    mlflow.flush_trace_async_logging()
    experiment = mlflow.get_experiment_by_name("test_a_watch").experiment_id
    watch, cut_off = Watch(rm.Suite([answer_length]), "test_a_watch"), 0
    with away(server, 1.0, 3.0):
        for _ in range(60):
            try:
                outcome = watch.once()
                break
            except rm.RagMetricsError:
                cut_off += 1
                time.sleep(0.5)
    outcome = watch.once()
    assert cut_off
    traces = mlflow.search_traces(locations=[experiment], return_type="list", max_results=TRACES + 1)
    scored = [[each.name for each in trace.info.assessments] for trace in traces]
    assert scored == [["answer_length"]] * TRACES
    (run,) = mlflow.search_runs(output_format="list")
    assert outcome.figures["traces/scored"] == run.data.metrics["traces/scored"] == TRACES
    assert run.data.tags["ragmetrics.status"] == "complete"
    print(f"\n{cut_off} passes were cut off")
