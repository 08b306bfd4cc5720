"""The container services, run locally: PostgreSQL, the MLflow server on it, and the worker that evaluates files."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from . import services

BINARIES = services.postgres_binaries()
ROWS = services.DOCKER.parent / "examples/data/ragtruth_gpt-4.jsonl"
ROW_COUNT = 6

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BINARIES is None, reason="PostgreSQL is not installed"),
    pytest.mark.skipif(importlib.util.find_spec("psycopg2") is None, reason="psycopg2 is not installed"),
]


@dataclass(frozen=True)
class Stack:
    """All three services; ``folder`` has their logs, ``work`` and ``artifacts``."""

    folder: Path
    addresses: dict[str, str]

    @property
    def uri(self) -> str:
        return f"http://{self.addresses['mlflow:5000']}"

    def ask(self, path: str, body: dict[str, Any] | None = None, host: str | None = None) -> bytes:
        request = urllib.request.Request(self.uri + path, json.dumps(body).encode() if body else None)
        request.add_header("Content-Type", "application/json")
        if host:
            request.add_header("Host", host)
        with urllib.request.urlopen(request, timeout=20) as reply:
            content: bytes = reply.read()
        return content


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    assert BINARIES is not None
    folder = tmp_path_factory.mktemp("stack")
    (folder / "secrets").mkdir()
    (folder / "secrets/PGPASSWORD").write_text(services.PASSWORD + "\n", encoding="utf-8")
    (folder / "secrets/OPENAI_API_KEY").touch()
    database, web = services.free_port(), services.free_port()
    addresses = {
        "postgres:5432": f"127.0.0.1:{database}",
        "mlflow:5000,localhost:5000": f"mlflow:5000,localhost:{web}",
        "127.0.0.1:5000": f"127.0.0.1:{web}",
        "localhost:5000": f"localhost:{web}",
        "//mlflow:5000": f"//127.0.0.1:{web}",
    }
    own = {"SECRETS": str(folder / "secrets"), "ARTIFACTS": str(folder / "artifacts"), "HOST": "127.0.0.1"}
    serving = {**services.environment("mlflow", addresses, folder), **own, "PORT": str(web)}
    working = {**services.environment("worker", addresses, folder), **own, "INTERVAL": "1"}
    working["WORK"] = str(folder / "work")
    with (
        services.postgres(BINARIES, database),
        services.running(services.command("mlflow"), folder / "mlflow.log", env=serving, cwd=folder),
    ):
        services.wait_for(lambda: services.health("mlflow", addresses, folder) == 0, "the MLflow server")
        with services.running(services.command("worker"), folder / "worker.log", env=working, cwd=folder):
            services.wait_for((folder / "work/inbox").is_dir, "the worker's inbox")
            yield Stack(folder, {**addresses, "mlflow:5000": f"127.0.0.1:{web}"})


def _hand_over(stack: Stack, name: str, content: str) -> Path:
    """Put a file into the inbox atomically, and return where the worker moved it."""
    work = stack.folder / "work"
    (work / "inbox/unfinished.part").write_text(content, encoding="utf-8")
    (work / "inbox/unfinished.part").rename(work / "inbox" / name)
    places = [work / result / name for result in ("done", "failed")]
    services.wait_for(lambda: any(place.exists() for place in places), f"{name} in done or failed")
    return next(place for place in places if place.exists())


@pytest.fixture(scope="module")
def evaluated(stack: Stack) -> Path:
    lines = ROWS.read_text(encoding="utf-8").splitlines(keepends=True)[:ROW_COUNT]
    return _hand_over(stack, "answers.jsonl", "".join(lines))


def _runs(stack: Stack) -> list[dict[str, Any]]:
    experiment = json.loads(stack.ask("/api/2.0/mlflow/experiments/get-by-name?experiment_name=ragmetrics"))
    number = experiment["experiment"]["experiment_id"]
    found = json.loads(stack.ask("/api/2.0/mlflow/runs/search", {"experiment_ids": [number]}))
    runs: list[dict[str, Any]] = found["runs"]
    return runs


def test_a_file_in_the_inbox_becomes_a_run_on_the_server(stack: Stack, evaluated: Path) -> None:
    assert evaluated.parent.name == "done", (evaluated.parent / "answers.jsonl.log").read_text(encoding="utf-8")
    (run,) = [run for run in _runs(stack) if run["info"]["run_name"] == "answers.jsonl"]
    metrics = {each["key"]: each["value"] for each in run["data"]["metrics"]}
    assert "faithfulness/n_measured" not in metrics  # all rows were measured
    assert 0 < metrics["rag_score/mean"] <= 1


def test_the_report_is_kept_by_the_server(stack: Stack, evaluated: Path) -> None:
    (run,) = [run for run in _runs(stack) if run["info"]["run_name"] == "answers.jsonl"]
    page = stack.ask(f"/get-artifact?path=ragmetrics_report.html&run_uuid={run['info']['run_id']}")
    assert page.lower().startswith(b"<!doctype html>")
    assert list((stack.folder / "artifacts").rglob("ragmetrics_report.html"))


def test_a_file_that_cannot_be_evaluated_goes_to_failed_with_the_reason(stack: Stack) -> None:
    place = _hand_over(stack, "broken.jsonl", "{no json\n")
    assert place.parent.name == "failed"
    said = (place.parent / "broken.jsonl.log").read_text(encoding="utf-8")
    assert "broken.jsonl" in said
    assert "Traceback" not in said


def test_the_services_own_health_checks_pass(stack: Stack, evaluated: Path) -> None:
    assert services.health("mlflow", stack.addresses, stack.folder) == 0
    assert services.health("worker", stack.addresses, stack.folder) == 0


def test_the_server_answers_to_its_own_names_only(stack: Stack) -> None:
    assert json.loads(stack.ask("/api/2.0/mlflow/experiments/search", {"max_results": 1}, host="mlflow:5000"))
    with pytest.raises(urllib.error.HTTPError) as refused:
        stack.ask("/api/2.0/mlflow/experiments/search", {"max_results": 1}, host="elsewhere.example")
    assert refused.value.code == 403


def test_the_password_is_in_no_log_and_no_argument(stack: Stack, evaluated: Path) -> None:
    for log in stack.folder.rglob("*.log"):
        assert services.PASSWORD not in log.read_text(encoding="utf-8", errors="replace"), log.name
    arguments = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert services.PASSWORD not in arguments
