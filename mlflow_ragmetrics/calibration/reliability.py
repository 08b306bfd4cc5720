"""Reliability: the share of good rows by score, as bins and as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Bin", "reliability_bins", "reliability_plot"]


@dataclass(frozen=True)
class Bin:
    """Rows of neighbouring scores: their mean score, the share that is good, and how many they are."""

    score: float
    good: float
    rows: int


def reliability_bins(values: np.ndarray[Any, Any], good: np.ndarray[Any, Any], bins: int = 10) -> tuple[Bin, ...]:
    """At most ``bins`` bins of equal width over the range of the scores (0 to 1 where they lie in it), none empty."""
    low, high = min(0.0, float(values.min())), max(1.0, float(values.max()))
    place = np.minimum(((values - low) / (high - low) * bins).astype(int), bins - 1)
    return tuple(
        Bin(float(values[here].mean()), float(good[here].mean()), int(here.sum()))
        for each in range(bins)
        if (here := place == each).any()
    )


def reliability_plot(bins: Sequence[Bin], key: str, threshold: float) -> Figure | None:
    """The share of good rows by score of the metric ``key``, and how many rows there are; ``None`` without bins."""
    from matplotlib.figure import Figure

    if not bins:
        return None
    figure = Figure(figsize=(5.6, 4.4), layout="constrained", dpi=110)
    axes = figure.add_subplot(1, 1, 1)
    counts = axes.twinx()
    scores = [each.score for each in bins]
    counts.bar(scores, [each.rows for each in bins], width=0.06, color="#cfdcec", zorder=0)
    counts.set_ylabel("rows", fontsize=9)
    axes.set_zorder(counts.get_zorder() + 1)
    axes.patch.set_visible(False)
    axes.plot(scores, [each.good for each in bins], "o-", color="#3b7dd8")
    axes.axvline(threshold, color="#b3261e", linestyle="--", linewidth=1, label=f"threshold {threshold:g}")
    axes.set_xlabel(key, fontsize=9)
    axes.set_ylabel("share that people call good", fontsize=9)
    axes.set_ylim(-0.03, 1.03)
    axes.legend(fontsize=8)
    axes.set_title(f"{key}: {sum(each.rows for each in bins)} labelled rows", fontsize=10)
    return figure
