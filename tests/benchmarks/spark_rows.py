"""Lexical scores of many rows on Spark: ``python tests/benchmarks/spark_rows.py [rows] [words] [local[1] local[2] …]``.

Reads Parquet, writes Parquet, prints plan, seconds, rows a second, the memory of the Python workers over time, and the
figures that were computed on the cluster. Needs the extra ``spark`` and Java.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mlflow_ragmetrics import score_spark, summarize_spark

_CHUNK = 10_000
_SUITE = "lexical"


def write_rows(path: Path, rows: int, words: int) -> None:
    generator = np.random.default_rng(0)
    vocabulary = np.array([f"w{number:x}" for number in range(256, 5256)])
    weights = 1 / np.arange(1, len(vocabulary) + 1)
    schema = pa.schema({"id": pa.string(), "question": pa.string(), "answer": pa.string(), "reference": pa.string()})
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, _CHUNK):
            size = min(_CHUNK, rows - start)
            drawn = generator.choice(vocabulary, (size, 2 * words + 10), p=weights / weights.sum())
            texts = [
                [" ".join(row[:10]), sentences(row[10 : 10 + words]), sentences(row[10 + words :])] for row in drawn
            ]
            ids = [str(number) for number in range(start, start + size)]
            columns = [ids, *map(list, zip(*texts, strict=True))]
            writer.write_table(pa.table(columns, schema=schema))


def sentences(words: np.ndarray) -> str:
    return " ".join(" ".join(words[start : start + 15]) + "." for start in range(0, len(words), 15))


class Memory:
    """The memory of the Python processes below this one, MB, sampled twice a second."""

    def __init__(self) -> None:
        self.samples: list[float] = []
        self._stop = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> list[float]:
        self._stop.set()
        return self.samples

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            self.samples.append(workers_memory())


def workers_memory() -> float:
    """The largest Python worker's own memory (shared pages counted in part), MB."""
    largest = 0.0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"pyspark" in (process / "cmdline").read_bytes() and int(process.name) != os.getpid():
                text = (process / "smaps_rollup").read_text()
                if b"java" not in (process / "cmdline").read_bytes():
                    largest = max(largest, int(text.split("Pss:")[1].split()[0]) / 1024)
        except OSError:
            continue
    return largest


def run(master: str, source: Path, target: Path) -> None:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.memory", "3g").config("spark.sql.files.maxPartitionBytes", "16m").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    frame = spark.read.parquet(str(source))
    scored = score_spark(frame, _SUITE)
    memory, began = Memory(), time.perf_counter()
    scored.write.mode("overwrite").parquet(str(target))
    seconds = time.perf_counter() - began
    samples = memory.stop()
    began = time.perf_counter()
    figures = summarize_spark(spark.read.parquet(str(target)))
    rows = int(figures["n_rows"])
    speed = f"{seconds:.1f} s, {rows / seconds:.0f} rows/s"
    print(f"{master}: {rows} rows, {frame.rdd.getNumPartitions()} partitions, {speed}")
    step = max(1, len(samples) // 10)
    tenths = [max(samples[i : i + step]) for i in range(0, len(samples), step)]
    print("  largest worker over time, MB:", " ".join(f"{sample:.0f}" for sample in tenths))
    print(f"  figures in {time.perf_counter() - began:.1f} s: rouge1_f1/mean {figures['rouge1_f1/mean']:.4f}")
    print("  plan:", " <- ".join(plan_of(scored)), flush=True)
    spark.stop()


def plan_of(scored: object) -> list[str]:
    lines = scored._jdf.queryExecution().executedPlan().toString().splitlines()  # type: ignore[attr-defined]
    return [line.strip(" +-:*()0123456789").split("(")[0].split("[")[0].split(" ")[0] for line in lines if line.strip()]


def main() -> None:
    rows, words = (int(argument) for argument in [*sys.argv[1:3], *("100000", "60")[len(sys.argv) - 1 :]][:2])
    masters = sys.argv[3:] or ["local[1]", "local[2]"]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "rows.parquet")
        write_rows(source, rows, words)
        print(f"{rows} rows of {words} words, {source.stat().st_size / 1e6:.0f} MB")
        for master in masters:
            run(master, source, Path(folder, "scored.parquet"))


if __name__ == "__main__":
    main()
