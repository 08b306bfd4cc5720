"""If memory runs out anywhere, a command ends with one sentence, and its files are complete."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.faults.budget import LONG

ROWS = 4000 if LONG else 2000
_PROGRAM = """
import resource, sys
import mlflow, mlflow.genai, pandas, scipy.stats, scipy.special, pyarrow.parquet, matplotlib.pyplot, sqlalchemy, jinja2
import mlflow_ragmetrics as rm
import mlflow_ragmetrics.cli.evaluate, mlflow_ragmetrics.comparison
mlflow.set_tracking_uri("sqlite:///mlflow.db")
mlflow.search_experiments()
rm.Suite(["rouge", "coherence"]).evaluate([{"answer": "b c", "reference": "c"}] * 20).to_html()
more = int(sys.argv.pop(1))
if more:
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + more * 2**20,) * 2)
from mlflow_ragmetrics.cli import main
main()
"""
_OPTIONS = ["evaluate", "rows.jsonl", "-m", "rouge", "-m", "coherence"]
_OPTIONS += ["--tracking-uri", "sqlite:///mlflow.db"]
_LIMITS = (2, 20, 40, 60, 80, 100, 130, 160, 200, 250, 300, 400, 500, 700) if LONG else (30, 100)


def command(folder: Path, more: int, *options: str) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-c", _PROGRAM, str(more), *_OPTIONS, *options]
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=600, check=False)


def runs(folder: Path) -> list[tuple[str, str]]:
    query = "SELECT status, value FROM runs LEFT JOIN tags USING (run_uuid) WHERE key = 'ragmetrics.status'"
    with sqlite3.connect(folder / "mlflow.db") as store:
        assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return list(store.execute(query))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("output", ["out.parquet", "out.csv", None] if LONG else ["out.parquet"])
def test_what_is_done_is_kept_or_said_to_be_lost(output: str | None, tmp_path: Path, mlflow_template: Path) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("a process can be kept from memory on Linux")
    (tmp_path / "mlflow.db").write_bytes(mlflow_template.read_bytes())
    with (tmp_path / "rows.jsonl").open("w", encoding="utf-8") as rows:
        for n in range(ROWS):
            row = {"question": f"Why {n}?", "answer": f"As of thing {n}. " * 20, "reference": f"For {n}. " * 20}
            rows.write(json.dumps({**row, "contexts": [f"Words of passage {n}. " * 20]}) + "\n")
    outcomes = []
    for more in _LIMITS:
        for each in tmp_path.glob("out*"):
            each.unlink()
        done = command(tmp_path, more, *(["--output", output] if output else []))
        said = done.stderr.strip().splitlines()[-1:]
        if done.returncode in (-signal.SIGSEGV, -signal.SIGABRT):  # a library in C crashed without memory
            outcomes.append((more, done.returncode, "crashed"))
            continue
        assert done.returncode in (0, 2, 3), (more, done.returncode, done.stderr[-2000:])
        assert "Traceback" not in done.stdout + done.stderr
        if done.returncode:
            assert "memory ran out" in done.stdout + done.stderr, done.stderr
        found = [] if output is None else [each.name for each in tmp_path.glob("out*")]
        assert found in ([], [output])
        scored = re.search(r"(\d+) of \d+ rows were scored; run", done.stderr)
        if scored and output == "out.parquet":
            assert pq.read_table(tmp_path / output).num_rows == int(scored[1])
        for status, tag in runs(tmp_path):
            assert (status == "FINISHED") == (tag == "complete")
            assert status != "RUNNING"
        outcomes.append((more, done.returncode, said[0][:110] if said else "done"))
    print("\n" + "\n".join(map(str, outcomes)))
    assert sum(code < 0 for _, code, _ in outcomes) < len(outcomes) / 2
    assert command(tmp_path, 0).returncode == 0
    assert ("FINISHED", "complete") in runs(tmp_path)
