"""Compares two evaluations of the same rows, pair by pair."""

from __future__ import annotations

from mlflow_ragmetrics.comparison.compare_runs import compare
from mlflow_ragmetrics.comparison.result import Comparison

__all__ = ["Comparison", "compare"]
