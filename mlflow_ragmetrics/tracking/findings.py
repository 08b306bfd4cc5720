"""What is found out about runs after they were evaluated, comparisons and calibrations, into a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.tracking.run import COMPLETE, WRITING, target_run
from mlflow_ragmetrics.tracking.tables import table_json
from mlflow_ragmetrics.tracking.writer import STATUS_TAG, Content, RunWriter

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Findings", "log_findings", "safe_name"]

_UNSAFE = re.compile(r"[^\w\-]+", re.ASCII)


@dataclass(frozen=True)
class Findings:
    """Artifacts by file name, run metrics and params by name; ``status`` is that of the run, ``None``: as it was."""

    texts: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    plots: Mapping[str, Figure | None] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    status: str | None = None


def log_findings(findings: Findings, run_id: str | None, run_name: str | None) -> str:
    """Write into the run ``run_id``, else the active run, else a new one; returns the run's id.

    Artifacts of the same name are replaced. A ``RagMetricsError`` says why something could not be written.
    """
    files: dict[str, Content] = {
        **findings.texts,
        **{name: table_json(table) for name, table in findings.tables.items()},
        **{name: figure.savefig for name, figure in findings.plots.items() if figure is not None},
    }
    with target_run(run_id, run_name) as target:
        writer = RunWriter(target)
        writer.files(files, tables=list(findings.tables))
        writer.params(findings.params)
        writer.figures(findings.metrics)
        is_new = writer.present_tags().get(STATUS_TAG) == WRITING
        if findings.status is not None or is_new:
            writer.tags({STATUS_TAG: findings.status or COMPLETE})
    return target


def safe_name(name: str, longest: int = 60) -> str:
    """``name`` as part of a file's or a metric's name: letters, digits, ``_`` and ``-`` of ASCII only."""
    return _UNSAFE.sub("_", name).strip("_")[:longest] or "run"
