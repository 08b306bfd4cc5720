"""Rows into MLflow runs: the only package that writes to MLflow. It takes finished reports and knows no suite."""

from __future__ import annotations

from mlflow_ragmetrics.tracking.log_report import log_report

__all__ = ["log_report"]
