"""Lexical scores of many rows on Spark: rows per second, CPU time of workers and Java, and their memory.

``python tests/benchmarks/spark_rows.py [--rows 100000] [--master 'local[1]'] [--words 60]``

Rows are written as Parquet before the clock starts; the timed run reads them, scores them with the preset ``lexical``
and writes rows, reasons and items as Parquet. Memory is resident memory, read twice per second and shown as the maximum
of each tenth of the run. Needs the extra ``spark``, Java and ``/proc``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness import peak_megabytes, records
from memory import resident

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SUITE, _DRAWN, _ROWS_A_FILE = "lexical", 2000, 25_000
_TICK = os.sysconf("SC_CLK_TCK")
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "3g",
    "spark.sql.files.maxPartitionBytes": "16m",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def rows_of(spark: SparkSession, rows: int, words: int) -> DataFrame:
    """Texts with the word frequencies of natural language; each row has a word of its own."""
    from pyspark.sql import functions as f

    texts = [{**record, "place": place} for place, record in enumerate(records(_DRAWN, words))]
    drawn = f.broadcast(spark.createDataFrame(texts).drop("id"))
    numbers = spark.range(0, rows, 1, max(4, rows // _ROWS_A_FILE))
    joined = numbers.withColumn("place", numbers.id % _DRAWN).join(drawn, "place").drop("place")
    columns = [f.concat(name, f.lit(" w"), "id").alias(name) for name in ("question", "answer", "reference")]
    return joined.select(joined.id.cast("string").alias("id"), *columns)


class Samples:
    """Memory and CPU time of the Python workers and of Java below this process, read until ``stop``."""

    def __init__(self) -> None:
        self.megabytes: list[dict[str, float]] = []
        self.seconds: dict[str, dict[int, float]] = defaultdict(dict)
        self._begun: dict[int, float] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._end.wait(0.5):
            used: dict[str, float] = defaultdict(float)
            for kind, process, seconds in processes_below(os.getpid()):
                used[kind] += resident(process)
                self.seconds[kind][process] = seconds - self._begun.setdefault(process, seconds)
            self.megabytes.append(used)


def processes_below(ancestor: int) -> Iterator[tuple[str, int, float]]:
    """Kind (``Java`` or ``workers``), id and CPU seconds of each descendant of ``ancestor``."""
    children = Path(f"/proc/{ancestor}/task").glob("*/children")
    try:
        for process in [int(number) for path in children for number in path.read_text().split()]:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            program = Path(f"/proc/{process}/cmdline").read_bytes().partition(b"\0")[0]
            kind = "Java" if program.endswith(b"java") else "workers"
            yield kind, process, (int(fields[11]) + int(fields[12])) / _TICK
            yield from processes_below(process)
    except OSError:  # a process has ended
        return


def run(master: str, folder: Path, rows: int, words: int) -> None:
    """Create the rows, score them, and print time and memory."""
    from pyspark.sql import SparkSession

    from mlflow_ragmetrics.spark import score_spark, summarize_spark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master)
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    source, target = str(folder / f"{rows}.parquet"), str(folder / "scored.parquet")
    rows_of(spark, rows, words).write.parquet(source)
    frame = spark.read.parquet(source)
    score_spark(frame.limit(100), _SUITE).write.mode("overwrite").format("noop").save()
    samples, began = Samples(), time.perf_counter()
    score_spark(frame, _SUITE).write.mode("overwrite").parquet(target)
    seconds = time.perf_counter() - began
    samples.stop()
    summary = summarize_spark(spark.read.parquet(target))
    assert len(summary) == rows
    print(f"{master}: {rows:,} rows in {seconds:.1f} s, {rows / seconds:,.0f} rows/s, load {os.getloadavg()[0]:.1f}")
    step = max(1, -(-len(samples.megabytes) // 10))
    for kind in ("workers", "Java"):
        memory = [used[kind] for used in samples.megabytes]
        tenths = " ".join(f"{max(memory[at : at + step]):.0f}" for at in range(0, len(memory), step))
        used = sum(samples.seconds[kind].values())
        print(f"  {kind}: {used:.1f} CPU seconds, {1e6 * used / rows:.0f} µs a row; MB: {tenths}")
    print(f"  driver: {peak_megabytes():.0f} MB; rouge1_f1/mean {summary.metrics['rouge1_f1/mean']:.4f}", flush=True)
    spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--master", default="local[1]")
    parser.add_argument("--words", type=int, default=60, help="of an answer and of a reference")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(options.master, Path(folder), options.rows, options.words)


if __name__ == "__main__":
    main()
