"""A comparison into MLflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlflow_ragmetrics.comparison.forest import forest_plot
from mlflow_ragmetrics.tracking.findings import Findings, log_findings, safe_name

if TYPE_CHECKING:
    from mlflow_ragmetrics.comparison.result import Comparison

__all__ = ["log_comparison"]


def log_comparison(comparison: Comparison, run_id: str | None, run_name: str | None) -> str:
    """Write ``compare_<A>.html``, ``.json`` (a table) and ``.png``, and the metrics ``vs_<A>/<key>/difference``, ….

    Into ``run_id``, else the active run, else a new one; returns the run's id.
    """
    name = safe_name(comparison.name_a)
    findings = Findings(
        texts={f"compare_{name}.html": comparison.to_html()},
        tables={f"compare_{name}.json": comparison.table},
        plots={f"compare_{name}.png": forest_plot(comparison)},
        metrics={f"vs_{name}/{figure}": value for figure, value in comparison.metrics.items()},
        params={f"compared_with_{name}": comparison.run_a or comparison.name_a},
    )
    return log_findings(findings, run_id, run_name)
