"""Intervals of means and of paired differences over grouped rows.

Below 40 groups: cluster-robust t, with the CR2 variance and its degrees of freedom (Bell and McCaffrey 2002). From 40
groups on: the bootstrap of whole groups (Davison and Hinkley 1997, 3.8), of Student's t for means, whose scores are
skewed near the ends of their scale, and BCa at levels widened by those degrees of freedom for differences, which have
long tails. Scores of 0 and 1 below 40 groups, or with a minority in fewer than six, have Wilson's interval for their
effective rows (Korn and Graubard 1998), and differences that fewer than fifteen groups have Agresti and Min's. Beyond
1,000 groups the bootstrap's limits are read from their Edgeworth expansion (Hall 1992).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

import numpy as np
from scipy.special import stdtrit

from mlflow_ragmetrics.statistics.bca import bca_limits, edgeworth_limits, orientation
from mlflow_ragmetrics.statistics.closed_forms import agresti_min_interval, wilson_limits
from mlflow_ragmetrics.statistics.groups import Codes, GroupTotals, in_order
from mlflow_ragmetrics.statistics.resampling import Matrix, Vector, bootstrap_weights, exact_columns

__all__ = ["BOOTSTRAP_GROUPS", "MANY_GROUPS", "cluster_difference_intervals", "cluster_mean_intervals"]

BOOTSTRAP_GROUPS = 40
MANY_GROUPS = 1_000
_FEW_CHANGES = 15
_FEW_OF_MINORITY = 6
Interval = Union[tuple[float, float], None]


def cluster_mean_intervals(totals: GroupTotals, *, level: float, resamples: int, seed: int) -> list[Interval]:
    """The interval of each column's mean; ``None`` for fewer than two groups with a score."""
    deviates = stdtrit(totals.degrees, (1 + level) / 2)
    minority = np.minimum(_differing(totals, 0.0), _differing(totals, 1.0))
    use_wilson = totals.is_binary & ((totals.groups < BOOTSTRAP_GROUPS) | (minority < _FEW_OF_MINORITY))
    found: list[Interval] = [None] * totals.means.size
    for place in np.flatnonzero(use_wilson & (totals.groups > 1)):
        rows = float(totals.effective_rows[place])
        found[place] = wilson_limits(float(totals.means[place]), rows, float(deviates[place]))
    floor = np.where(totals.least >= 0, 0.0, -1.0)
    return _completed(found, totals, floor, _Bootstrap(True, level, resamples, seed))


def cluster_difference_intervals(totals: GroupTotals, *, level: float, resamples: int, seed: int) -> list[Interval]:
    """The interval of each column's mean, where the columns are paired differences; (0, 0) without any difference."""
    deviates = stdtrit(totals.degrees, (1 + level) / 2)
    largest = np.maximum(np.abs(totals.least), np.abs(totals.most))
    changed = _differing(totals, 0.0)
    few = changed < np.minimum(_FEW_CHANGES, totals.groups)
    found: list[Interval] = [None] * totals.means.size
    for place in np.flatnonzero(few & (totals.groups > 1)):
        if largest[place] == 0:
            found[place] = 0.0, 0.0
            continue
        mean, rows = float(totals.means[place]), float(totals.effective_rows[place])
        mean_square = float(totals.squares[place] / totals.rows[place]) + mean**2
        found[place] = agresti_min_interval(mean, mean_square, rows, float(largest[place]), float(deviates[place]))
    floor = np.full_like(totals.means, -1.0)
    return _completed(found, totals, floor, _Bootstrap(False, level, resamples, seed))


def _differing(totals: GroupTotals, value: float) -> Vector:
    """How many groups have a mean other than ``value``."""
    sums = totals.residuals + totals.counts * (totals.means - value)[:, None]
    number: Vector = (np.abs(sums) > 1e-9 * totals.counts).sum(axis=1).astype(float)
    return number


@dataclass(frozen=True)
class _Bootstrap:
    studentized: bool
    level: float
    resamples: int
    seed: int

    def limits(self, counts: Matrix, residuals: Matrix, tail: Vector) -> tuple[Vector, Vector]:
        """The limits of each column of groups × columns, relative to its mean."""
        if counts.shape[0] > MANY_GROUPS:
            return edgeworth_limits(residuals, counts.sum(axis=0), tail)
        exact, squares = exact_columns(residuals), exact_columns(residuals**2)
        products, sizes = exact_columns(residuals * counts), counts**2
        means, errors = [], []
        for weights in bootstrap_weights(counts.shape[0], self.resamples, self.seed):
            rows = np.maximum(weights @ counts, 1.0)
            mean = (weights @ exact) / rows
            means.append(mean)
            if self.studentized:
                around = weights @ squares - 2 * mean * (weights @ products) + mean**2 * (weights @ sizes)
                errors.append(np.sqrt(np.maximum(around, 0.0)) / rows)
        if not self.studentized:
            return bca_limits(np.concatenate(means), residuals, tail)
        error = np.sqrt((residuals**2).sum(axis=0)) / counts.sum(axis=0)
        # A resample of equal groups has no error: it counts as farther off than any other.
        ratios = np.concatenate(means) / np.maximum(np.concatenate(errors), np.maximum(1e-6 * error, 1e-300))
        ends = np.quantile(ratios, [(1 + self.level) / 2, (1 - self.level) / 2], axis=0, method="weibull")
        return -ends[0] * error, -ends[1] * error


def _completed(found: list[Interval], totals: GroupTotals, floor: Vector, bootstrap: _Bootstrap) -> list[Interval]:
    missing = np.array([interval is None for interval in found]) & (totals.groups > 1)
    by_t = missing & (totals.groups < BOOTSTRAP_GROUPS)
    deviates = stdtrit(totals.degrees, (1 + bootstrap.level) / 2)
    halves = deviates * np.sqrt(totals.variances)
    for place in np.flatnonzero(by_t):
        mean, half = float(totals.means[place]), float(halves[place])
        # Scores of a scale from 0 to 1, or -1 to 1, have limits on it.
        on_scale = floor[place] <= totals.least[place] and totals.most[place] <= 1
        least, most = (float(floor[place]), 1.0) if on_scale else (-np.inf, np.inf)
        found[place] = max(least, mean - half), min(most, mean + half)
    places = np.flatnonzero(missing & ~by_t)
    if places.size:
        lows, highs = _resampled(totals, places, deviates[places], bootstrap)
        for place, low, high in zip(places, lows, highs, strict=True):
            found[place] = float(low), float(high)
    return found


def _resampled(totals: GroupTotals, places: Codes, deviates: Vector, bootstrap: _Bootstrap) -> tuple[Vector, Vector]:
    signs = orientation(totals.residuals[places].T)
    counts, residuals = (each.T for each in in_order(totals.counts[places], totals.residuals[places] * signs[:, None]))
    means, groups = totals.means[places], totals.groups[places]
    low, high = bootstrap.limits(counts, residuals, deviates * np.sqrt(groups / (groups - 1)))
    low, high = np.where(signs < 0, -high, low), np.where(signs < 0, -low, high)
    least, most = totals.least[places], totals.most[places]
    return np.clip(means + low, least, means), np.clip(means + high, means, most)
