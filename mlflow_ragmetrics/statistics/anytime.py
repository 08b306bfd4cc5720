"""Intervals that stay valid however often one looks: the betting confidence sequence (Waudby-Smith and Ramdas 2023).

Two gamblers bet on each value that the mean is above, or below, m; for the true mean neither grows 1/α times as rich,
but with probability α, ever. The means for which one did are out, for good.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from mlflow_ragmetrics.statistics.resampling import Matrix, Vector

__all__ = ["ConfidenceSequence"]

_POINTS = 1000
_BLOCK = 256
_LARGEST_STAKE = 0.5


class ConfidenceSequence:
    """The interval of the mean of values between ``low`` and ``high`` that come one by one, or in batches.

    With probability ``level`` all of its intervals, after whatever number of values, hold the mean: of values that are
    independent, or more generally have the same mean given those before. Paired differences of scores from 0 to 1 have
    ``low=-1, high=1``. Limits are exact to a thousandth of the range, and rounded outwards. ``ValueError`` for a range
    without length and a level outside 0 to 1.

    >>> sequence = ConfidenceSequence()
    >>> sequence.update([0.9] * 100)
    >>> low, high = sequence.interval()
    >>> 0.7 < low < 0.9 < high
    True
    """

    def __init__(self, *, low: float = 0.0, high: float = 1.0, level: float = 0.95) -> None:
        if not -math.inf < low < high < math.inf or not 0 < level < 1:
            raise ValueError(f"low={low} must lie below high={high}, and level={level} between 0 and 1")
        self.low, self.high, self.level = low, high, level
        self.count = 0
        self._sum = 0.5
        self._squares = 0.25
        self._first = 0
        self._rising: Vector = np.zeros(_POINTS + 1)
        self._falling: Vector = np.zeros(_POINTS + 1)
        self.drifted = False
        """Whether every mean was excluded, which values of one mean hardly ever do: the last interval is kept."""

    @property
    def mean(self) -> Union[float, None]:
        """The mean of the values so far."""
        return self.low + (self._sum - 0.5) / self.count * (self.high - self.low) if self.count else None

    def update(self, values: Union[float, Sequence[float], NDArray[Any]]) -> None:
        """Take in one value or several, in the order in which they came; NaN does not count.

        The interval is the same as if they had come one by one. ``ValueError`` for a value outside the range, and none
        is then taken in.
        """
        given = np.atleast_1d(np.asarray(values, dtype=float))
        given = given[~np.isnan(given)]
        shares = (given - self.low) / (self.high - self.low)
        if ((shares < -1e-9) | (shares > 1 + 1e-9)).any():
            raise ValueError(f"values must lie in {self.low:g} to {self.high:g}")
        shares = np.clip(shares, 0.0, 1.0)
        for start in range(0, shares.size, _BLOCK):
            self._take(shares[start : start + _BLOCK])

    def interval(self) -> tuple[float, float]:
        """The interval so far; that of all values that are possible before the first one."""
        last = self._first + self._rising.size - 1
        ends = max(self._first - 1, 0) / _POINTS, min(last + 1, _POINTS) / _POINTS
        low, high = (self.low + end * (self.high - self.low) for end in ends)
        return low, high

    def to_dict(self) -> dict[str, Any]:
        """The state as plain numbers and lists, for JSON; ``from_dict`` goes on from it."""
        return {
            "low": self.low,
            "high": self.high,
            "level": self.level,
            "count": self.count,
            "sum": self._sum,
            "squares": self._squares,
            "first": self._first,
            "rising": self._rising.tolist(),
            "falling": self._falling.tolist(),
            "drifted": self.drifted,
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> ConfidenceSequence:
        """The sequence of which ``to_dict`` gave the state."""
        sequence = cls(low=state["low"], high=state["high"], level=state["level"])
        sequence.count, sequence._sum, sequence._squares = state["count"], state["sum"], state["squares"]
        sequence._first, sequence.drifted = state["first"], state["drifted"]
        sequence._rising = np.array(state["rising"], dtype=float)
        sequence._falling = np.array(state["falling"], dtype=float)
        return sequence

    def _take(self, shares: Vector) -> None:
        stakes = self._stakes(shares)[:, None]
        if self.drifted:
            return
        means = np.arange(self._first, self._first + self._rising.size) / _POINTS
        gaps = shares[:, None] - means
        with np.errstate(divide="ignore"):
            up = np.minimum(stakes, _LARGEST_STAKE / means) * gaps
            down = np.minimum(stakes, _LARGEST_STAKE / (1 - means)) * gaps
        rising, falling = _added(self._rising, np.log1p(up)), _added(self._falling, np.log1p(-down))
        limit = math.log(2 / (1 - self.level))
        left = np.flatnonzero((rising.max(axis=0) < limit) & (falling.max(axis=0) < limit))
        if not left.size:
            self.drifted = True
            return
        kept = slice(int(left[0]), int(left[-1]) + 1)
        self._rising, self._falling = rising[-1, kept], falling[-1, kept]
        self._first += int(left[0])

    def _stakes(self, shares: Vector) -> Vector:
        """The predictable plug-in stakes: each knows of the values before it only."""
        numbers = self.count + 1 + np.arange(shares.size)
        sums = self._sum + np.cumsum(shares)
        squares = self._squares + np.cumsum((shares - sums / (numbers + 1)) ** 2)
        before = np.concatenate([[self._squares], squares[:-1]]) / numbers
        stakes: Vector = np.sqrt(2 * math.log(2 / (1 - self.level)) / (before * numbers * np.log1p(numbers)))
        self.count, self._sum, self._squares = self.count + shares.size, float(sums[-1]), float(squares[-1])
        return stakes


def _added(start: Vector, gains: Matrix) -> Matrix:
    total: Matrix = start + np.cumsum(gains, axis=0)
    return total
