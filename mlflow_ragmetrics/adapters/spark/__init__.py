"""Suites on Spark: scores as columns, figures computed on the cluster, and a UDF."""

from __future__ import annotations

from mlflow_ragmetrics.adapters.spark.figures import log_spark, summarize_spark
from mlflow_ragmetrics.adapters.spark.scoring import score_spark, spark_udf

__all__ = ["log_spark", "score_spark", "spark_udf", "summarize_spark"]
