"""Compares a metric's scores with people's labels, to show how far you can trust it."""

from __future__ import annotations

from mlflow_ragmetrics.calibration.calibrate_scores import calibrate
from mlflow_ragmetrics.calibration.outcome import Calibration

__all__ = ["Calibration", "calibrate"]
