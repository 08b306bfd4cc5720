"""How far a metric can be trusted: its scores against people's labels."""

from __future__ import annotations

from mlflow_ragmetrics.calibration.calibrate_scores import calibrate
from mlflow_ragmetrics.calibration.outcome import Calibration

__all__ = ["Calibration", "calibrate"]
