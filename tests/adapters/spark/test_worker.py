"""In a worker: one suite, and rows with errors instead of failed jobs."""

from __future__ import annotations

import os
from collections import defaultdict
from itertools import chain
from typing import Any

import pyarrow as pa

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.spark import Recipe, score_batches, score_spark, suite_of

from .needs import needs_spark


def on_spark(test: Any) -> Any:
    for mark in needs_spark:
        test = mark(test)
    return test


def scored(batches: list[pa.RecordBatch], metrics: list[Any], **options: Any) -> list[pa.RecordBatch]:
    recipe, names = Recipe(metrics, options), batches[0].schema.names
    return list(score_batches(batches, recipe=recipe, columns=None, read=names, adds_id=True))


def test_batches_of_any_size_come_out_in_order_and_in_bounded_parts() -> None:
    sizes = [1, 0, 700, 256, 3]
    answers = [[f"Answer {size} {n}." for n in range(size)] for size in sizes]
    batches = [pa.RecordBatch.from_pydict({"answer": pa.array(each, pa.string())}) for each in answers]
    found = scored(batches, ["coherence"])
    assert [text for part in found for text in part.column("answer").to_pylist()] == list(chain(*answers))
    assert all(len(set(part.column("id").to_pylist())) == 1 for part in found), "question and reference are the same"
    assert max(part.num_rows for part in found) == 256
    assert not any(part.column("coherence").null_count for part in found)


def test_rows_are_read_as_they_are_needed() -> None:
    taken = []

    def batches() -> Any:
        for number in range(100):
            taken.append(number)
            yield pa.RecordBatch.from_pydict({"answer": [f"Answer {n}." for n in range(256)]})

    stream = score_batches(batches(), recipe=Recipe(["coherence"], {}), columns=None, read=["answer"], adds_id=True)
    next(stream)
    assert len(taken) < 6
    stream.close()


@on_spark
def test_each_process_makes_the_suite_once_for_all_its_partitions(spark: Any) -> None:
    @rm.metric(range=(0, 1e9))
    def process(answer: str) -> float:
        """The process that scores the row."""
        return os.getpid()

    @rm.metric(range=(0, 1e9))
    def made(answer: str) -> float:
        """The number of suites created by the process."""
        return suite_of.cache_info().misses

    frame = spark.range(0, 80, 1, 8).selectExpr("CAST(id AS string) AS answer", "spark_partition_id() AS part")
    made_in: dict[float, set[float]] = defaultdict(set)
    parts_of: dict[float, set[int]] = defaultdict(set)
    for row in score_spark(frame, [process, made]).collect():
        made_in[row["process"]].add(row["made"])
        parts_of[row["process"]].add(row["part"])
    assert 1 <= len(made_in) <= 2
    assert os.getpid() not in made_in
    assert sum(map(len, parts_of.values())) == 8, "a process has several partitions"
    assert all(len(counts) == 1 for counts in made_in.values())


@on_spark
def test_a_bad_record_and_a_failing_metric_are_rows_with_errors(spark: Any) -> None:
    @rm.metric
    def fragile(answer: str) -> float:
        """Fails."""
        if "zero" in answer:
            raise ZeroDivisionError("by design")
        return 1.0

    frame = spark.sql(
        "SELECT 'a' AS id, 'fine' AS answer, array(named_struct('title', 't', 'text', 'fine')) AS contexts "
        "UNION ALL SELECT 'b', 'zero', array(named_struct('title', 't', 'text', 'zero')) "
        "UNION ALL SELECT 'c', CAST(X'FFFE' AS string), null UNION ALL SELECT 'd', null, array()"
    ).coalesce(1)
    found = {
        row["id"]: row for row in score_spark(frame, [fragile, "coherence"]).selectExpr("* EXCEPT (answer)").collect()
    }
    assert [found[each]["fragile_status"] for each in "abcd"] == ["ok", "error", "error", "skipped"]
    assert found["b"]["fragile_reason"] == "ZeroDivisionError: by design"
    assert "UnicodeDecodeError" in found["c"]["coherence_reason"]
    assert [found[each]["coherence"] is None for each in "abcd"] == [False, False, True, True]


@on_spark
def test_a_column_of_the_wrong_kind_fails_the_metrics_that_need_it(spark: Any) -> None:
    frame = spark.sql("SELECT 'Paris.' AS answer, 'Paris.' AS reference, array(struct(1 AS page)) AS contexts")
    row = score_spark(frame, ["faithfulness", "rouge"]).first()
    assert (row["faithfulness_status"], row["rouge1_f1"]) == ("error", 1.0)
    assert "passage 1 of `contexts` has no text" in row["faithfulness_reason"]
