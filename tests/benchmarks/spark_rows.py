"""Lexical scores of many rows on Spark: plan, seconds, rows per second, and memory from the start to the end of a run.

``python tests/benchmarks/spark_rows.py [--rows 100000 1000000] [--master 'local[1]' 'local[2]'] [--words 60]``

Rows are created on the cluster and written as Parquet before the clock starts; the timed run reads them, scores them
with the preset ``lexical`` and writes rows, reasons and items as Parquet. Each run has its own Java process. Memory is
resident memory (RSS), sampled twice per second and shown as the maximum of each tenth of the run; CPU seconds show the
cost of a run if other work shares the machine. Needs the extra ``spark``, Java and ``/proc``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SUITE = "lexical"
_VOCABULARY = 5000
_SENTENCE = 15
_ROWS_A_FILE = 25_000
_PAGE = os.sysconf("SC_PAGE_SIZE") / 2**20
_TICK = os.sysconf("SC_CLK_TCK")


def rows_of(spark: SparkSession, rows: int, words: int) -> DataFrame:
    """Rows with words as frequent as in natural language (Zipf), drawn by hashes of row and position."""
    from pyspark.sql import functions as f

    row = f.col("id")

    def text(seed: int, length: int) -> Column:
        def word(place: Column) -> Column:
            drawn = f.pmod(f.xxhash64(row, place, f.lit(seed)), f.lit(1_000_003)) / 1_000_003
            rank = f.floor(f.exp(drawn * f.log(f.lit(float(_VOCABULARY)))))
            end = f.when((place + 1) % _SENTENCE == 0, ".").otherwise("")
            return f.concat(f.lit("w"), f.lower(f.hex(rank + 255)), end)

        return f.array_join(f.transform(f.sequence(f.lit(0), f.lit(length - 1)), word), " ")

    columns = {"question": text(1, 10), "answer": text(2, words), "reference": text(3, words)}
    numbers = spark.range(0, rows, 1, max(4, rows // _ROWS_A_FILE))
    return numbers.select(row.cast("string").alias("id"), *(c.alias(name) for name, c in columns.items()))


class Watch:
    """Samples the descendants of this process: megabytes of the largest Python worker, of all workers, of Java."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, float, float]] = []
        self.seconds: dict[str, dict[int, float]] = defaultdict(dict)
        self._begun: dict[int, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops sampling."""
        self._stop.set()
        self._thread.join()

    def cpu(self, kind: str) -> float:
        """CPU seconds of the processes of one kind."""
        return sum(self.seconds[kind].values())

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            found = list(processes_below(os.getpid()))
            workers = [megabytes for kind, _, megabytes, _ in found if kind == "worker"]
            java = sum(megabytes for kind, _, megabytes, _ in found if kind == "java")
            self.samples.append((max(workers, default=0.0), sum(workers), java))
            for kind, process, _, seconds in found:
                self.seconds[kind][process] = seconds - self._begun.setdefault(process, seconds)


def processes_below(ancestor: int) -> Iterator[tuple[str, int, float, float]]:
    """Kind (java, worker), id, resident megabytes and CPU seconds of each descendant of ``ancestor``."""
    parents: dict[int, tuple[int, list[str]]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1]), fields
        except OSError:  # it has ended
            continue
    for process, (_, fields) in parents.items():
        above = process
        while above in parents and above != ancestor:
            above = parents[above][0]
        if above != ancestor or process == ancestor:
            continue
        try:
            command = Path(f"/proc/{process}/cmdline").read_bytes()
        except OSError:
            continue
        kind = "java" if b"java" in command.split(b"\0")[0] else "worker" if b"pyspark.daemon" in command else "other"
        yield kind, process, int(fields[21]) * _PAGE, (int(fields[11]) + int(fields[12])) / _TICK


def session(master: str) -> SparkSession:
    """A session with its own Java process, which reads one file per partition."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "3g",
        "spark.sql.files.maxPartitionBytes": "16m",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def run(master: str, folder: Path, rows: int, words: int) -> None:
    """Creates the rows if they are missing, scores them, and prints time and memory."""
    from mlflow_ragmetrics.spark import score_spark, summarize_spark

    spark = session(master)
    source, target = str(folder / f"{rows}.parquet"), str(folder / "scored.parquet")
    if not Path(source).exists():
        began = time.perf_counter()
        rows_of(spark, rows, words).write.parquet(source)
        size = sum(part.stat().st_size for part in Path(source).glob("*.parquet")) / 1e6
        print(f"{rows:,} rows of {words} words made in {time.perf_counter() - began:.0f} s, {size:.0f} MB", flush=True)
    frame = spark.read.parquet(source)
    score_spark(frame.limit(100), _SUITE).write.mode("overwrite").format("noop").save()
    scored = score_spark(frame, _SUITE)
    watch, began = Watch(), time.perf_counter()
    scored.write.mode("overwrite").parquet(target)
    seconds = time.perf_counter() - began
    watch.stop()
    began = time.perf_counter()
    summary = summarize_spark(spark.read.parquet(target))
    figures = summary.metrics
    assert summary.rows == rows
    speed = f"{rows:,} rows in {seconds:.1f} s, {rows / seconds:,.0f} rows/s"
    print(f"{master}: {speed}, {frame.rdd.getNumPartitions()} partitions, {100 * load():.0f} % of the machine busy")
    cpu = {kind: watch.cpu(kind) for kind in ("worker", "java")}
    print(f"  CPU: workers {cpu['worker']:.0f} s ({1e6 * cpu['worker'] / rows:.0f} µs a row), Java {cpu['java']:.0f} s")
    for place, name in enumerate(("largest worker", "all workers", "Java (driver and executor)")):
        show_memory(name, [sample[place] for sample in watch.samples])
    print(f"  Python driver: {own_peak():.0f} MB at most")
    mean = f"rouge1_f1/mean {figures['rouge1_f1/mean']:.4f}"
    print(f"  {len(figures)} figures in {time.perf_counter() - began:.1f} s, one row collected: {mean}")
    print("  plan:", " <- ".join(plan_of(scored)), flush=True)
    spark.stop()


def load() -> float:
    """The average number of processes waiting for a CPU in the last minute, per CPU."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def show_memory(name: str, samples: Sequence[float]) -> None:
    """Prints the largest sample of each tenth, and the peak."""
    step = max(1, -(-len(samples) // 10))
    tenths = [max(samples[start : start + step]) for start in range(0, len(samples), step)]
    print(f"  {name}, MB: {' '.join(f'{each:.0f}' for each in tenths)}   peak {max(samples, default=0.0):.0f}")


def own_peak() -> float:
    """The peak memory of this process in MB."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def plan_of(scored: Any) -> list[str]:
    """The names of the steps of the physical plan, from last to first."""
    lines = scored._jdf.queryExecution().executedPlan().toString().splitlines()
    return [line.strip(" +-:*()0123456789").split("(")[0].split("[")[0].split(" ")[0] for line in lines if line.strip()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--master", nargs="+", default=["local[1]", "local[2]"])
    parser.add_argument("--words", type=int, default=60, help="of an answer and of a reference")
    parser.add_argument("--folder", type=Path, help="keep the rows there for other runs")
    given = parser.parse_args()
    if given.folder and len(given.rows) == len(given.master) == 1:
        run(given.master[0], given.folder, given.rows[0], given.words)
        return
    with tempfile.TemporaryDirectory() as temporary:
        for rows in given.rows:
            for master in given.master:
                options = ["--rows", str(rows), "--master", master, "--words", str(given.words)]
                command = [sys.executable, __file__, *options, "--folder", str(given.folder or temporary)]
                subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
