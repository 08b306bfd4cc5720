"""An ``mlflow server`` is killed and restarted while a report or a chain's answers are logged."""

from __future__ import annotations

import logging
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest
from langchain_core.runnables import RunnableLambda

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.tracking.describe import run_metrics_of
from tests.faults.budget import LONG
from tests.live_answers import questions as questions_of
from tests.mlflow_server import Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

TIMES = 8 if LONG else 2
RECORDS = [
    {"id": f"row {n}", "question": "Where?", "answer": f"Paris {n}.", "reference": "Paris.", "contexts": ["In Paris."]}
    for n in range(40)
]


@pytest.fixture
def server(tmp_path: Path, mlflow_template: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    folder = tmp_path / "server"
    folder.mkdir()
    shutil.copyfile(mlflow_template, folder / "mlflow.db")
    server = Server(folder)
    server.start()
    monkeypatch.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    mlflow.set_tracking_uri(server.url)
    mlflow.set_experiment("served")  # its artifacts go through the server
    try:
        yield server
    finally:
        server.kill()


def report() -> rm.Report:
    return rm.Suite(["rouge", "lexical_groundedness"]).evaluate(RECORDS)


def check_whole(run_id: str, wanted: rm.Report) -> None:
    """Everything is stored exactly once."""
    run = mlflow.get_run(run_id)
    assert (run.info.status, run.data.tags["ragmetrics.status"]) == ("FINISHED", "complete")
    assert run.data.metrics.items() >= run_metrics_of(wanted).items()
    name = "rouge1_f1/mean"
    assert {point.value for point in mlflow.MlflowClient().get_metric_history(run_id, name)} == {run.data.metrics[name]}
    assert mlflow.load_table("rag_rows.json", run_ids=[run_id])["id"].tolist() == [each["id"] for each in RECORDS]
    assert len(mlflow.load_table("rag_claims.json", run_ids=[run_id])) == len(wanted.items)
    traces = mlflow.search_traces(run_id=run_id, return_type="list")
    assert sorted(Counter(trace.info.client_request_id for trace in traces)) == sorted(each["id"] for each in RECORDS)
    assert {len(trace.info.assessments) for trace in traces} == {3}
    tagged = mlflow.search_traces(locations=[run.info.experiment_id], return_type="list", include_spans=False)
    assert len([trace for trace in tagged if trace.info.tags.get("ragmetrics.run") == run_id]) == len(RECORDS)


def test_killed_while_a_report_is_logged(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    made, chance, outcomes = report(), random.Random(5), Counter[str]()
    made.log()
    began = time.monotonic()
    run_id = made.log()
    usual = time.monotonic() - began
    check_whole(run_id, made)
    for number in range(TIMES):
        comes_back = number % 2 == 0
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "7" if comes_back else "1")
        after = chance.uniform(0.0, usual)
        timer = threading.Timer(after, lambda again=comes_back: (server.kill(), again and server.start()))
        timer.start()
        run_id = said = ""
        try:
            run_id = made.log(run_name=str(number))
            outcomes["went through"] += 1
        except rm.RagMetricsError as error:
            outcomes["said so"] += 1
            said = str(error)
            print(f"\nkilled after {after:.1f} s: {said}")
        timer.join()
        assert "\n" not in said
        assert len(said) < 400, said
        if server.process is None:
            server.start()
        if not run_id:
            run_id = resumed(number, made, outcomes)
        check_whole(run_id, made)
    print("\n", dict(outcomes), f"{usual:.1f} s undisturbed")


def resumed(number: int, made: rm.Report, outcomes: Counter[str]) -> str:
    """The same report, logged again to the run that the dead server left behind, else to a new one."""
    found = mlflow.search_runs(filter_string=f"attributes.run_name = '{number}'", output_format="list")
    for run in found:
        assert run.info.status != "FINISHED"
        assert run.data.tags.get("ragmetrics.status") != "complete" or run.info.status == "RUNNING"
    outcomes["into the same run" if found else "into a new run"] += 1
    return made.log(run_id=found[0].info.run_id) if found else made.log(run_name=str(number))


def test_a_server_that_is_gone_is_one_sentence(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    made = report()
    server.kill()
    with pytest.raises(rm.RagMetricsError, match=r"^no run could be started in MLflow: the MLflow server http\S+ does"):
        made.log()
    assert mlflow.active_run() is None
    server.start()
    with mlflow.start_run() as run:
        server.kill()
        with pytest.raises(rm.RagMetricsError, match=rf"written to run {run.info.run_id}: the MLflow server"):
            made.log()
        server.start()
        made.log()
    check_whole(run.info.run_id, made)


@rm.metric
def answer_length(answer: str) -> float:
    """A cheap metric."""
    return min(1.0, len(answer) / 100)


@pytest.mark.parametrize("in_a_run", [True, False])
def test_killed_while_a_chain_is_scored(
    in_a_run: bool, server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Answers given while the server is down wait, and are in the run once when it is back."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    chain: Any = RunnableLambda(lambda question: f"answer to {question}")
    with caplog.at_level(logging.WARNING, "mlflow_ragmetrics"):
        made = mlflow.start_run() if in_a_run else None
        handler = rm.RagMetricsCallback(rm.Suite([answer_length]))
        questions = [f"question {n}" for n in range(40 * TIMES)]
        for number, question in enumerate(questions):
            if number % 40 == 10:
                server.kill()
            if number % 40 == 30:
                server.start()
            took = time.monotonic()
            assert chain.invoke(question, {"callbacks": [handler]}) == f"answer to {question}"
            assert time.monotonic() - took < 2
            time.sleep(0.05)
        assert handler.flush(60)
    counts = handler.counts
    assert (counts["scored"], counts["unwritten"], counts["lost"]) == (len(questions), 0, 0)
    assert handler.close()
    if made is not None:
        mlflow.end_run()
    (run,) = mlflow.search_runs(output_format="list")
    assert run.info.status == "FINISHED"
    assert questions_of(run.info.run_id) == sorted(questions)
    points = mlflow.MlflowClient().get_metric_history(run.info.run_id, "answer_length")
    assert sorted(point.step for point in points) == list(range(len(questions)))
    assert "will be retried" in caplog.text


def test_a_run_whose_answers_are_not_all_written_does_not_look_finished(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    chain: Any = RunnableLambda(lambda question: f"answer to {question}")
    handler = rm.RagMetricsCallback(rm.Suite([answer_length]))
    chain.batch(["one", "two"], {"callbacks": [handler]})
    assert handler.flush(60)
    server.kill()
    chain.invoke("three", {"callbacks": [handler]})
    began = time.monotonic()
    assert not handler.close(2)
    assert time.monotonic() - began < 10
    assert handler.counts["unwritten"] == 1
    server.start()
    (run,) = mlflow.search_runs(output_format="list")
    assert run.info.status == "RUNNING"
    assert questions_of(run.info.run_id) == ["one", "two"]
