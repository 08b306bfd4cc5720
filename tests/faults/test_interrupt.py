"""Ctrl-C ends the command or a program at once, with one sentence, and keeps the finished answers."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.judges.misbehaving_server import Script, served

_COMMAND = "from mlflow_ragmetrics.cli import main\nmain()"
_OPTIONS = ["evaluate", "rows.jsonl", "-m", "correctness", "-j", "openai:/local", "--cache", "cache.db", "--no-log"]
_SYNCHRONOUS = """
import mlflow_ragmetrics as rm
suite = rm.Suite(["correctness"], judge="openai:/local", cache="cache.db")
try:
    suite.evaluate("rows.jsonl", progress=False)
except KeyboardInterrupt:
    print("interrupted")
"""
_ASYNCHRONOUS = """
import asyncio
import mlflow_ragmetrics as rm
suite = rm.Suite(["correctness"], judge="openai:/local", cache="cache.db")
try:
    asyncio.run(suite.aevaluate("rows.jsonl", progress=False))
except KeyboardInterrupt:
    print("interrupted")
"""
ROWS = [{"question": f"Why {n}?", "answer": f"Because {n}.", "reference": f"For {n}."} for n in range(400)]


@pytest.fixture
def server() -> Iterator[Script]:
    with served(Script(delay=0.1)) as script:
        yield script


@pytest.fixture
def start(server: Script, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    environment = {**os.environ, "OPENAI_API_KEY": "sk-test-0123456789abcdef", "OPENAI_BASE_URL": server.url}
    started: list[subprocess.Popen[str]] = []

    def start(program: str, *arguments: str) -> subprocess.Popen[str]:
        heard = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"  # also behind a shell's &
        command = [sys.executable, "-c", heard + program, *arguments]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()


def wait_for_questions(server: Script, number: int) -> None:
    until = time.monotonic() + 120
    while len(server.requests) < number:
        assert time.monotonic() < until, "nothing was asked"
        time.sleep(0.01)


def stored(folder: Path) -> int:
    with sqlite3.connect(folder / "cache.db") as cache:
        return int(cache.execute("SELECT count(*) FROM answers").fetchone()[0])


@pytest.mark.parametrize("times", [1, 2])
def test_the_command(times: int, server: Script, start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    process = start(_COMMAND, *_OPTIONS)
    wait_for_questions(server, 30)
    began = time.monotonic()
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    output, said = process.communicate(timeout=60)
    seconds = time.monotonic() - began
    asked = len(server.requests)
    assert process.returncode in ((130,) if times == 1 else (130, -signal.SIGINT)), said  # both are 130 to a shell
    last = said.strip().splitlines()[-1]
    assert last.startswith(("Stopped: ", "Ended at once: ")[: None if times == 2 else 1]), said
    if times == 1:
        assert "of 400 rows were scored" in last
        assert last.endswith("run the same command again to continue (the cache has the judge's answers).")
    assert "Traceback" not in output + said
    assert seconds < 10, f"it took {seconds:.1f} s"
    assert asked - 9 <= stored(tmp_path) <= asked
    print(f"\nCtrl-C {times} times: ended after {seconds:.2f} s, {stored(tmp_path)} of {asked} answers are kept")


@pytest.mark.parametrize("program", [_SYNCHRONOUS, _ASYNCHRONOUS], ids=["evaluate", "aevaluate"])
def test_a_program(program: str, server: Script, start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    process = start(program)
    wait_for_questions(server, 30)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    output, said = process.communicate(timeout=60)
    seconds = time.monotonic() - began
    asked = len(server.requests)
    assert (output, said) == ("interrupted\n", "")
    assert seconds < 10, f"it took {seconds:.1f} s"
    assert asked < 200
    assert asked - 9 <= stored(tmp_path) <= asked


def test_the_command_while_it_waits_to_try_again(server: Script, start: Callable[..., subprocess.Popen[str]]) -> None:
    from tests.judges.misbehaving_server import Fault

    server.faults = [Fault(status=429, headers={"Retry-After": "200"})] * 99
    process = start(_COMMAND, *_OPTIONS)
    wait_for_questions(server, 1)
    time.sleep(1.5)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert time.monotonic() - began < 10
