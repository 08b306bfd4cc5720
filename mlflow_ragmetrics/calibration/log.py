"""A calibration into MLflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlflow_ragmetrics.calibration.plot import reliability_plot
from mlflow_ragmetrics.calibration.text import decision
from mlflow_ragmetrics.tracking.findings import Findings, log_findings, safe_name

if TYPE_CHECKING:
    from mlflow_ragmetrics.calibration.result import Calibration

__all__ = ["log_calibration"]


def log_calibration(calibration: Calibration, run_id: str | None, run_name: str | None) -> str:
    """Write ``calibration_<key>.json`` (a table), ``.txt`` and ``.png``, and ``calibration/<key>/…`` as metrics."""
    name = safe_name(calibration.key)
    findings = Findings(
        texts={f"calibration_{name}.txt": f"{calibration}\n"},
        tables={f"calibration_{name}.json": calibration.table} if calibration.at_default else {},
        plots={f"calibration_{name}.png": reliability_plot(calibration)},
        metrics=calibration.metrics,
        params={f"calibration_{name}": decision(calibration)},
    )
    return log_findings(findings, run_id, run_name)
