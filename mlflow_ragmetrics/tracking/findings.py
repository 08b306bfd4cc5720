"""Writes comparisons, calibrations and other findings to MLflow runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.tracking.run import COMPLETE, WRITING, new_target, target_run
from mlflow_ragmetrics.tracking.writer import STATUS_TAG, Content, RunWriter, table_json

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def log_findings(
    run_id: str | None,
    run_name: str | None,
    *,
    texts: Mapping[str, Content] | None = None,
    tables: Mapping[str, pd.DataFrame] | None = None,
    plots: Mapping[str, Figure | None] | None = None,
    metrics: Mapping[str, float] | None = None,
    params: Mapping[str, Any] | None = None,
    status: str | None = None,
    own: bool = False,
) -> str:
    """Write a comparison, a calibration or similar to the run ``run_id``, else the active run, else a new run.

    Returns the run's id. With ``own``, a new run is nested in the active run. ``texts``, ``tables`` and ``plots`` are
    artifacts by file name and replace artifacts with the same name. ``status`` sets the run's status. Raises
    ``RagMetricsError`` if writing fails.
    """
    files: dict[str, Content] = {
        **(texts or {}),
        **{name: table_json(table) for name, table in (tables or {}).items()},
        **{name: figure.savefig for name, figure in (plots or {}).items() if figure is not None},
    }
    with new_target(run_name) if own and run_id is None else target_run(run_id, run_name) as target:
        writer = RunWriter(target)
        writer.files(files, tables=list(tables or ()))
        writer.params(params or {})
        writer.figures(metrics or {})
        is_new = writer.present_tags().get(STATUS_TAG) == WRITING
        if status is not None or is_new:
            writer.tags({STATUS_TAG: status or (f"{COMPLETE}: no rows" if own else COMPLETE)})
    return target


def safe_name(name: str) -> str:
    """``name`` as part of a file's or metric's name: at most 60 ASCII letters, digits, ``_`` and ``-``."""
    return re.sub(r"[^\w\-]+", "_", name, flags=re.ASCII).strip("_")[:60] or "run"
