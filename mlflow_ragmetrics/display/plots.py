"""A plot of figures with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from mlflow_ragmetrics.display.document import Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_COLOURS = {"good": "#1a7f37", "bad": "#b3261e", "middling": "#b08800", "faint": "#5b6570"}


class Drawn(NamedTuple):
    """A figure to draw: name, value, optional interval, label and style."""

    name: str
    value: float
    low: float | None
    high: float | None
    label: str
    style: Style = ""


def intervals_plot(
    figures: Sequence[Drawn], title: str, about: str, band: tuple[float, float] | None = None
) -> Figure | None:
    """One line per figure, from top to bottom, over a grey ``band``; ``None`` without figures.

    ``about``: the label of the axis.
    """
    from matplotlib.figure import Figure

    if not figures:
        return None
    figure = Figure(figsize=(8.5, 1.4 + 0.36 * len(figures)), layout="constrained", dpi=110)
    axes = figure.add_subplot(1, 1, 1)
    if band is not None:
        axes.axvspan(*band, color="#eceff2")
    axes.axvline(0, color="#1b1f24", linewidth=0.8)
    for place, each in enumerate(figures):
        colour = _COLOURS.get(each.style, "#3b5bdb")
        if each.low is not None and each.high is not None:
            axes.hlines(place, each.low, each.high, color=colour, linewidth=2)
        axes.plot([each.value], [place], "o", color=colour, markersize=6)
    axes.set_yticks(range(len(figures)), [each.name for each in figures], fontsize=9)
    axes.set_xlabel(about, fontsize=9)
    axes.set_title(title.replace("$", r"\$"), fontsize=10)
    axes.invert_yaxis()
    labels = axes.secondary_yaxis("right")
    labels.set_yticks(range(len(figures)), [each.label for each in figures], fontsize=9)
    labels.tick_params(length=0)
    return figure
