"""Results in a notebook's cell: evaluations with their worst rows, suites, comparisons, calibrations, plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlflow_ragmetrics.core.html import render
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.report.text import measured_figures

__all__ = ["Folded", "Line", "Table", "cell", "report_cell"]

_COLUMNS = {
    "mean": ("{}/mean", "{:.3f}"),
    "from": ("{}/ci_low", "{:.3f}"),
    "to": ("{}/ci_high", "{:.3f}"),
    "1–5": ("{}_1to5/mean", "{:.1f}"),
    "passed": ("{}/pass_rate", "{:.0%}"),
    "scored": ("{}/n_scored", "{:.0f}"),
    "measured": ("{}/n_measured", "{:.0f}"),
    "skipped": ("{}/n_skipped", "{:.0f}"),
    "failed": ("{}/n_error", "{:.0f}"),
    "groups": ("{}/n_groups", "{:.0f}"),
    "design effect": ("{}/design_effect", "{:.1f}"),
    "few groups": ("{}/few_groups", "yes"),
}


def report_cell(
    keys: Sequence[str],
    metrics: Mapping[str, float],
    warnings: Sequence[str],
    rows: int,
    worst: Sequence[Row],
    *,
    worst_by: str = "",
    banner: Sequence[str] = (),
    causes: Mapping[str, int] | None = None,
) -> str:
    """HTML for one cell; ``metrics`` are a report's figures, ``worst`` its rows to look at first, ``worst_by`` says
    which: "lowest by rag_score".

    ``banner`` are lines that must be read with the figures, ``causes`` how many rows have each diagnosis.
    """
    metrics = measured_figures(metrics, keys)
    return render(
        "report/notebook.html",
        keys=keys,
        metrics=metrics,
        columns={
            title: (name, form)
            for title, (name, form) in _COLUMNS.items()
            if any(name.format(key) in metrics for key in keys)
        },
        warnings=warnings,
        rows=rows,
        worst=worst,
        worst_by=worst_by,
        banner=banner,
        causes=[f"{cause} {number}" for cause, number in (causes or {}).items() if number],
    )


@dataclass(frozen=True)
class Line:
    """A line of words; ``style``: good, middling, bad, faint or none."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class Table:
    """Columns, rows of cells, which columns hold ``numbers``, and the style of cells by what they say."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[str] = ()
    styles: Mapping[Any, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Folded:
    """Lines under a title that unfolds them."""

    title: str
    lines: Sequence[str]


def cell(
    title: str = "",
    lines: Sequence[Line] = (),
    tables: Sequence[Table] = (),
    *,
    notes: Sequence[str] = (),
    folded: Sequence[Folded] = (),
) -> str:
    """HTML for one cell, for light and dark notebooks; every text is escaped."""
    return render("report/cell.html", title=title, lines=lines, tables=tables, notes=notes, folded=folded)
