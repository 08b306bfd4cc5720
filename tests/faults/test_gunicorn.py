"""A service with several worker processes, some of which are stopped: every answer is in the run exactly once."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mlflow
import pytest

from mlflow_ragmetrics.results.results import results_of
from tests.faults.budget import LONG
from tests.mlflow_server import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

WORKERS = 4
ANSWERS = WORKERS * (500 if LONG else 40)
EXAMPLES = Path(__file__).parents[2] / "examples"


class Service:
    """``examples/fastapi_service.py`` under gunicorn, with workers that write to the run ``run_id``."""

    def __init__(self, folder: Path, run_id: str) -> None:
        self.port = free_port()
        self._log = folder / "gunicorn.log"
        command = [
            *(sys.executable, "-m", "gunicorn", "--chdir", str(EXAMPLES), "-k", "uvicorn.workers.UvicornWorker"),
            *("-w", str(WORKERS), "--graceful-timeout", "60", "-b", f"127.0.0.1:{self.port}", "fastapi_service:app"),
        ]
        environment = {**os.environ, "RUN_ID": run_id, "TMPDIR": str(folder)}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    @property
    def said(self) -> str:
        return self._log.read_text()

    @property
    def workers(self) -> list[int]:
        """The processes that were started and not asked to stop, oldest first."""
        begun, ended = (
            re.findall(rf"{said} \[?(\d+)", self.said) for said in ("Started server process", "Finished server process")
        )
        return [int(each) for each in begun if each not in ended]

    def ask(self, number: int) -> None:
        """Asks a unique question until it is answered."""
        body = json.dumps({"question": f"Who keeps the records of number {number}?"})
        for _ in range(100):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            try:
                connection.request("POST", "/ask", body, {"Content-Type": "application/json", "Connection": "close"})
                assert connection.getresponse().status == 200
                return
            except ConnectionError:  # the worker for it is ending
                time.sleep(0.1)
            finally:
                connection.close()
        raise AssertionError("not answered")


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def run_id() -> str:
    with mlflow.start_run() as run:
        return str(run.info.run_id)


@pytest.fixture
def service(tmp_path: Path, run_id: str) -> Iterator[Service]:
    for name in ("gunicorn", "uvicorn", "fastapi"):
        pytest.importorskip(name)
    service = Service(tmp_path, run_id)
    try:
        wait_until(lambda: service.said.count("Application startup complete") == WORKERS)
        yield service
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(service.process.pid, signal.SIGKILL)
        service.process.wait()


def test_workers_that_are_told_to_end_lose_nothing(service: Service, run_id: str) -> None:
    """Stops one worker after another while they serve, and finally all, as Kubernetes does."""
    began, told = time.monotonic(), 0
    with ThreadPoolExecutor(8) as clients:
        asked = [clients.submit(service.ask, number) for number in range(ANSWERS)]
        for part in (1, 2, 3):
            wait_until(lambda part=part: sum(each.done() for each in asked) >= part * ANSWERS // 4)
            os.kill(service.workers[0], signal.SIGTERM)
            told += 1
            wait_until(lambda told=told: service.said.count("Finished server process") == told)
        for each in asked:
            each.result()
    served, began = time.monotonic() - began, time.monotonic()
    service.process.terminate()
    assert service.process.wait(timeout=120) == 0
    ended = time.monotonic() - began

    table = results_of(run_id).table
    rows = Counter(table["question"])
    print(
        f"\n{ANSWERS} answers by {WORKERS} workers in {served:.1f} s, {told} of them ended amid, the rest in"
        f" {ended:.1f} s: {len(table)} rows, {len(rows)} different"
    )
    assert rows == Counter(f"Who keeps the records of number {number}?" for number in range(ANSWERS))
    metrics = mlflow.get_run(run_id).data.metrics
    assert metrics["faithfulness/mean"] == pytest.approx(table["faithfulness"].mean())
    assert "will be retried" not in service.said
    assert "ERROR" not in service.said
