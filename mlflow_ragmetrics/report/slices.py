"""The figures of parts of an evaluation: one slice for each value of a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from mlflow_ragmetrics.core.safe_text import as_json, plain
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.report.totals import Totals
from mlflow_ragmetrics.statistics.groups import FEW_GROUPS
from mlflow_ragmetrics.statistics.significance import holm, welch_tests

if TYPE_CHECKING:
    import pandas as pd

    from mlflow_ragmetrics.report.report import Report

_COLUMNS = ("slice", "metric", "rows", "mean", "ci_low", "ci_high", "p_holm", "mark")


def slices_frame(
    rows: Sequence[Row], totals: Totals, slices: Sequence[Union[str, None]], groups: Sequence[str] | None
) -> pd.DataFrame:
    """One row per slice and metric, as ``Report.by`` says; ``totals`` are those of all rows."""
    import pandas as pd

    labels = np.array(["" if name is None else name for name in slices], dtype=object)
    records: list[dict[str, Any]] = []
    p_values: list[Union[float, None]] = []
    for name in sorted({name for name in slices if name is not None}):
        inside = labels == name
        places = [int(place) for place in np.flatnonzero(inside)]
        own = Totals((rows[place] for place in places), totals.keys)
        figures = own.figures(None if groups is None else [groups[place] for place in places])
        p_values += welch_tests(totals.matrix, inside, None if groups is None else np.asarray(groups))
        for key in totals.keys:
            scored, measured = (int(figures[f"{key}/{count}"]) for count in ("n_scored", "n_measured"))
            few = "few groups" if f"{key}/few_groups" in figures else ""
            if groups is None and measured < FEW_GROUPS:
                few = "few rows"
            ruled = f"{measured} measured" if measured < scored else ""
            known = {figure: figures.get(f"{key}/{figure}") for figure in ("mean", "ci_low", "ci_high")}
            mark = ", ".join(filter(None, (few, ruled)))
            records.append({"slice": name, "metric": key, "rows": scored, **known, "mark": mark})
    tested = [place for place, p in enumerate(p_values) if p is not None]
    adjusted = holm([p for p in p_values if p is not None])
    for place, p in zip(tested, adjusted, strict=True):
        records[place]["p_holm"] = p
    frame = pd.DataFrame(records, columns=list(_COLUMNS))
    return frame.astype(dict.fromkeys(("mean", "ci_low", "ci_high", "p_holm"), "Float64"))


def slices_file(report: Report, columns: Sequence[str]) -> dict[str, str]:
    """The artifact with the figures of a report's slices by each of the columns; none without columns."""
    frames = [report.by(column).assign(by=column) for column in columns]
    records = [record for frame in frames for record in frame.to_dict("records")]
    return {"rag_slices.json": as_json(plain(records), indent=2)} if columns else {}
