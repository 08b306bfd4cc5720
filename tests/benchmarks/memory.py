"""Memory of ``ragmetrics evaluate`` from Parquet to Parquet as the rows grow.

    python tests/benchmarks/memory.py [--rows 100000 1000000] [--publish] [evaluate's options]

Rows are written into a file of one row group, as pandas does, which is the worst case for a reader. The resident memory
of the command is read four times per second: the maximum in each twentieth of the run shows whether it is flat. Unknown
options are passed to the command, instead of ``--suite lexical``. ``--publish`` writes docs/data/benchmarks.json.
Needs ``/proc``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from harness import cpu_seconds, publish

_COMMAND = "from mlflow_ragmetrics.cli import main; main()"
_PARTS = 20
_PAGE = os.sysconf("SC_PAGE_SIZE") / 2**20
_ABOUT = (
    "`ragmetrics evaluate rows.parquet {options} --no-log --output scored.parquet` in its own process; the file is one"
    " row group. Memory is resident memory, the maximum in each twentieth of the run; load is the load average"
    " of the machine per CPU."
)


def write_rows(path: Path, count: int) -> None:
    """A Parquet file of one row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = ("What is thing {0}?", "Thing {0} is red. It is big. It is number {0}.", "Thing {0} is red. It is old.")
    rows = ([str(number), *(text.format(number) for text in texts)] for number in range(count))
    schema = pa.schema({name: pa.string() for name in ("id", "question", "answer", "reference")})
    tables = []
    while batch := list(islice(rows, 10_000)):
        tables.append(pa.Table.from_arrays([pa.array(column) for column in zip(*batch, strict=True)], schema=schema))
    pq.write_table(pa.concat_tables(tables), path, row_group_size=count)


def measured(folder: Path, rows: int, options: Sequence[str]) -> dict[str, str]:
    """One row of the table: the memory of each part of a run, and its CPU time."""
    write_rows(folder / "rows.parquet", rows)
    arguments = ["evaluate", "rows.parquet", *options, "--no-log", "--output", "scored.parquet"]
    before = cpu_seconds()
    command = subprocess.Popen([sys.executable, "-c", _COMMAND, *arguments], cwd=folder, stdout=subprocess.DEVNULL)
    samples: list[float] = []
    while command.poll() is None:
        samples.append(resident(command.pid))
        time.sleep(0.25)
    if command.returncode:
        sys.exit(command.returncode)
    step = len(samples) / _PARTS
    parts = [max(samples[int(n * step) : max(int(n * step) + 1, int((n + 1) * step))]) for n in range(_PARTS)]
    return {
        "rows": f"{rows:,}",
        "memory, MB": " ".join(f"{part:.0f}" for part in parts),
        "largest": f"{max(parts):.0f} MB",
        "CPU a row": f"{1000 * (cpu_seconds() - before) / rows:.2f} ms",
        "load": f"{100 * os.getloadavg()[1] / (os.cpu_count() or 1):.0f} %",
    }


def resident(process: int) -> float:
    """The resident memory of a process in MB; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--publish", action="store_true", help="put the figures into the docs")
    arguments, options = parser.parse_known_args()
    options = options or ["--suite", "lexical"]
    rows = []
    for count in arguments.rows:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measured(Path(folder), count, options))
        print(", ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
    if arguments.publish:
        suite, numbers = " ".join(options), " ".join(map(str, arguments.rows))
        command = f"python tests/benchmarks/memory.py --rows {numbers} --publish {suite}"
        publish("memory", _ABOUT.format(options=suite), command, list(rows[0]), rows)


if __name__ == "__main__":
    main()
