"""Intervals, tests and agreement, on plain numbers: NumPy and SciPy, no tables, no runs."""

from __future__ import annotations

from mlflow_ragmetrics.statistics.intervals import bootstrap_interval, paired_intervals

__all__ = ["bootstrap_interval", "paired_intervals"]
