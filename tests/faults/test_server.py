"""An ``mlflow server`` dies, comes back, or loses requests and replies: everything is written exactly once."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.adapters.mlflow_watch import Watch
from mlflow_ragmetrics.tracking.log import run_metrics_of
from tests.docker.services import PASSWORD, postgres, postgres_binaries
from tests.faults.budget import LONG
from tests.faults.failing_proxy import Proxy, failing_proxy
from tests.faults.processes import ECHO
from tests.live_answers import questions
from tests.mlflow_server import Server, free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
ROUNDS = int(os.environ.get("RAGMETRICS_ROUNDS") or (20 if LONG else 2))
PROCESSES, QUESTIONS, TRACES = 2, 60, 120
ROWS = [
    {"question": f"Why {n}?", "answer": f"Because of {n}.", "reference": f"For {n}.", "id": str(n)} for n in range(20)
]
SUITE = ["rouge", "lexical_relevance"]


@rm.metric
def answer_length(answer: str) -> float:
    """A cheap metric that takes a moment."""
    time.sleep(0.02)
    return min(1.0, len(answer) / 100)


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """PostgreSQL, or SQLite where it is not installed (Debian: apt-get install postgresql)."""
    binaries, port = postgres_binaries(), free_port()
    if binaries is None:
        yield "sqlite:///mlflow.db"
        return
    pytest.importorskip("psycopg2")
    with postgres(binaries, port):
        yield f"postgresql+psycopg2://mlflow:{PASSWORD}@127.0.0.1:{port}/mlflow"


@pytest.fixture
def server(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Server]:
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server", database)
    server.start()
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_JITTER", "0.1")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    mlflow.set_tracking_uri(server.url)
    mlflow.set_experiment(request.node.name)
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES")
    with failing_proxy(server.port) as proxy:
        mlflow.set_tracking_uri(proxy.url)
        yield proxy


@contextlib.contextmanager
def away(server: Server, after: float, seconds: float) -> Iterator[None]:
    """The server is killed a while after the block begins, and restarted."""

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
    for question in range(QUESTIONS):
        began = time.monotonic()
        ECHO.invoke(f"{number} {question}", {"callbacks": [handler]})
        assert time.monotonic() - began < 2
        time.sleep(0.1)
    assert handler.close(120)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_live_service(method: str, server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    """Each answer is in the run once, no chain waits for the server, and stderr has no progress bar."""
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
    assert not [name for name in mlflow.get_run(run_id).data.metrics if name.startswith("calls/")]


def test_a_run_whose_answers_are_not_all_written_does_not_look_finished(server: Server) -> None:
    handler = rm.RagMetricsCallback([answer_length])
    ECHO.batch(["one", "two"], {"callbacks": [handler]})
    assert handler.flush(60)
    server.kill()
    ECHO.invoke("three", {"callbacks": [handler]})
    began = time.monotonic()
    assert not handler.close(2)
    assert time.monotonic() - began < 10
    assert handler.counts["unwritten"] == 1
    server.start()
    (run,) = mlflow.search_runs(output_format="list")
    assert (run.info.status, questions(run.info.run_id)) == ("RUNNING", ["one", "two"])


def test_a_watch(server: Server) -> None:
    """Each trace is scored once, although the pass was interrupted."""
    for number in range(TRACES):
        with mlflow.start_span("answer") as span:
            span.set_inputs({"question": f"How high is tower {number}?"})
            span.set_outputs(f"Tower {number} is {number} metres high.")
    mlflow.flush_trace_async_logging()
    watch, cut_off = Watch(rm.Suite([answer_length]), "test_a_watch"), 0
    with away(server, 1.0, 3.0):
        for _ in range(60):
            try:
                watch.once()
                break
            except rm.RagMetricsError:
                cut_off += 1
                time.sleep(0.5)
    outcome = watch.once()
    assert cut_off
    traces = mlflow.search_traces(return_type="list", max_results=TRACES + 1)
    assert [[each.name for each in trace.info.assessments] for trace in traces] == [["answer_length"]] * TRACES
    (run,) = mlflow.search_runs(output_format="list")
    assert outcome.figures["traces/scored"] == run.data.metrics["traces/scored"] == TRACES
    assert run.data.tags["ragmetrics.status"] == "complete"


def test_a_server_that_is_gone_is_one_sentence(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it left half-written is whole when the same report is logged again."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    report = rm.Suite(SUITE).evaluate(ROWS)
    server.kill()
    with pytest.raises(rm.RagMetricsError, match=r"^no run could be started in MLflow: the MLflow server http\S+ does"):
        report.log()
    assert mlflow.active_run() is None
    server.start()
    with mlflow.start_run() as run:
        for after in (0.0, 0.3):  # before the first and between later requests
            with away(server, after, 3.0), contextlib.suppress(rm.RagMetricsError):
                time.sleep(0.2 if after == 0.0 else 0.0)
                report.log()
        with contextlib.suppress(rm.RagMetricsError):
            server.kill()
            report.log()
            pytest.fail("it must fail")
        server.start()
        report.log()
    check(run.info.run_id)
    assert mlflow.get_run(run.info.run_id).data.metrics.items() >= run_metrics_of(report).items()
    assert mlflow.load_table("rag_rows.json", run_ids=[run.info.run_id])["id"].astype(str).tolist() == [
        row["id"] for row in ROWS
    ]


def check(run_id: str, traces: list[str] | None = None) -> None:
    """Each row has one trace of the run, or one of ``traces``, and each trace has each score once."""
    run = mlflow.get_run(run_id)
    assert run.info.status == "FINISHED"
    found = [
        trace
        for trace in mlflow.search_traces([run.info.experiment_id], return_type="list", max_results=5000)
        if (trace.info.trace_id in traces if traces else trace.info.tags.get("ragmetrics.run") == run_id)
    ]
    assert len(found) == len(ROWS)
    for trace in found:
        feedback = [each for each in trace.info.assessments if each.feedback is not None]
        mine = [each.name for each in feedback if each.metadata.get("mlflow.assessment.sourceRunId") == run_id]
        assert sorted(mine) == ["lexical_relevance", "rouge1_f1"], trace.info.trace_id


def test_a_report_and_its_feedback_through_a_failing_proxy(proxy: Proxy) -> None:
    suite = rm.Suite(SUITE)
    report = suite.evaluate(ROWS)
    for _ in range(ROUNDS):
        proxy.share = 0.1
        check(report.log())
        proxy.share = 0
        with mlflow.start_run() as run:
            ids = []
            for row in ROWS:
                span = mlflow.start_span_no_context("chain", inputs={"question": row["question"]})
                span.end(outputs=row["answer"])
                ids.append(span.trace_id)
            mlflow.flush_trace_async_logging()
        traced = suite.evaluate([{**row, "trace_id": trace_id} for row, trace_id in zip(ROWS, ids, strict=True)])
        proxy.share = 0.1
        for _ in range(2):
            traced.log(run_id=run.info.run_id, feedback=True, traces=False)
        proxy.share = 0
        check(run.info.run_id, ids)
    print(f"\n{dict(proxy.done)}")


def test_a_live_handler_through_a_failing_proxy(proxy: Proxy) -> None:
    mlflow.langchain.autolog()
    try:
        for _ in range(ROUNDS):
            with mlflow.start_run() as run:
                pass
            handler = rm.RagMetricsCallback(SUITE, run_id=run.info.run_id)
            before = {trace.info.trace_id for trace in mlflow.search_traces(return_type="list", max_results=5000)}
            for row in ROWS:
                ECHO.invoke(row["question"], {"callbacks": [handler], "metadata": {"reference": row["reference"]}})
            mlflow.flush_trace_async_logging()
            proxy.share = 0.1
            assert handler.close(120), handler.counts
            proxy.share = 0
            counts = handler.counts
            assert (counts["written"], counts["lost"], counts["withheld"]) == (len(ROWS), 0, 0)
            after = {trace.info.trace_id for trace in mlflow.search_traces(return_type="list", max_results=5000)}
            check(run.info.run_id, sorted(after - before))
            points = mlflow.MlflowClient().get_metric_history(run.info.run_id, "rouge1_f1")
            assert sorted(point.step for point in points) == list(range(len(ROWS)))
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mlflow.langchain.autolog(disable=True)
    print(f"\n{dict(proxy.done)}")
