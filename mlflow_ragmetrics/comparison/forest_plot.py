"""The differences of a comparison as a forest plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlflow_ragmetrics.comparison.difference import Difference, Verdict
from mlflow_ragmetrics.report.text import signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["forest_plot"]

_COLOURS: dict[Verdict, str] = {
    "improved": "#1a7f37",
    "regressed": "#b3261e",
    "changed": "#3b5bdb",
    "unchanged": "#5b6570",
    "too few rows to tell": "#b08800",
}


_SIDES = {False: "\n(lower is better)", None: "\n(neither is better)"}


def forest_plot(differences: Sequence[Difference], tolerance: float, title: str) -> Figure | None:
    """One line per metric, B minus A with its interval; ``None`` when no metric has an interval."""
    from matplotlib.figure import Figure

    shown = [each for each in differences if each.low is not None]
    if not shown:
        return None
    figure = Figure(figsize=(8.5, 1.4 + 0.36 * len(shown)), layout="constrained", dpi=110)
    axes = figure.add_subplot(1, 1, 1)
    axes.axvspan(-tolerance, tolerance, color="#eceff2")
    axes.axvline(0, color="#1b1f24", linewidth=0.8)
    for place, each in enumerate(shown):
        colour = _COLOURS[each.verdict]
        axes.hlines(place, each.low or 0.0, each.high or 0.0, color=colour, linewidth=2)
        axes.plot([each.difference or 0.0], [place], "o", color=colour, markersize=6)
    names = [each.key + _SIDES.get(each.higher_is_better, "") for each in shown]
    axes.set_yticks(range(len(shown)), names, fontsize=9)
    axes.set_xlabel(f"B − A with 95 % interval; grey: within ±{tolerance:g}", fontsize=9)
    axes.set_title(title.replace("$", r"\$"), fontsize=10)
    axes.invert_yaxis()
    labels = [f"{signed(each.difference)}  {each.verdict}" for each in shown]
    verdicts = axes.secondary_yaxis("right")
    verdicts.set_yticks(range(len(shown)), labels, fontsize=9)
    verdicts.tick_params(length=0)
    return figure
