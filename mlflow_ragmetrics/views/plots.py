"""Plots of an evaluation: the distribution of each metric's scores, and the parts of composites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Literal

from mlflow_ragmetrics.core.score import Score

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["causes_plot", "composite_plot", "distribution_plot", "plots_of", "png", "shares_plot"]

_BARS = "#3b7dd8"
_OTHER = "#d9822b"
_MEAN = "#1b1f24"
_COLUMNS = 3
_BINS = 20


def plots_of(
    scores: Mapping[str, Sequence[Score]], composites: Iterable[str], causes: Mapping[str, int]
) -> dict[str, bytes]:
    """The plots of a run by the names of their files: ``scores`` by key, those of ``composites``, and ``causes``."""
    figures = {"ragmetrics_scores.png": distribution_plot(scores)}
    figures |= {f"ragmetrics_{key}.png": composite_plot(key, scores[key]) for key in composites if key in scores}
    if causes:
        figures["ragmetrics_diagnosis.png"] = causes_plot({"": causes})
    return {name: png(figure) for name, figure in figures.items() if figure is not None}


def distribution_plot(scores: Mapping[str, Sequence[Score]]) -> Figure | None:
    """One histogram per metric, with its mean; ``None`` when nothing is scored."""
    values = {key: [score.value for score in column if score.value is not None] for key, column in scores.items()}
    values = {key: column for key, column in values.items() if column}
    if not values:
        return None
    across = min(len(values), _COLUMNS)
    down = -(-len(values) // _COLUMNS)
    width, height = across * 3.4, down * 2.3
    figure = _figure(width, height, None)  # these margins fit: searching for some takes as long as all the rest
    figure.subplots_adjust(0.45 / width, 0.3 / height, 1 - 0.2 / width, 1 - 0.45 / height, 0.25, 0.5)
    for position, (key, column) in enumerate(values.items(), 1):
        _draw_histogram(figure.add_subplot(down, across, position), key, column)
    return figure


def _draw_histogram(axes: Axes, key: str, values: Sequence[float]) -> None:
    mean = sum(values) / len(values)
    low, high = min(0.0, *values), max(1.0, *values)
    width = (high - low) / _BINS
    counts = Counter(min(_BINS - 1, int((value - low) / width)) for value in values)
    tallest = max(counts.values())
    edges = [low + number * width for number in range(_BINS + 1)]
    axes.stairs([counts[number] for number in range(_BINS)], edges, fill=True, color=_BARS)
    axes.axvline(mean, color=_MEAN, linewidth=1, linestyle="--")
    axes.set_title(f"{key}\nmean {mean:.3f}, n = {len(values)}", fontsize=9)
    axes.set_xticks(sorted({round(low, 1), 0.0, 0.5, 1.0, round(high, 1)}))
    axes.set_yticks([0, tallest])  # ticks that are given, not searched for, take half the time
    axes.tick_params(labelsize=8)


def composite_plot(name: str, scores: Sequence[Score]) -> Figure | None:
    """The mean of each weighted part of a composite, its weight beside it; ``None`` when nothing is scored."""
    parts: dict[str, list[float]] = {}
    weights: dict[str, float] = {}
    for score in scores:
        weights |= score.details.get("weights", {})
        for key, value in score.details.get("scores", {}).items():
            parts.setdefault(key, []).append(value)
    parts = {key: column for key, column in parts.items() if weights.get(key, 0) > 0}
    if not parts:
        return None
    figure = _figure(6.0, 0.9 + 0.45 * len(parts))
    axes = figure.add_subplot(1, 1, 1)
    inverted = {key for score in scores for key in score.details.get("inverted", ())}
    labels = [f"{f'1 − {key}' if key in inverted else key} × {weights[key]:g}" for key in parts]
    bars = axes.barh(labels, [sum(column) / len(column) for column in parts.values()], color=_BARS)
    axes.bar_label(bars, fmt="%.3f", padding=3, fontsize=8)
    axes.set_xlim(0, 1.12)
    axes.invert_yaxis()
    axes.set_title(f"{name}: mean of its parts", fontsize=10)
    axes.tick_params(labelsize=8)
    return figure


def causes_plot(causes: Mapping[str, Mapping[str, int]]) -> Figure | None:
    """How many rows have each diagnosis: a bar for each, or for two evaluations, named, one beside the other.

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
        colour = (_BARS, _OTHER)[place % 2] if len(causes) > 1 else _BARS
        bars = axes.barh(at, [counts.get(cause, 0) for cause in order], height, color=colour, label=name)
        axes.bar_label(bars, padding=3, fontsize=8)
    axes.set_yticks(range(len(order)), order, fontsize=9)
    axes.set_xlim(0, 1.15 * max(number for counts in causes.values() for number in counts.values()))
    axes.invert_yaxis()
    axes.set_title("Diagnosis: which part failed, rows", fontsize=10)
    axes.tick_params(labelsize=8)
    if len(causes) > 1:
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


def png(figure: Figure) -> bytes:
    """The figure as a PNG file."""
    picture = BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


def _figure(width: float, height: float, layout: Literal["constrained"] | None = "constrained") -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=layout, dpi=110)
