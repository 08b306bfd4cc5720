"""Suites on Spark: scores as columns, the figures of a report, and a UDF.

**Rows.** ``score_spark`` is one narrow step (``MapInArrow``) that keeps the partitions. Each Python process creates the
suite once and keeps it, with its judges and their counts, for all its tasks. ``mapInPandas`` would change columns that
only pass through: with PySpark 4.3 and pandas 3.1, a double NaN becomes null, and a timestamp of the year 9999, the
usual "never", fails the job. Arrow leaves both as they are. Columns that no metric reads are not converted at all.

**A judge over the network** is asked by one task, so that ``concurrency``, ``requests_per_minute``,
``tokens_per_minute``, ``max_calls`` and ``max_cost`` hold for the whole cluster. The judge sets the pace: 600 calls per
minute are about 100 rows per minute of six calls each. ``score_spark(…, workers=4)`` uses four tasks with equal numbers
of rows; the limits then hold for each task. After a 429, only that task waits, for the requested time; after its last
attempt the row has an error. Limits last for the life of a Python process: a second action, and a task that Spark
repeats or runs speculatively, may start with new ones. If ``max_calls`` or ``max_cost`` must hold even then, cache or
write the result before you use it twice, leave ``spark.speculation`` off, and set ``spark.task.maxFailures=1``.

**Answers** are shared within a partition. With ``cache``, they are also stored in an SQLite file on each worker's disk,
and a repeated task pays nothing for the questions that its machine has asked before. **Keys** come from the environment
of driver and executors (``spark.executorEnv.OPENAI_API_KEY``).

**Judges that compute in the process** (``lexical``, local models) have no limits: every partition is a task.
"""

from __future__ import annotations

from mlflow_ragmetrics.spark.score_frame import log_spark, score_spark, spark_udf, summarize_spark

__all__ = ["log_spark", "score_spark", "spark_udf", "summarize_spark"]
