"""Plots of two evaluations' diagnoses and of what edits do to a score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["causes_plot", "shares_plot"]

_BARS = "#3b7dd8"
_OTHER = "#d9822b"
_MEAN = "#1b1f24"


def causes_plot(causes: Mapping[str, Mapping[str, int]]) -> Figure | None:
    """How many rows of two evaluations, named, have each diagnosis: a bar for each, one beside the other.

    Diagnoses that no row has are left out; ``None`` when there is none.
    """
    shown = list(dict.fromkeys(cause for counts in causes.values() for cause, number in counts.items() if number))
    if not shown:
        return None
    order = [cause for cause in next(iter(causes.values())) if cause in shown]
    figure = _figure(6.0, 0.9 + 0.4 * len(order) * len(causes))
    axes = figure.add_subplot(1, 1, 1)
    height = 0.8 / len(causes)
    for place, (name, counts) in enumerate(causes.items()):
        at = [row + (place - (len(causes) - 1) / 2) * height for row in range(len(order))]
        bars = axes.barh(
            at, [counts.get(cause, 0) for cause in order], height, color=(_BARS, _OTHER)[place], label=name
        )
        axes.bar_label(bars, padding=3, fontsize=8)
    axes.set_yticks(range(len(order)), order, fontsize=9)
    axes.set_xlim(0, 1.15 * max(number for counts in causes.values() for number in counts.values()))
    axes.invert_yaxis()
    axes.set_title("Diagnosis: which part failed, rows", fontsize=10)
    axes.tick_params(labelsize=8)
    axes.legend(fontsize=8)
    return figure


def shares_plot(
    shares: Mapping[str, tuple[float, float | None, float | None]], title: str, marked: str = ""
) -> Figure | None:
    """Shares from 0 to 1 as bars with their intervals; those whose name begins with ``marked`` in another colour."""
    if not shares:
        return None
    figure = _figure(6.4, 0.9 + 0.38 * len(shares))
    axes = figure.add_subplot(1, 1, 1)
    for place, (name, (share, low, high)) in enumerate(shares.items()):
        axes.barh(place, share, color=_OTHER if marked and name.startswith(marked) else _BARS)
        if low is not None and high is not None:
            axes.hlines(place, low, high, color=_MEAN, linewidth=1.5)
        axes.text(1.02, place, f"{share:.2f}", va="center", fontsize=8)
    axes.set_yticks(range(len(shares)), list(shares), fontsize=9)
    axes.set_xlim(0, 1.12)
    axes.invert_yaxis()
    axes.set_title(title, fontsize=10)
    axes.tick_params(labelsize=8)
    return figure


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", dpi=110)
