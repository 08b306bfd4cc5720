"""Score a Spark DataFrame on its executors and log the figures to an MLflow run.

    python examples/spark.py
    python examples/spark.py --judge openai:/gpt-4o-mini

Needs ``pip install -e '.[spark]'`` and a Java that Spark supports.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from mlflow_ragmetrics.spark import log_spark, score_spark, summarize_spark

DATA = Path(__file__).parent / "data" / "ragtruth_gpt-4.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", default=str(DATA), help="a JSON lines file or folder that Spark can read")
    parser.add_argument("--judge", default="lexical", help="lexical (offline) or a model URI (default: lexical)")
    arguments = parser.parse_args()

    # the workers run the Python that has the package installed
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    answers = spark.read.json(arguments.file)

    # limits apply to the whole cluster: at most 8 calls in flight for all executors together
    metrics, options = ["faithfulness", "correctness"], {"judge": arguments.judge, "concurrency": 8}
    scored = score_spark(answers, metrics, **options).cache()
    columns = ["id", "faithfulness", "correctness", "faithfulness_reason"]
    scored.select(columns).orderBy("faithfulness").show(5, truncate=70)
    summary = summarize_spark(scored)
    for name, value in summary.metrics.items():
        print(f"  {name:24} {value:.3f}")
    print("\n".join(summary.banner))
    print(f"Logged into MLflow run {log_spark(scored, metrics, **options)}")
    spark.stop()


if __name__ == "__main__":
    main()
