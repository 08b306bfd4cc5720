"""Memory of ``ragmetrics evaluate`` from Parquet to Parquet as the rows grow, and of the items of one row.

    python tests/benchmarks/memory.py [--rows 100000 1000000] [--publish] [evaluate's options]
    python tests/benchmarks/memory.py --items

Rows are written into a file of one row group, as pandas does, which is the worst case for a reader. The resident memory
of the command is read four times per second: the maximum in each twentieth of the run shows whether it is flat. Unknown
options are passed to the command, instead of ``--suite lexical``. ``--publish`` writes docs/data/benchmarks.json and
docs/benchmarks/memory.svg. ``--items``: KB per row that a report of white_paper with the offline judge holds, and the
part of the items, by ``tracemalloc``. Needs ``/proc``.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from harness import EXAMPLE, cpu_seconds, publish

_PICTURE = Path(__file__).parents[2] / "docs" / "benchmarks" / "memory.svg"
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


def draw(rows: Sequence[dict[str, str]]) -> None:
    """Draw the memory of each run from start to end as a curve."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "memory", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure = Figure(figsize=(7, 3.2), layout="constrained")
        axes = figure.add_subplot(xlabel="% of the run", ylabel="resident memory, MB")
        for row in rows:
            memory = [float(part) for part in row["memory, MB"].split()]
            share = [100 * (number + 1) / len(memory) for number in range(len(memory))]
            axes.plot(share, memory, label=f"{row['rows']} rows", linewidth=1.5)
        axes.set_ylim(0)
        axes.legend()
        axes.grid(alpha=0.3)
        figure.savefig(_PICTURE, format="svg", metadata={"Date": None})


def print_items() -> None:
    """Print the memory that a report holds, and the part of its items, before they are read."""
    import mlflow_ragmetrics as rm

    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    rows = [{**json.loads(line), "id": str(number)} for number, line in enumerate(lines * 10)]
    print(f"{'':14}{'rows':>8}{'KB a row':>12}{'of them items':>16}")
    for preset in ("lexical", "white_paper"):
        suite = rm.Suite.preset(preset)
        suite.evaluate(rows[:60], progress=False)  # what is remembered for later reports does not count
        tracemalloc.start()
        report = suite.evaluate(rows, progress=False)
        held = []
        for _ in range(2):
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0] / 1024 / len(rows))
            for score in (score for row in report.rows for score in row.scores.values()):
                object.__setattr__(score, "items", ())
        tracemalloc.stop()
        print(f"{preset:14}{len(rows):>8,}{held[0]:>12.1f}{held[0] - held[1]:>16.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--publish", action="store_true", help="put the figures into the docs")
    parser.add_argument("--items", action="store_true", help="measure the items of one row")
    arguments, options = parser.parse_known_args()
    if arguments.items:
        print_items()
        return
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
        draw(rows)


if __name__ == "__main__":
    main()
