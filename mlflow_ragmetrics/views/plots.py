"""Plots for runs: score distributions, composites, differences between versions, reliability."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Literal

from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.views.text import signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mlflow_ragmetrics.calibration.result import Calibration
    from mlflow_ragmetrics.comparison.difference import Difference, Verdict
    from mlflow_ragmetrics.comparison.result import Comparison

__all__ = ["composite_plot", "distribution_plot", "png", "forest_plot", "reliability_plot"]

_BARS = "#3b7dd8"
_MEAN = "#1b1f24"
_COLUMNS = 3
_BINS = 20


def distribution_plot(scores: Mapping[str, Sequence[Score]]) -> Figure | None:
    """A histogram a metric, with its mean; ``None`` when nothing is scored."""
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
    labels = [f"{key} × {weights[key]:g}" for key in parts]
    bars = axes.barh(labels, [sum(column) / len(column) for column in parts.values()], color=_BARS)
    axes.bar_label(bars, fmt="%.3f", padding=3, fontsize=8)
    axes.set_xlim(0, 1.12)
    axes.invert_yaxis()
    axes.set_title(f"{name}: mean of its parts", fontsize=10)
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


_COLOURS: dict[Verdict, str] = {
    "improved": "#1a7f37",
    "regressed": "#b3261e",
    "unchanged": "#5b6570",
    "too few rows to tell": "#b08800",
}


def forest_plot(comparison: Comparison) -> Figure | None:
    """One line a metric, B minus A; ``None`` when no metric has an interval."""
    from matplotlib.figure import Figure

    shown = [each for each in comparison.differences if each.low is not None]
    if not shown:
        return None
    figure = Figure(figsize=(8.5, 1.4 + 0.36 * len(shown)), layout="constrained", dpi=110)
    axes = figure.add_subplot(1, 1, 1)
    axes.axvspan(-comparison.tolerance, comparison.tolerance, color="#eceff2")
    axes.axvline(0, color="#1b1f24", linewidth=0.8)
    for place, each in enumerate(shown):
        colour = _COLOURS[each.verdict]
        axes.hlines(place, each.low or 0.0, each.high or 0.0, color=colour, linewidth=2)
        axes.plot([each.difference or 0.0], [place], "o", color=colour, markersize=6)
    axes.set_yticks(range(len(shown)), [each.key for each in shown], fontsize=9)
    axes.set_xlabel(f"B − A with 95 % interval; grey: within ±{comparison.tolerance:g}", fontsize=9)
    axes.set_title(f"B = {comparison.name_b}, A = {comparison.name_a}".replace("$", r"\$"), fontsize=10)
    axes.invert_yaxis()
    verdicts = axes.secondary_yaxis("right")
    verdicts.set_yticks(range(len(shown)), [_told(each) for each in shown], fontsize=9)
    verdicts.tick_params(length=0)
    return figure


def _told(each: Difference) -> str:
    return f"{signed(each.difference)}  {each.verdict}"


_BARS, _LINE, _MARK = "#cfdcec", "#3b7dd8", "#b3261e"


def reliability_plot(calibration: Calibration) -> Figure | None:
    """The share of good rows by score, and how many rows there are; ``None`` for grades."""
    from matplotlib.figure import Figure

    if not calibration.bins:
        return None
    figure = Figure(figsize=(5.6, 4.4), layout="constrained", dpi=110)
    axes = figure.add_subplot(1, 1, 1)
    counts = axes.twinx()
    scores = [each.score for each in calibration.bins]
    counts.bar(scores, [each.rows for each in calibration.bins], width=0.06, color=_BARS, zorder=0)
    counts.set_ylabel("rows", fontsize=9)
    axes.set_zorder(counts.get_zorder() + 1)
    axes.patch.set_visible(False)
    axes.plot(scores, [each.good for each in calibration.bins], "o-", color=_LINE)
    label = f"threshold {calibration.threshold:g}"
    axes.axvline(calibration.threshold, color=_MARK, linestyle="--", linewidth=1, label=label)
    axes.set_xlabel(calibration.key, fontsize=9)
    axes.set_ylabel("share that people call good", fontsize=9)
    axes.set_ylim(-0.03, 1.03)
    axes.legend(fontsize=8)
    axes.set_title(f"{calibration.key}: {calibration.rows} labelled rows", fontsize=10)
    return figure
