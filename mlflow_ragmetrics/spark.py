"""Suites on Spark: scores as columns, the figures of a report, and a UDF.

**Rows.** ``score_spark`` is one narrow step (``MapInArrow``) on the partitions as they are; each Python process makes
the suite once and keeps it, its judges and their meters for all its tasks. It is not ``mapInPandas``, which changes
columns that only pass through: there (PySpark 4.3, pandas 3.1) a double NaN comes back as null, and a timestamp of the
year 9999, the usual "never", fails the job; Arrow leaves both as they are. What no metric reads is not even converted.

**A judge over the network** is one for the whole cluster: ``concurrency``, ``requests_per_minute``,
``tokens_per_minute``, ``max_calls`` and ``max_cost`` are divided among the tasks, rounded down, so that no number of
executors exceeds them. There are never more tasks than the smallest limit has whole shares, and rows are dealt out
evenly to exactly so many. With ``concurrency=64`` and 600 requests a minute, a hundred executors of four cores run 64
tasks, each with one call in flight and 9 requests a minute; the other 336 cores are free, and stay so: a rate-limited
judge sets the pace, not the cluster (600 calls a minute are about 100 rows a minute of six calls each). A worker that
is turned away with 429 waits as long as it is told, alone; after its last attempt the row has an error. What one task
leaves of its share is not passed on. A share counts for the life of a Python process: a task that Spark runs again, or
speculatively, may begin with a new one, so leave ``spark.speculation`` off, and set ``spark.task.maxFailures=1`` where
``max_calls`` or ``max_cost`` must hold even then.

**Answers** are remembered for the length of a partition, and kept in an SQLite file on each worker's disk where
``cache`` is given: with it, a task that is run again pays nothing for what its machine has asked before. **Keys** come
from the environment of driver and executors (``spark.executorEnv.OPENAI_API_KEY``).

**Judges that compute in the process** (``lexical``, local models) have no limits: every partition is a task.
"""

from __future__ import annotations

from mlflow_ragmetrics.adapters.spark.figures import log_spark, summarize_spark
from mlflow_ragmetrics.adapters.spark.score_frame import score_spark, spark_udf

__all__ = ["log_spark", "score_spark", "spark_udf", "summarize_spark"]
