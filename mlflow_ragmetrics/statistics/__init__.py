"""Intervals, tests and agreement, on plain numbers: NumPy and SciPy, no tables, no runs."""

from __future__ import annotations

from mlflow_ragmetrics.statistics.intervals import bootstrap_interval, bootstrap_intervals, paired_intervals

__all__ = ["bootstrap_interval", "bootstrap_intervals", "paired_intervals"]
