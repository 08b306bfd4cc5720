"""The reliability plot: do rows of higher scores deserve them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mlflow_ragmetrics.calibration.result import Calibration

__all__ = ["reliability_plot"]

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
