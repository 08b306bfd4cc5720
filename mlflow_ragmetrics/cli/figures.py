"""The table of run figures in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mlflow_ragmetrics.cli.terminal import kept

if TYPE_CHECKING:
    from rich.table import Table

    from mlflow_ragmetrics.report import Report

__all__ = ["composite_lines", "figures_table", "other_figures"]

_COUNTS = ("scored", "skipped", "error")
_NONE = "–"


def figures_table(report: Report) -> Table:
    """One line a metric: mean, 95 % interval, 1–5 value, share that passed, and how many rows were scored."""
    from rich import box
    from rich.table import Table

    figures = report.metrics
    optional = {"1–5": "{}_1to5/mean", "passed": "{}/pass_rate"}
    shown = {title: name for title, name in optional.items() if any(name.format(key) in figures for key in report.keys)}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    table.add_column("metric", no_wrap=True)
    for title in ("mean", "95 % interval", *shown, "scored", "skipped", "failed"):
        table.add_column(title, justify="right", no_wrap=True)
    for key in report.keys:
        cells = [_number(figures, f"{key}/mean"), _interval(figures, key)]
        if "1–5" in shown:
            cells.append(_number(figures, f"{key}_1to5/mean", ".1f"))
        if "passed" in shown:
            cells.append(_number(figures, f"{key}/pass_rate", ".0%"))
        counts = [str(int(figures.get(f"{key}/n_{count}", 0))) for count in _COUNTS]
        table.add_row(key, *cells, *counts, style=_style(counts))
    return table


def composite_lines(report: Report) -> list[str]:
    """How each composite is made up, and how much of its weight had scores where that is not all."""
    lines = []
    weights: Mapping[str, Mapping[str, float]] = report.description.get("weights", {})
    for key, shares in weights.items():
        total = sum(shares.values())
        parts = " + ".join(kept(f"{share / total:.3g} {name}") for name, share in shares.items() if share)
        lines.append(f"{key} = {parts}" if total else key)
        coverage = report.metrics.get(f"{key}/coverage", 1.0)
        if coverage < 1.0:
            lines.append(f"  on average {coverage:.0%} of these weights had a score; the rest counts in proportion")
    return lines


def other_figures(report: Report) -> list[str]:
    """Figures of a whole run that are no metric's mean, such as the share of rows with every document found."""
    names = [name for name in report.metrics if name.startswith("pct_")]
    lines = [f"{name} = {report.metrics[name]:.1f}" for name in names]
    for key in report.keys:
        without = int(report.metrics.get(f"{key}/n_no_context", 0))
        if without:
            lines.append(f"{key}: {without} of {len(report)} rows had no context to verify")
    return lines


def _number(figures: Mapping[str, float], name: str, form: str = ".3f") -> str:
    return format(figures[name], form) if name in figures else _NONE


def _interval(figures: Mapping[str, float], key: str) -> str:
    low, high = figures.get(f"{key}/ci_low"), figures.get(f"{key}/ci_high")
    return _NONE if low is None or high is None else f"{low:.3f}–{high:.3f}"


def _style(counts: Sequence[str]) -> str | None:
    scored, _, failed = counts
    if failed != "0":
        return "red"
    return "dim" if scored == "0" else None
