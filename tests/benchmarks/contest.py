"""Contestants take turns at the same work, each in its own process and environment; results are medians of many rounds.

A benchmark is a module with ``WORKS``: by name, a function that prepares the work (of a given size) and returns a
function that does it once. The module is run again as ``python module.py --work name size`` in the contestant's
environment, so it imports contestants inside the functions.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LONGEST_ROUND = 600  # seconds
Work = Callable[[int], Callable[[], Any]]

ENVIRONMENTS: Mapping[str, Sequence[str]] = {
    "rouge": ("rouge-score", "rouge-score-rs", "rouge-rust", "rapidfuzz"),
    "ragas": ("ragas", "langchain-community<0.4.2"),
    "deepeval": ("deepeval",),
    "retrieval": ("ir-measures", "pytrec-eval-terrier", "numpy"),
}
_FOLDER = Path(tempfile.gettempdir()) / "ragmetrics-benchmarks"


@dataclass(frozen=True)
class Contestant:
    """Names for the table and of the task, and the environment: a key of ``ENVIRONMENTS``, or this interpreter."""

    name: str
    work: str
    environment: str | None = None


@dataclass(frozen=True)
class Result:
    """Median CPU seconds of one round, peak memory in MB, the returned value, and why a figure is missing."""

    contestant: str
    seconds: float = 0.0
    megabytes: float = 0.0
    returned: Any = None
    failure: str = ""


def compete(module: str, contestants: Sequence[Contestant], size: int, rounds: int) -> list[Result]:
    """Runs all contestants on work of this size, in turn, ``rounds`` times."""
    runners = [Runner(module, each, size) for each in contestants]
    for _ in range(rounds):
        for runner in runners:
            runner.go()
    return [runner.result() for runner in runners]


class Runner:
    """A contestant's process. One that fails, or takes minutes for a round, is out."""

    def __init__(self, module: str, contestant: Contestant, size: int) -> None:
        self.contestant = contestant
        self.replies: list[dict[str, Any]] = []
        self.failure = ""
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        self._process: subprocess.Popen[str] | None = None
        python = python_of(contestant.environment)
        if python is None:
            self.failure = f"{', '.join(ENVIRONMENTS[contestant.environment or ''])} cannot be installed"
            return
        environment = {**os.environ, "RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        command = [python, module, "--work", contestant.work, str(size)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=self._errors, text=True, env=environment
        )

    def go(self) -> None:
        """Runs one round."""
        if self._process is None or self.failure:
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.failure = self._last_error()
            return
        ready, _, _ = select.select([self._process.stdout], [], [], _LONGEST_ROUND)
        reply = self._process.stdout.readline() if ready else ""
        if reply:
            self.replies.append(json.loads(reply))
        else:
            self.failure = self._last_error() if ready else f"no answer in {_LONGEST_ROUND} s"

    def result(self) -> Result:
        """The medians; ends the process."""
        if self._process is not None:
            try:
                self._process.communicate(timeout=20)  # it ends without another line
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.communicate()
        if self.failure:
            print(f"failed: {self.contestant.name}: {self.failure}", file=sys.stderr, flush=True)
            return Result(self.contestant.name, failure=self.failure)
        seconds = statistics.median(reply["seconds"] for reply in self.replies)
        return Result(self.contestant.name, seconds, self.replies[-1]["megabytes"], self.replies[-1]["returned"])

    def _last_error(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return lines[-1][:200] if lines else "it ended without a reply"


def serve(works: Mapping[str, Work]) -> None:
    """The contestant's side: prepares, then does the work once for each line of input."""
    name, size = sys.argv[2], int(sys.argv[3])
    run = works[name](size)
    replies, sys.stdout = sys.stdout, sys.stderr  # output of contestants is not a reply
    for _ in sys.stdin:
        began, children = time.process_time(), _children()
        returned = run()
        seconds = time.process_time() - began + _children() - children
        megabytes = (
            max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
        )
        print(json.dumps({"seconds": seconds, "megabytes": megabytes, "returned": returned}), file=replies, flush=True)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def enter_new_folder() -> None:
    """Makes a new folder the current one and deletes it when the process ends; contestants write there."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chdir(folder)


def python_of(environment: str | None) -> str | None:
    """The interpreter of an environment, which is created if missing; ``None`` if that fails."""
    if environment is None:
        return sys.executable
    folder = _FOLDER / environment
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return str(python)
    print(f"installing {' '.join(ENVIRONMENTS[environment])} …", file=sys.stderr, flush=True)
    venv.create(folder, with_pip=True, clear=True)
    install = [str(python), "-m", "pip", "install", "-q", *ENVIRONMENTS[environment]]
    if subprocess.run(install, capture_output=True, check=False).returncode:
        return None
    (folder / "complete").touch()
    return str(python)
