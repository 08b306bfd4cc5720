"""Intervals of shares and of their differences, where resampling is blind."""

from __future__ import annotations

import math

from scipy.special import ndtri

__all__ = ["agresti_min_interval", "wilson_interval", "wilson_limits"]


def wilson_interval(share: float, rows: int, level: float) -> tuple[float, float]:
    """The interval of the mean of so many scores that are 0 or 1 (Wilson 1927)."""
    return wilson_limits(share, rows, float(ndtri((1 + level) / 2)))


def wilson_limits(share: float, rows: float, deviate: float) -> tuple[float, float]:
    """Wilson's interval for a number of rows that need not be whole (Korn and Graubard 1998: the effective rows of
    grouped or weighted ones), where ``deviate`` is the quantile of the normal or Student's distribution."""
    square = deviate * deviate
    middle = (share + square / (2 * rows)) / (1 + square / rows)
    half = deviate / (1 + square / rows) * math.sqrt(share * (1 - share) / rows + square / (4 * rows * rows))
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def agresti_min_interval(
    mean: float, mean_square: float, rows: float, largest: float, deviate: float
) -> tuple[float, float]:
    """The interval of the mean of paired differences of at most ``largest`` (Agresti and Min 2005).

    The normal interval after adding two rows: half of one for better, half for worse, one for no difference.
    ``mean_square`` is that of the differences themselves; ``rows`` may be effective ones.
    """
    middle = rows * mean / (rows + 2)
    variance = (rows * mean_square + largest**2) / (rows + 2) - middle**2
    half = deviate * math.sqrt(max(0.0, variance) / (rows + 2))
    return max(-largest, min(mean, middle - half)), min(largest, max(mean, middle + half))
