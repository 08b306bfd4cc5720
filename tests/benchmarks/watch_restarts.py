"""Whether ``ragmetrics watch`` scores each trace once if its passes are killed: 2,000 traces in SQLite.

``python tests/benchmarks/watch_restarts.py [--traces 2000] [--folder DIR]``. A pass is ended by SIGKILL while it
writes, one by SIGTERM, one more by SIGKILL; traces keep arriving. At the end each trace must have one feedback for
each metric, and the run must have counted each trace once. A custom metric records every scoring in a file.
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
from pathlib import Path

ROOT = Path(__file__).parents[2]
METRIC = '''
import os
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
first, last = map(int, sys.argv[1:])
for number in range(first, last):
    with mlflow.start_span("answer") as span:
        span.set_inputs({"question": f"How high is tower {number}?"})
        span.set_outputs(f"Tower {number} is {number} metres high.")
    if number % 200 == 199:
        mlflow.flush_trace_async_logging()
mlflow.flush_trace_async_logging()
"""
COMMAND = "import sys; from mlflow_ragmetrics.cli import main; main(sys.argv[1:])"


def main() -> None:
    """Runs it, prints the results, and fails if a trace was not scored exactly once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=2000)
    parser.add_argument("--folder", default=None)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(given.folder or made)
        (folder / "noting.py").write_text(METRIC)
        (folder / "make.py").write_text(MAKE)
        print_table(folder, given.traces)


def print_table(folder: Path, traces: int) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}",
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}",
    }

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, *arguments], cwd=folder, env=environment, stderr=subprocess.DEVNULL)

    def watch() -> subprocess.Popen[bytes]:
        options = ("watch", "live", "--once", "-m", "noting:noted", "-m", "coherence")
        return start("-c", COMMAND, *options)

    start("make.py", "0", str(traces * 3 // 5)).wait()
    ends: list[str] = []
    arriving = start("make.py", str(traces * 3 // 5), str(traces))
    for share, number in ((0.15, signal.SIGKILL), (0.3, signal.SIGTERM), (0.5, signal.SIGKILL)):
        process = watch()
        while process.poll() is None and feedback(folder) < share * traces * 2:
            time.sleep(0.05)
        if process.poll() is None:
            process.send_signal(number)
        process.wait()
        ends.append(f"{signal.Signals(number).name} after {feedback(folder)} feedbacks")
    arriving.wait()
    began = time.monotonic()
    code = watch().wait()
    seconds = time.monotonic() - began
    watch().wait()
    print("| passes ended by | last pass | traces | one feedback per metric | doubled | none | counted by the run |")
    print("|---|---|---|---|---|---|---|")
    found = per_trace(folder)
    once = sum(each == {"noted": 1, "coherence": 1} for each in found.values())
    doubled = sum(any(count > 1 for count in each.values()) for each in found.values())
    missing = sum(len(each) < 2 for each in found.values())
    counted = latest(folder, "traces/scored")
    print(
        f"| {', '.join(ends)} | exit code {code}, {seconds:.0f} s | {len(found)} | {once} | {doubled} | {missing} "
        f"| {counted:g} |"
    )
    scorings = Counter((folder / "scorings.txt").read_text().splitlines())
    again = sum(count - 1 for count in scorings.values())
    print(f"\nScorings begun anew because the kill came before they were written: {again} of {sum(scorings.values())}")
    if (once, counted) != (traces, traces):
        sys.exit(1)


def feedback(folder: Path) -> int:
    """The number of feedbacks in the store."""
    return int(query(folder, "SELECT COUNT(*) FROM assessments")[0][0])


def per_trace(folder: Path) -> dict[str, Counter[str]]:
    """The number of feedbacks of each name, for each trace."""
    found = {trace: Counter[str]() for (trace,) in query(folder, "SELECT request_id FROM trace_info")}
    for trace, name in query(folder, "SELECT trace_id, name FROM assessments"):
        found[trace][name] += 1
    return found


def latest(folder: Path, name: str) -> float:
    """The last value of a run metric."""
    return float(query(folder, "SELECT value FROM latest_metrics WHERE key = ?", name)[0][0])


def query(folder: Path, text: str, *values: str) -> list[tuple]:
    """The rows of a query while others write."""
    with sqlite3.connect(f"file:{folder / 'mlflow.db'}?mode=ro", uri=True, timeout=60) as connection:
        return connection.execute(text, values).fetchall()


if __name__ == "__main__":
    main()
