"""Scores in bins, with the share of rows that people call good in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Bin", "reliability"]

_BINS = 10


@dataclass(frozen=True)
class Bin:
    """Rows of neighbouring scores: their mean score, the share that is good, and how many they are."""

    score: float
    good: float
    rows: int


def reliability(values: np.ndarray[Any, Any], good: np.ndarray[Any, Any], bins: int = _BINS) -> tuple[Bin, ...]:
    """At most ``bins`` bins of equal width over the range of the scores (0 to 1 where they lie in it), none empty."""
    low, high = min(0.0, float(values.min())), max(1.0, float(values.max()))
    place = np.minimum(((values - low) / (high - low) * bins).astype(int), bins - 1)
    return tuple(
        Bin(float(values[here].mean()), float(good[here].mean()), int(here.sum()))
        for each in range(bins)
        if (here := place == each).any()
    )
