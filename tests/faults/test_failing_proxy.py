"""``report.log``, feedback and a live handler through a failing proxy: everything is written exactly once."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
from langchain_core.runnables import RunnableLambda

import mlflow_ragmetrics as rm
from tests.faults.budget import LONG
from tests.faults.failing_proxy import Proxy, failing_proxy
from tests.mlflow_server import Server

ROUNDS = int(os.environ.get("RAGMETRICS_ROUNDS") or (20 if LONG else 2))
ROWS = [
    {"question": f"Why {n}?", "answer": f"Because of {n}.", "reference": f"For {n}.", "id": str(n)} for n in range(20)
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, mlflow_template: Path) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "mlflow.db").write_bytes(mlflow_template.read_bytes())
    server = Server(folder)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_JITTER", "0.1")
    with failing_proxy(server.port) as proxy:
        mlflow.set_tracking_uri(proxy.url)
        mlflow.set_experiment(f"through {proxy.url}")
        yield proxy


def check(run_id: str, traces: list[str] | None = None) -> None:
    """Each row has one trace of the run, or one of ``traces``, and each trace has each score once."""
    run = mlflow.get_run(run_id)
    found = mlflow.search_traces([run.info.experiment_id], return_type="list", max_results=5000)
    mine = [
        trace
        for trace in found
        if (trace.info.trace_id in traces if traces else trace.info.tags.get("ragmetrics.run") == run_id)
    ]
    assert len(mine) == len(ROWS)
    for trace in mine:
        scores = Counter(
            each.name
            for each in trace.info.assessments
            if each.feedback is not None and each.metadata.get("mlflow.assessment.sourceRunId") == run_id
        )
        assert scores == {"rouge1_f1": 1, "lexical_relevance": 1}, trace.info.trace_id


@pytest.mark.timeout(3600)
def test_a_report_and_its_feedback(server: Server, proxy: Proxy) -> None:
    suite = rm.Suite(["rouge", "lexical_relevance"])
    report = suite.evaluate(ROWS)
    for _ in range(ROUNDS):
        proxy.share = 0.1
        check(report.log())
        with mlflow.start_run() as run:
            ids = []
            proxy.share = 0
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


@pytest.mark.timeout(3600)
def test_a_live_handler(server: Server, proxy: Proxy) -> None:
    answers = {row["question"]: row["answer"] for row in ROWS}
    references = {row["question"]: row["reference"] for row in ROWS}
    chain = RunnableLambda(lambda question: answers[question])
    mlflow.langchain.autolog()
    try:
        for _ in range(ROUNDS):
            with mlflow.start_run() as run:
                pass
            handler = rm.RagMetricsCallback(
                ["rouge", "lexical_relevance"], run_id=run.info.run_id, references=references
            )
            before = {trace.info.trace_id for trace in mlflow.search_traces(return_type="list")}
            for row in ROWS:
                chain.invoke(row["question"], {"callbacks": [handler]})
            mlflow.flush_trace_async_logging()
            proxy.share = 0.1
            assert handler.close(120), handler.counts
            proxy.share = 0
            assert handler.counts["written"] == len(ROWS)
            assert handler.counts["lost"] == handler.counts["withheld"] == 0
            after = {trace.info.trace_id for trace in mlflow.search_traces(return_type="list", max_results=5000)}
            check(run.info.run_id, sorted(after - before))
            points = mlflow.MlflowClient().get_metric_history(run.info.run_id, "rouge1_f1")
            assert sorted(point.step for point in points) == list(range(len(ROWS)))
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mlflow.langchain.autolog(disable=True)
    print(f"\n{dict(proxy.done)}")
