"""Runs suites on Spark; ``mlflow_ragmetrics.spark`` has the public names."""
