"""A small local Spark whose driver accepts at most a megabyte of results."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

RECORDS: list[dict[str, Any]] = [
    {"question": f"What is {n}?", "answer": f"It is the number {n}. I don't know.", "reference": f"The number {n}.",
     "contexts": [f"{n} is a number.", "Paris is in France."] if n % 5 else None,
     "retrieved_doc_ids": ["a", f"d{n}"], "gold_doc_ids": [f"d{n}"], "rank": n if n % 2 else None}
    for n in range(30)
]  # fmt: skip
SCHEMA = (
    "question string, answer string, reference string, contexts array<string>, "
    "retrieved_doc_ids array<string>, gold_doc_ids array<string>, rank int"
)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("ragmetrics")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.driver.maxResultSize": "1m",
        "spark.log.level": "OFF",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def frame(spark: Any) -> Any:
    return spark.createDataFrame(RECORDS, SCHEMA).repartition(3)
