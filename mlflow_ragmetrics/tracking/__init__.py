"""Writes reports and scored rows to MLflow runs. No other package writes to MLflow."""

from __future__ import annotations

from mlflow_ragmetrics.tracking.log_report import log_report

__all__ = ["log_report"]
