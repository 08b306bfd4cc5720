"""Whether ``ragmetrics watch`` scores each trace once if its passes are killed: 2,000 traces in SQLite.

``python tests/benchmarks/watch_restarts.py [--traces 2000]``. A pass is ended by SIGKILL while it writes, one by
SIGTERM, one more by SIGKILL; traces keep arriving. At the end each trace must have one feedback for each metric, and
the run must have counted each trace once. A custom metric records every scoring in a file.
"""

from __future__ import annotations

import argparse
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
METRIC = '''
import mlflow_ragmetrics as rm

@rm.metric
def noted(answer: str) -> rm.Score:
    """Whether the answer is there. Each scoring is noted."""
    with open("scorings.txt", "a") as file:
        file.write(answer + "\\n")
    return rm.Score(value=1.0 if hash(answer) % 3 else 0.5)
'''
MAKE = """
import sys
import mlflow
mlflow.set_experiment("live")
for number in range(*map(int, sys.argv[1:])):
    with mlflow.start_span("answer") as span:
        span.set_inputs({"question": f"How high is tower {number}?"})
        span.set_outputs(f"Tower {number} is {number} metres high.")
mlflow.flush_trace_async_logging()
"""
WATCH = """
from mlflow_ragmetrics.cli import main
main(["watch", "live", "--once", "-m", "noting:noted", "-m", "coherence"])
"""


def start(code: str, *arguments: int) -> subprocess.Popen[bytes]:
    """A Python process in the current folder, with its store and metric."""
    paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{Path.cwd()}", "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db"}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, env=os.environ | paths, stderr=subprocess.DEVNULL)


def query(text: str) -> Sequence[tuple[Any, ...]]:
    """The rows of a query while others write."""
    with sqlite3.connect("file:mlflow.db?mode=ro", uri=True, timeout=60) as connection:
        return connection.execute(text).fetchall()


def main() -> None:
    """Print the results, and fail if a trace was not scored exactly once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=2000)
    traces = parser.parse_args().traces
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("noting.py").write_text(METRIC)
        start(MAKE, 0, traces * 3 // 5).wait()
        arriving = start(MAKE, traces * 3 // 5, traces)
        for share, number in ((0.15, signal.SIGKILL), (0.3, signal.SIGTERM), (0.5, signal.SIGKILL)):
            process = start(WATCH)
            while process.poll() is None and query("SELECT COUNT(*) FROM assessments")[0][0] < 2 * share * traces:
                time.sleep(0.05)
            process.send_signal(number)
            process.wait()
            print(f"{number.name} after {query('SELECT COUNT(*) FROM assessments')[0][0]} feedbacks", flush=True)
        arriving.wait()
        code = start(WATCH).wait()
        start(WATCH).wait()
        counts = Counter(query("SELECT trace_id, name FROM assessments"))
        ((counted,),) = query("SELECT value FROM latest_metrics WHERE key = 'traces/scored'")
        scorings = len(Path("scorings.txt").read_text().splitlines())
        print(f"{'last exit code':>16}{'traces':>8}{'once':>8}{'doubled':>9}{'counted':>9}{'scored again':>14}")
        once, doubled = sum(count == 1 for count in counts.values()) / 2, sum(count > 1 for count in counts.values())
        print(f"{code:>16}{traces:>8}{once:>8g}{doubled:>9}{counted:>9g}{scorings - traces:>14}")
    if (once, doubled, counted) != (traces, 0, traces):
        sys.exit(1)


if __name__ == "__main__":
    main()
