"""Memory and time of ``ragmetrics evaluate`` from Parquet to Parquet, as the rows grow.

``python tests/benchmarks/memory_command.py [--rows 100000 300000 1000000] [--publish] [evaluate's options]``

Rows are written into a file of one row group, as pandas does, which is the worst case for a reader. The command runs in
its own process, whose resident memory is read four times per second: the maximum in each twentieth of the run shows
whether it is flat. Unknown options are passed to the command, instead of ``--suite lexical``. ``--publish`` writes the
figures to docs/data/benchmarks.json and draws docs/benchmarks/memory.svg from them. Needs ``/proc``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import memory_stream

_DOCS = Path(__file__).parents[2] / "docs"
_DATA, _PICTURE = _DOCS / "data" / "benchmarks.json", _DOCS / "benchmarks" / "memory.svg"
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

    names = ("id", "question", "answer", "reference")
    schema = pa.schema({name: pa.string() for name in names})
    made, parts = memory_stream.rows(count), []
    while batch := [{name: row[name] for name in names} for row in islice(made, 10_000)]:
        parts.append(pa.Table.from_pylist(batch, schema))
    pq.write_table(pa.concat_tables(parts), path, row_group_size=count)


def measured(folder: Path, rows: int, options: Sequence[str]) -> dict[str, Any]:
    """The memory of each part of a run in MB, its CPU and wall seconds, and the load of the machine."""
    write_rows(folder / "rows.parquet", rows)
    arguments = ["evaluate", "rows.parquet", *options, "--no-log", "--output", "scored.parquet"]
    began = time.perf_counter()
    with (folder / "said.txt").open("w") as said:
        command = subprocess.Popen([sys.executable, "-c", _COMMAND, *arguments], cwd=folder, stdout=said, stderr=said)
        samples: list[float] = []
        while True:
            ended, status, usage = os.wait4(command.pid, os.WNOHANG)
            if ended:
                break
            samples.append(resident(command.pid))
            time.sleep(0.25)
    command.returncode = os.waitstatus_to_exitcode(status)
    if command.returncode:
        sys.exit((folder / "said.txt").read_text())
    step = len(samples) / _PARTS
    parts = [max(samples[int(n * step) : max(int(n * step) + 1, int((n + 1) * step))]) for n in range(_PARTS)]
    return {
        "rows": rows,
        "memory": [round(each) for each in parts],
        "cpu": usage.ru_utime + usage.ru_stime,
        "wall": time.perf_counter() - began,
        "load": os.getloadavg()[1] / (os.cpu_count() or 1),
    }


def resident(process: int) -> float:
    """The resident memory of a process in MB; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0.0


def entry(runs: Sequence[dict[str, Any]], options: Sequence[str]) -> dict[str, Any]:
    """The table ``memory`` of the committed figures."""
    rows = [
        {
            "rows": f"{run['rows']:,}",
            "memory, MB": " ".join(map(str, run["memory"])),
            "largest": f"{max(run['memory'])} MB",
            "CPU a row": f"{1000 * run['cpu'] / run['rows']:.2f} ms",
            "load": f"{100 * run['load']:.0f} %",
        }
        for run in runs
    ]
    numbers = " ".join(str(run["rows"]) for run in runs)
    command = f"python tests/benchmarks/memory_command.py --rows {numbers} --publish {' '.join(options)}"
    about = _ABOUT.format(options=" ".join(options))
    return {
        "about": about,
        "command": command,
        "date": date.today().isoformat(),
        "columns": list(rows[0]),
        "rows": rows,
    }


def draw(found: dict[str, Any], path: Path) -> None:
    """Draws the memory of each run from start to end as a curve."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "memory", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure = Figure(figsize=(7, 3.2), layout="constrained")
        axes = figure.add_subplot()
        for row in found["rows"]:
            memory = [float(each) for each in row["memory, MB"].split()]
            share = [100 * (number + 1) / len(memory) for number in range(len(memory))]
            axes.plot(share, memory, label=f"{row['rows']} rows", linewidth=1.5)
        axes.set_ylim(0)
        axes.set_xlabel("% of the run")
        axes.set_ylabel("resident memory, MB")
        axes.legend()
        axes.grid(alpha=0.3)
        figure.savefig(path, format="svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--publish", action="store_true", help="put the figures into the docs")
    given, options = parser.parse_known_args()
    options = options or ["--suite", "lexical"]
    runs = []
    for rows in given.rows:
        with tempfile.TemporaryDirectory() as folder:
            run = measured(Path(folder), rows, options)
        runs.append(run)
        print(
            f"{rows:,} rows: {1000 * run['cpu'] / rows:.3f} ms CPU a row, {run['wall']:.0f} s, load {run['load']:.1f}"
        )
        print(f"  MB: {' '.join(map(str, run['memory']))}", flush=True)
    if given.publish:
        figures = json.loads(_DATA.read_text(encoding="utf-8"))
        figures["memory"] = entry(runs, options)
        _DATA.write_text(json.dumps(figures, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        draw(figures["memory"], _PICTURE)


if __name__ == "__main__":
    main()
