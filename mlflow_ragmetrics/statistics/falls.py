"""Has a mean fallen: a test that may be asked as often as one likes, and whose fall it is, the system's or the judge's.

Bets that the mean has fallen (Shin, Ramdas and Rinaldo 2022) start at every look with a share of one unit; what they
have won is an e-process: it reaches 1/α with probability α at most, ever, while the mean is what it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union

import numpy as np
from scipy import stats

from mlflow_ragmetrics.statistics.anytime import ConfidenceSequence

__all__ = ["Cause", "FallDetector", "Moments", "Shift", "cause_of", "paired_shift", "shift_between", "since_when"]

Cause = Literal["system", "judge", "system and judge", "not known"]

_STAKES = np.array([0.03, 0.1, 0.2, 0.4, 0.8])
"""How much of what may be staked: larger stakes find large falls sooner, small ones small falls at all."""
_MOST = 600.0
_HIGHEST_FLOOR = 0.999


class FallDetector:
    """Whether the mean of values between ``low`` and ``high``, that come look by look, is lower than it was.

    While all values have one mean given those before, ``fallen`` becomes true with probability ``error`` at most,
    after however many looks. The floor below which the mean counts as fallen is the lower limit of a confidence
    sequence of the values so far, which takes half of ``error``; a ``floor`` that is given is a limit that the mean
    must keep. Once fallen, it stays so.

    >>> detector = FallDetector()
    >>> for _ in range(40):
    ...     detector.update([0.9, 1.0, 0.8])
    >>> detector.fallen
    False
    >>> for _ in range(20):
    ...     detector.update([0.5, 0.6, 0.4])
    >>> detector.fallen
    True
    """

    def __init__(
        self, *, low: float = 0.0, high: float = 1.0, error: float = 0.05, floor: Union[float, None] = None
    ) -> None:
        if not 0 < error < 1:
            raise ValueError(f"error={error} must lie between 0 and 1")
        if floor is not None and not low <= floor <= high:
            raise ValueError(f"floor={floor} must lie in {low:g} to {high:g}")
        self.low, self.high, self.error = low, high, error
        self.fallen = False
        self.looks = 0
        self._given = floor
        self._sequence = ConfidenceSequence(low=low, high=high, level=1 - error)
        self._wealth = np.zeros(_STAKES.size)

    @property
    def floor(self) -> float:
        """Below which the mean of the next look counts as fallen."""
        return self._sequence.interval()[0] if self._given is None else self._given

    def update(self, values: Sequence[float]) -> None:
        """Take in one look's values; NaN does not count. ``ValueError`` for one outside the range."""
        given = np.asarray(values, dtype=float)
        given = given[~np.isnan(given)]
        if not given.size or self.fallen:
            return
        if ((given < self.low - 1e-9) | (given > self.high + 1e-9)).any():
            raise ValueError(f"values must lie in {self.low:g} to {self.high:g}")
        shares = np.clip((given - self.low) / (self.high - self.low), 0.0, 1.0)
        floor = min((self.floor - self.low) / (self.high - self.low), _HIGHEST_FLOOR)
        self.looks += 1
        # shares of one unit: 1/log2(n + 1) − 1/log2(n + 2) for the n-th look, which sum to one
        unspent = 1 / math.log2(self.looks + 2)
        stakes = _STAKES / (1 - floor)
        gains = np.log1p(stakes[:, None] * (floor - shares)).sum(axis=1) if floor > 0 else np.zeros(_STAKES.size)
        self._wealth = (self._wealth + 1 / math.log2(self.looks + 1) - unspent) * np.exp(np.minimum(gains, _MOST))
        alarm = 1 / self.error if self._given is not None else 2 / self.error
        self.fallen = bool(self._wealth.mean() + unspent >= alarm)
        if self._given is None and not self.fallen:
            self._sequence.update(given)

    def to_dict(self) -> dict[str, Any]:
        """The state as plain numbers and lists, for JSON; ``from_dict`` goes on from it."""
        return {
            "low": self.low,
            "high": self.high,
            "error": self.error,
            "floor": self._given,
            "fallen": self.fallen,
            "looks": self.looks,
            "wealth": self._wealth.tolist(),
            "sequence": self._sequence.to_dict(),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> FallDetector:
        """The detector of which ``to_dict`` gave the state."""
        made = cls(low=state["low"], high=state["high"], error=state["error"], floor=state["floor"])
        made.fallen, made.looks = state["fallen"], state["looks"]
        made._wealth = np.array(state["wealth"], dtype=float)
        made._sequence = ConfidenceSequence.from_dict(state["sequence"])
        return made


@dataclass(frozen=True)
class Moments:
    """How many values there were, their sum and the sum of their squares."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, values: Sequence[float]) -> Moments:
        """Those of ``values``, of which NaN does not count."""
        there = [value for value in values if not math.isnan(value)]
        return cls(len(there), math.fsum(there), math.fsum(value * value for value in there))

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.count + other.count, self.total + other.total, self.squares + other.squares)

    @property
    def mean(self) -> float:
        """NaN without values."""
        return self.total / self.count if self.count else math.nan

    @property
    def variance(self) -> float:
        """Of a value, without bias; NaN below two."""
        return max(0.0, self.squares - self.total * self.mean) / (self.count - 1) if self.count > 1 else math.nan


@dataclass(frozen=True)
class Shift:
    """By how much a mean is lower than before (negative: higher), and the half-width of its 95 % interval."""

    size: float
    margin: float

    @property
    def low(self) -> float:
        """The lower end."""
        return self.size - self.margin

    @property
    def high(self) -> float:
        """The upper end."""
        return self.size + self.margin


def shift_between(before: Moments, after: Moments) -> Union[Shift, None]:
    """Welch's interval of how far the mean has fallen; ``None`` where either has fewer than two values."""
    if before.count < 2 or after.count < 2:
        return None
    parts = before.variance / before.count, after.variance / after.count
    return Shift(before.mean - after.mean, _quantile(parts, (before.count, after.count)) * math.sqrt(sum(parts)))


def _quantile(parts: tuple[float, float], counts: tuple[int, int]) -> float:
    """That of Student's t by Welch and Satterthwaite."""
    below = sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    return float(stats.t.ppf(0.975, sum(parts) ** 2 / below)) if below > 0 else 1.96


def paired_shift(before: Sequence[float], after: Sequence[float]) -> Union[Shift, None]:
    """How far the same things' scores have fallen, over the things; ``None`` where fewer than two have both."""
    falls = Moments.of([old - new for old, new in zip(before, after, strict=True)])
    if falls.count < 2:
        return None
    width = float(stats.t.ppf(0.975, falls.count - 1)) * math.sqrt(falls.variance / falls.count)
    return Shift(falls.mean, width)


_SHARE = 0.25
"""Who accounts for less than this share of a fall has not changed for what it matters."""


def cause_of(fall: Union[Shift, None], judge: Union[Shift, None]) -> Cause:
    """Whose fall it is: ``fall`` is that of the live scores, ``judge`` that of the scores of rows that never change.

    The judge has changed where its interval does not hold 0 and it accounts for a quarter of the fall; the system where
    what the judge does not explain is, with its interval, above a quarter of it. Without both shifts, and where neither
    shows, it is not known.
    """
    if judge is None:
        return "not known"
    judge_moved = judge.low > 0 or judge.high < 0
    system_moved = False
    if fall is not None and fall.low > 0:
        rest = Shift(fall.size - judge.size, math.hypot(fall.margin, judge.margin))
        system_moved = rest.low > _SHARE * fall.size
        judge_moved = judge_moved and abs(judge.size) >= _SHARE * fall.size
    if system_moved:
        return "system and judge" if judge_moved else "system"
    return "judge" if judge_moved else "not known"


def since_when(looks: Sequence[Moments], floor: float) -> int:
    """From which look on the values lie below ``floor``, most likely: the largest sum of what is missing to it."""
    best, place, missing = 0.0, max(len(looks) - 1, 0), 0.0
    for number in range(len(looks) - 1, -1, -1):
        missing += floor * looks[number].count - looks[number].total
        if missing > best:
            best, place = missing, number
    return place
