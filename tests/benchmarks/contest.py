"""Contestants on the same work, in turn: each in a process of its own, in its own environment, medians of many rounds.

A benchmark is a module with ``WORKS``: by name, a function that prepares the work (of a given size) and returns what
does it once. The module is run again as ``python module.py --work name size`` in the contestant's environment, so its
imports of contestants stand inside the functions.
"""

from __future__ import annotations

import json
import os
import resource
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
    """A name for the table, the work's name, and its environment: a key of ``ENVIRONMENTS``, or this interpreter."""

    name: str
    work: str
    environment: str | None = None


@dataclass(frozen=True)
class Result:
    """Median CPU seconds of one round, peak memory in MB, and what the work returned for comparison."""

    contestant: str
    seconds: float
    megabytes: float
    returned: Any


@dataclass(frozen=True)
class Figure:
    """One line of the table: what was done, and the results, ours first. ``target``: least ratio to ``rival``."""

    what: str
    results: Sequence[Result]
    target: str = ""


def compete(module: str, contestants: Sequence[Contestant], size: int, rounds: int) -> list[Result]:
    """All contestants on work of this size, in turn, ``rounds`` times; those that cannot be installed are left out."""
    runners = [(each, runner) for each in contestants if (runner := _start(module, each, size)) is not None]
    replies: dict[str, list[dict[str, Any]]] = {each.name: [] for each, _ in runners}
    for _ in range(rounds):
        for each, runner in runners:
            reply = _ask(runner)
            if reply is not None:
                replies[each.name].append(reply)
    for _, runner in runners:
        runner.stdin.close()  # type: ignore[union-attr]
        runner.wait(timeout=60)
    return [
        Result(
            name,
            statistics.median(reply["seconds"] for reply in given),
            given[-1]["megabytes"],
            given[-1]["returned"],
        )
        for name, given in replies.items()
        if given
    ]


def serve(works: Mapping[str, Work]) -> None:
    """The contestant's side: prepare, then do the work once for each line that comes in."""
    name, size = sys.argv[2], int(sys.argv[3])
    run = works[name](size)
    replies, sys.stdout = sys.stdout, sys.stderr  # what contestants print is no reply
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


def _start(module: str, contestant: Contestant, size: int) -> subprocess.Popen[str] | None:
    python = python_of(contestant.environment)
    if python is None:
        return None
    command = [python, module, "--work", contestant.work, str(size)]
    pipe = subprocess.PIPE
    environment = {**os.environ, "RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment)


def _ask(runner: subprocess.Popen[str]) -> dict[str, Any] | None:
    """One round; ``None`` where the contestant has ended without a reply."""
    assert runner.stdin is not None
    assert runner.stdout is not None
    try:
        runner.stdin.write("go\n")
        runner.stdin.flush()
    except BrokenPipeError:
        return None
    reply = runner.stdout.readline()
    if not reply:
        print(f"failed: {' '.join(map(str, runner.args))}", file=sys.stderr)  # type: ignore[arg-type]
        return None
    answer: dict[str, Any] = json.loads(reply)
    return answer


def python_of(environment: str | None) -> str | None:
    """The interpreter of an environment, which is made where it is not there yet; ``None`` where that fails."""
    if environment is None:
        return sys.executable
    folder = _FOLDER / environment
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return str(python)
    print(f"installing {' '.join(ENVIRONMENTS[environment])} …", file=sys.stderr, flush=True)
    venv.create(folder, with_pip=True)
    install = [str(python), "-m", "pip", "install", "-q", *ENVIRONMENTS[environment]]
    if subprocess.run(install, capture_output=True, check=False).returncode:
        return None
    (folder / "complete").touch()
    return str(python)
