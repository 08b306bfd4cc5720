"""The figures of parts of an evaluation: one slice for each value of a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from mlflow_ragmetrics.core.json_text import as_json, plain
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.report.summary import score_matrix
from mlflow_ragmetrics.statistics.groups import FEW_GROUPS, describe_groups
from mlflow_ragmetrics.statistics.intervals import bootstrap_intervals
from mlflow_ragmetrics.statistics.significance import holm, welch_tests

if TYPE_CHECKING:
    import pandas as pd

    from mlflow_ragmetrics.report.report import Report

_COLUMNS = ("slice", "metric", "rows", "mean", "ci_low", "ci_high", "p_holm", "mark")


def slices_frame(rows: Sequence[Row], slices: Sequence[Union[str, None]], groups: Sequence[str] | None) -> pd.DataFrame:
    """One row per slice and metric, as ``Report.by`` says."""
    import pandas as pd

    keys = list(dict.fromkeys(key for row in rows for key in row.scores))
    matrix = score_matrix([[row.scores.get(key) for row in rows] for key in keys])
    labels = np.array(["" if name is None else name for name in slices], dtype=object)
    names = np.arange(len(rows)) if groups is None else np.asarray(groups)
    records: list[dict[str, Any]] = []
    p_values: list[Union[float, None]] = []
    for each in sorted({name for name in slices if name is not None}):
        inside = labels == each
        own, own_names = matrix[inside], names[inside]
        intervals = bootstrap_intervals(list(own.T), groups=None if groups is None else own_names)
        counts = [int(number) for number in (~np.isnan(own)).sum(axis=0)]
        effective = counts if groups is None else [each.effective_groups for each in describe_groups(own, own_names)]
        measured = {
            key: sum(_is_measured(row, key) for row, here in zip(rows, inside, strict=True) if here) for key in keys
        }
        p_values += welch_tests(matrix, inside, None if groups is None else names)
        for key, column, interval, number in zip(keys, own.T, intervals, effective, strict=True):
            scored = np.sort(column[~np.isnan(column)])
            few = ("few rows" if groups is None else "few groups") if number < FEW_GROUPS else ""
            ruled = f"{measured[key]} measured" if measured[key] < scored.size else ""
            records.append(
                {
                    "slice": each,
                    "metric": key,
                    "rows": scored.size,
                    "mean": float(scored.mean()) if scored.size else None,
                    "ci_low": interval[0] if interval else None,
                    "ci_high": interval[1] if interval else None,
                    "mark": ", ".join(filter(None, (few, ruled))),
                }
            )
    tested = [place for place, p in enumerate(p_values) if p is not None]
    adjusted = holm([p for p in p_values if p is not None])
    for place, p in zip(tested, adjusted, strict=True):
        records[place]["p_holm"] = p
    frame = pd.DataFrame(records, columns=list(_COLUMNS))
    numbers = ("mean", "ci_low", "ci_high", "p_holm")
    return frame.astype(dict.fromkeys(numbers, "Float64"))


def slices_file(report: Report, columns: Sequence[str]) -> dict[str, str]:
    """The artifact with the figures of a report's slices by each of the columns; none without columns."""
    frames = [report.by(column).assign(by=column) for column in columns]
    records = [record for frame in frames for record in frame.to_dict("records")]
    return {"rag_slices.json": as_json(plain(records), indent=2)} if columns else {}


def _is_measured(row: Row, key: str) -> bool:
    return key in row.scores and row.scores[key].measured
