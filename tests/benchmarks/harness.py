"""Programs take turns at the same work, each in its own process; the table has CPU seconds and ratios to the first.

A benchmark is a module with ``WORKS``: by name, a function that prepares the work (of a given size) and returns a
function that does it once. The module runs again as ``python module.py --work NAME SIZE`` in the program's interpreter
and with the program's copy of the package, so it imports both inside these functions.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import accumulate
from pathlib import Path
from statistics import median
from subprocess import PIPE
from typing import Any

Work = Callable[[int], Callable[[], Any]]
TABLES = Path(__file__).parents[2] / "docs" / "data" / "benchmarks.json"
EXAMPLE = Path(__file__).parents[2] / "examples" / "data" / "ragtruth_llama-2-13b.jsonl"
COLUMNS = ["work", "program", "CPU seconds", "times ours", "peak memory", "numbers"]
VOCABULARY, SENTENCE = 5000, 15


@dataclass(frozen=True)
class Program:
    """A name for the table, the work, the interpreter, and the folder of the package (default: the installed one)."""

    name: str
    work: str
    python: str = sys.executable
    tree: str = ""

    def start(self, module: str, size: int) -> subprocess.Popen[str]:
        """The program's process, which works once for each line of its input."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "PYTHONPATH": self.tree}
        command = [self.python, module, "--work", self.work, str(size)]
        return subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True, env=environment)


def compete(title: str, module: str, programs: Sequence[Program], size: int, rounds: int) -> list[dict[str, str]]:
    """Run all programs in turn, ``rounds`` times each. Print one row per program and return the rows."""
    processes = [program.start(module, size) for program in programs]
    replies: list[list[dict[str, Any]]] = [[] for _ in programs]
    for place, process in list(enumerate(processes)) * rounds:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError, json.JSONDecodeError):  # it failed, and printed its error
            print("go", file=process.stdin, flush=True)
            replies[place].append(json.loads(process.stdout.readline()))
    for process in processes:
        process.communicate()
    print(f"\n{title}", flush=True)
    rows = [_row(program, part, replies[0]) for program, part in zip(programs, replies, strict=True)]
    rows[0]["work"] = title
    for row in rows:
        cells = [row.get(column, "") for column in ("times ours", "CPU seconds", "peak memory")]
        print("  {:>8} {:>9} s {:>8}   ".format(*cells) + f"{row['program']}   {row['numbers']}", flush=True)
    return rows


def _row(program: Program, replies: Sequence[dict[str, Any]], first: Sequence[dict[str, Any]]) -> dict[str, str]:
    if not replies:
        return {"work": "", "program": program.name, "numbers": "could not be run"}
    seconds, base = (median([reply["seconds"] for reply in part] or [0]) for part in (replies, first))
    result, expected = (part[-1]["result"] if part else None for part in (replies, first))
    numbers = result if isinstance(result, str) else ""
    if replies is not first and None not in (result, expected) and not numbers:
        numbers = "equal numbers" if result == expected else f"OTHER NUMBERS: {result}"
    ratio = f"{seconds / base:.2f}" if base and replies is not first else ""
    figures = {
        "CPU seconds": f"{seconds:.3f}",
        "times ours": ratio,
        "peak memory": f"{replies[-1]['megabytes']:.0f} MB",
    }
    return {"work": "", "program": program.name, **figures, "numbers": numbers}


def serve(works: Mapping[str, Work]) -> None:
    """The program's side: prepare, then work once for each line of input."""
    work = works[sys.argv[2]](int(sys.argv[3]))
    replies, sys.stdout = sys.stdout, sys.stderr  # what a program prints is not a reply
    for _ in sys.stdin:
        began = cpu_seconds()
        result = work()
        seconds = cpu_seconds() - began
        reply = {"seconds": seconds, "megabytes": peak_megabytes(), "result": result}
        print(json.dumps(reply), file=replies, flush=True)


def cpu_seconds() -> float:
    """CPU seconds of this process and of the processes that it started and that ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def peak_megabytes() -> float:
    """The peak memory of this process, or of the largest that it started, in MB."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(kind).ru_maxrss for kind in kinds) / 1024


def records(count: int, words: int, seed: int = 0) -> list[dict[str, str]]:
    """Rows with question, answer and reference; words are as frequent as in natural language (Zipf)."""
    generator = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["".join(generator.choices(letters, k=generator.randint(2, 10))) for _ in range(VOCABULARY)]
    weights = list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))

    def text() -> str:
        drawn = generator.choices(vocabulary, cum_weights=weights, k=words)
        sentences = (" ".join(drawn[start : start + SENTENCE]) for start in range(0, words, SENTENCE))
        return "\n".join(f"{sentence.capitalize()}." for sentence in sentences)

    rows = ({"id": str(number), "answer": text(), "reference": text()} for number in range(count))
    return [{**row, "question": " ".join(row["reference"].split()[:12]) + "?"} for row in rows]


def publish(name: str, about: str, command: str, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    """Write a table of docs/data/benchmarks.json."""
    tables = json.loads(TABLES.read_text(encoding="utf-8"))
    table = {"about": about, "command": command, "date": f"{date.today()}", "columns": columns, "rows": rows}
    TABLES.write_text(json.dumps(tables | {name: table}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
