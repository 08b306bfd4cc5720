"""The same over HTTP: an ``mlflow server`` on PostgreSQL, both started here."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.tracking import traces as traces_module
from mlflow_ragmetrics.tracking.log import run_metrics_of
from mlflow_ragmetrics.tracking.writer import mlflow_name
from tests.adapters.doors import DOORS, directly, suite_of
from tests.mlflow_server import Server, free_port

pytestmark = pytest.mark.slow

RECORDS = [
    {"id": "a", "question": "Where?", "answer": "In Paris.", "reference": "Paris.", "contexts": ["It is in Paris."]},
    {"id": "b", "question": "When? \x00", "answer": "In 1889 \ud800", "contexts": ["It was built in 1889."]},
]


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("psycopg2", reason="pip install psycopg2-binary")
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    folder = Path(os.path.dirname(shutil.which("postgres") or "") or (programs[-1] if programs else "."))
    if not (folder / "postgres").exists():
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    data, port = tmp_path_factory.mktemp("postgresql"), free_port()
    user = {"user": "postgres"} if os.geteuid() == 0 else {}  # PostgreSQL refuses to run as root
    if user:
        shutil.chown(data, "postgres")
        for parent in data.parents[:3]:
            parent.chmod(parent.stat().st_mode | 0o055)
    subprocess.run([folder / "initdb", "-D", data, "-U", "postgres", "-A", "trust"], check=True, cwd=data, **user)
    options = ["-D", data, "-p", str(port), "-k", data, "-c", "listen_addresses=127.0.0.1"]
    with subprocess.Popen([folder / "postgres", *map(str, options)], cwd=data, **user) as server:
        try:
            wait_for(lambda: socket.create_connection(("127.0.0.1", port), 1).close())
            yield f"postgresql+psycopg2://postgres@127.0.0.1:{port}/postgres"
        finally:
            server.terminate()


@pytest.fixture(scope="module")
def server(postgresql: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = Server(tmp_path_factory.mktemp("server"), postgresql)
    try:
        server.start()
        yield server.url
    finally:
        server.kill()


def wait_for(attempt: object, seconds: float = 90.0) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            attempt()  # type: ignore[operator]
        except (OSError, ValueError):
            if time.monotonic() > until:
                raise
            time.sleep(0.3)
        else:
            return


def test_everything_arrives_and_logging_twice_changes_nothing(server: str) -> None:
    mlflow.set_tracking_uri(server)
    judge = rm.ScriptedJudge(facts=[{"text": "one", "ok": True}], used_chunks=[1])
    report = rm.Suite(["faithfulness", "chunk_precision", "rouge"], judge=judge).evaluate(RECORDS)
    run_id = report.log(run_name="over HTTP")
    report.log(run_id=run_id)
    run = mlflow.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.metrics.items() >= run_metrics_of(report).items()
    assert mlflow.load_table("rag_rows.json", run_ids=[run_id])["id"].tolist() == ["a", "b"]
    traces = mlflow.search_traces(run_id=run_id, return_type="list")
    assert sorted(len(trace.info.assessments) for trace in traces) == [3, 4]


def test_traces_are_sent_by_several_threads_and_each_once(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow.set_tracking_uri(server)
    scored = rm.Suite(["rouge", "lexical_relevance"]).evaluate(RECORDS)
    sent: Counter[str] = Counter()
    write = traces_module._write

    def note(rows: list[Row], target: Any) -> list[str]:
        sent[threading.current_thread().name] += len(rows)
        return write(rows, target)

    monkeypatch.setattr(traces_module, "_write", note)
    rows = [replace(scored.rows[n % 2], sample=replace(scored.rows[n % 2].sample, id=f"{n}")) for n in range(400)]
    report = replace(scored, rows=rows)
    run_id = report.log()
    report.log(run_id=run_id)
    found = mlflow.search_traces(run_id=run_id, return_type="list", include_spans=False)
    assert sorted(int(trace.info.client_request_id) for trace in found) == list(range(400))
    assert {len(trace.info.assessments) for trace in found} == {2, 3}
    assert len(sent) > 1
    assert sum(sent.values()) == 800


def test_the_doors_of_mlflow_over_http(server: str) -> None:
    import pandas as pd

    mlflow.set_tracking_uri(server)
    suite = rm.Suite(["rouge"])
    data = pd.DataFrame([{"answer": "In Paris.", "reference": "Paris."}, {"answer": "a", "reference": "b"}])
    options = {"data": data, "predictions": "answer", "targets": "reference"}
    first = mlflow.models.evaluate(**options, extra_metrics=rm.extra_metrics(suite))
    second = mlflow.models.evaluate(
        **options, model_type="rag", evaluators="ragmetrics", evaluator_config={"suite": suite}
    )
    assert first.metrics["rouge1_f1/mean"] == second.metrics["rouge1_f1/mean"]
    assert len(second.tables["rag_rows"]) == 2


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", ["ndcg_5", "preset retrieval", "preset full"])
def test_presets_have_the_same_means_through_every_door_over_http(
    server: str, name: str, door: Callable[[rm.Suite], dict[str, float]]
) -> None:
    mlflow.set_tracking_uri(server)
    mlflow.set_experiment(f"{name} by {door.__name__}")
    suite = suite_of(name)
    expected = directly(suite)
    found = door(suite)
    means = {f"{key}/mean": f"{mlflow_name(key)}/mean" for key in suite.keys if f"{key}/mean" in expected}
    assert means
    logged = {mean: found.get(name) for mean, name in means.items()}
    assert logged == pytest.approx(
        {mean: expected[mean] for mean in means}, abs=5e-5
    )  # scores on traces have four digits
