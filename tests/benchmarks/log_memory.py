"""The memory needed to log a large report, and the resulting content of the store.

Run: ``python tests/benchmarks/log_memory.py [ROWS] [--no-traces]``. The rows of the example data, scored once by the
white-paper suite, are copied until there are ROWS (default 20,000), and logged to a new SQLite store.
"""

from __future__ import annotations

import os
import pickle
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import mlflow

import mlflow_ragmetrics as rm

DATA = Path(__file__).parents[2] / "examples" / "data" / "ragtruth_llama-2-13b.jsonl"


def peak_mb() -> float:
    """The peak memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(rows: int, traces: bool) -> None:
    scored = rm.Suite.preset("white_paper").evaluate(DATA)
    stored = [pickle.dumps(row) for row in scored.rows]
    many = []
    for number in range(rows):
        row = pickle.loads(stored[number % len(stored)])
        many.append(replace(row, index=number, sample=replace(row.sample, id=f"row {number}")))
    report = replace(scored, rows=many)
    print(f"{rows:,} rows in memory: {peak_mb():,.0f} MB")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        mlflow.set_tracking_uri("sqlite:///mlflow.db")
        began = time.perf_counter()
        run_id = report.log(traces=traces)
        seconds = time.perf_counter() - began
        print(f"logged in {seconds:,.0f} s, at most {peak_mb():,.0f} MB")
        for each in sorted(Path(folder).rglob("*")):
            if each.is_file():
                print(f"  {each.stat().st_size / 1e6:9.1f} MB  {each.name}")
        if traces:
            found = mlflow.search_traces(run_id=run_id, return_type="list", include_spans=False)
            print(f"{len(found):,} traces, {len({each.info.client_request_id for each in found}):,} distinct rows")


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:] if each.isdigit()]
    main(numbers[0] if numbers else 20_000, "--no-traces" not in sys.argv)
