"""Confidence intervals of means, paired differences and mean labels, over rows or groups of rows.

The default is the BCa bootstrap (Efron 1987) over rows, at a level widened for small samples (Hesterberg 2015: the
normal quantile becomes √(n/(n−1)) times that of Student's t). Fewer than 40 groups have a cluster-robust t interval
(CR2 with its degrees of freedom, Bell and McCaffrey 2002). With 40 groups or more, whole groups are resampled (for
means with the studentized bootstrap, Davison and Hinkley 1997).

Closed forms replace the bootstrap if resampling fails: Wilson (1927) for the mean of scores of only 0 and 1, with
effective rows for groups (Korn and Graubard 1998); Agresti and Min (2005) for differences of such scores, and if fewer
than fifteen values differ from the most frequent one. Above ``MANY_ROWS`` rows or groups the interval is Student's t.
The interval of equal values uses the share of different rows that the sample can miss (``unseen_share``).

Turns of one conversation, or answers to one question, resemble each other and carry less information than independent
rows. The design effect (Kish 1965) is the factor by which this increases the variance of a mean.

``true_mean`` estimates the mean human label of all rows from a few labels and a judge's scores of all rows, by
prediction-powered inference (Angelopoulos, Duchi and Zrnic 2023, PPI++): the mean of the labels, moved along the
regression line to the mean score of all rows. The variance is a jackknife over rows or groups, each left out with its
label and score. The interval is Student's t, or Wilson's for labels of 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

Vector = NDArray[np.floating[Any]]
Matrix = NDArray[np.floating[Any]]

_CELLS = 2_000_000
_DIGITS = 2.0**30


def bootstrap_limits(
    residuals: Matrix, counts: Matrix, *, studentized: bool, level: float, resamples: int, seed: int
) -> tuple[Vector, Vector]:
    """The limits of each mean, relative to the mean, by the BCa (Efron 1987) or the studentized bootstrap.

    ``residuals`` and ``counts`` (columns × groups): the sum of each group's deviations from the mean, and its number of
    rows. Use ``studentized`` for means of groups of different sizes (Davison and Hinkley 1997, 5.2.1).
    """
    from scipy.stats import bootstrap  # a slow import

    # Turn each column so that its tail is on the right: the intervals of B minus A and A minus B are then symmetric.
    signs = np.where(np.sort(residuals**3).sum(axis=1, keepdims=True) < 0, -1.0, 1.0)
    turned, units = _whole_numbers(residuals * signs)
    order = np.lexsort((counts, turned), axis=-1)
    turned, counts = np.take_along_axis(turned, order, axis=-1), np.take_along_axis(counts, order, axis=-1)
    size = turned.shape[-1]

    def statistic(places: NDArray[np.integer[Any]], axis: int) -> Matrix:
        """The ratio or t of each column in resamples, which are positions of groups."""
        if studentized:
            return _student_t(turned[:, places], counts[:, places], axis)
        resamples = np.atleast_2d(places)
        cells = resamples + size * np.arange(len(resamples))[:, None]
        drawn = np.bincount(cells.ravel(), minlength=cells.shape[0] * size).reshape(-1, size).astype(float)
        ratios: Matrix = ((drawn @ turned.T) / (drawn @ counts.T)).T
        return ratios if places.ndim > 1 else ratios[:, 0]

    result = bootstrap(
        (np.arange(size),),
        statistic,
        vectorized=True,
        axis=-1,
        confidence_level=level,
        n_resamples=resamples,
        batch=max(1, _CELLS // turned.size),
        method="percentile" if studentized else "BCa",
        random_state=np.random.default_rng(seed),
    )
    limits = result.confidence_interval.low, result.confidence_interval.high
    low, high = (np.atleast_1d(end) * units[:, 0] for end in limits)
    if studentized:
        error = np.sqrt((turned**2).sum(axis=1)) * units[:, 0] / counts.sum(axis=1)
        low, high = (-np.atleast_1d(end) * error for end in reversed(limits))
    is_turned = signs[:, 0] < 0
    return np.where(is_turned, -high, low), np.where(is_turned, -low, high)


def sign_flip_p_values(values: Matrix, *, resamples: int, seed: int) -> list[float]:
    """The two-sided p-value of each column of a rows × metrics matrix, flipping each row's sign (Fisher 1935)."""
    from scipy.stats import permutation_test

    whole, _ = _whole_numbers(values.T)
    order = np.lexsort((whole, np.abs(whole)), axis=-1)
    result = permutation_test(
        (np.take_along_axis(whole, order, axis=-1),),
        np.sum,
        permutation_type="samples",
        vectorized=True,
        axis=-1,
        n_resamples=resamples,
        batch=max(1, _CELLS // whole.size),
        random_state=np.random.default_rng(seed),
    )
    return [float(p) for p in np.atleast_1d(result.pvalue)]


def _student_t(sums: Matrix, counts: Matrix, axis: int) -> Matrix:
    rows = counts.sum(axis=axis, keepdims=True)
    mean = sums.sum(axis=axis, keepdims=True) / rows
    error = np.sqrt(((sums - mean * counts) ** 2).sum(axis=axis, keepdims=True)) / rows
    # A resample of equal groups has no error and counts as the farthest.
    ratio: Matrix = (mean / np.maximum(error, 1e-6)).squeeze(axis=axis)
    return ratio


def _whole_numbers(values: Matrix) -> tuple[Matrix, Matrix]:
    """Values (columns × rows) as multiples of a unit, and the unit: sums of whole numbers are exact in any order."""
    units: Matrix = np.maximum(np.abs(values).max(axis=-1, keepdims=True), 1e-290) / _DIGITS
    return np.rint(values / units), units


LEVEL = 0.95
"""The confidence level of all intervals."""
FEW_GROUPS = 10
BOOTSTRAP_GROUPS = 40
MANY_ROWS = 1_000
_FEW_CHANGES = 15
Labels = Sequence[object] | NDArray[Any]
Groups = Labels | None
Numbers = Sequence[float] | NDArray[Any]
Interval = tuple[float, float] | None
Range = tuple[float, float]


@dataclass(frozen=True)
class Clusters:
    """The scores of one metric by group; without groups, each row is a group.

    ``counts`` and ``residuals``: for each group, the number of rows and the sum of their deviations from ``mean``.
    ``squares``: the sum of the squared deviations of all rows. ``is_binary``: all scores are 0 or 1.
    """

    counts: Vector
    residuals: Vector
    mean: float
    squares: float
    least: float
    most: float
    is_binary: bool

    @property
    def groups(self) -> int:
        """The number of groups."""
        return int(self.counts.size)

    @cached_property
    def rows(self) -> float:
        """The number of rows."""
        return float(self.counts.sum())

    @cached_property
    def variance(self) -> float:
        """The variance of the mean: CR2 (Bell and McCaffrey 2002), unbiased for independent rows. Needs two groups."""
        return float(np.sort(self.residuals**2 / (1 - self.counts / self.rows)).sum()) / self.rows**2

    @cached_property
    def degrees(self) -> float:
        """Degrees of freedom of the variance (Satterthwaite 1946; Imbens and Kolesár 2016), at least 1.

        The model assumes that the rows of a group are equal. For groups of equal size: their number minus one.
        """
        counts = np.sort(self.counts)
        if counts[0] == counts[-1]:
            return counts.size - 1.0
        shares = counts / self.rows
        weights, squares = 1 / (1 - shares), counts**2
        total, of_shares, of_both = squares.sum(), (weights * shares**2).sum(), (weights * shares * squares).sum()
        expected = (weights * squares * (1 - 2 * shares)).sum() + of_shares * total
        spread = (weights**2 * squares * (squares + 2 * (total * shares**2 - 2 * shares * squares))).sum()
        spread += 2 * of_shares * (weights * squares**2).sum()
        spread += 2 * of_both**2 + (total * of_shares) ** 2 - 4 * total * of_shares * of_both
        return max(float(expected**2 / spread), 1.0)

    @property
    def effective_groups(self) -> float:
        """Kish's effective number of groups, from their sizes m: (Σm)² / Σm²."""
        return float(self.rows**2 / (self.counts**2).sum())

    @property
    def effective_rows(self) -> float:
        """Number of independent rows with the same precision, at most the number of rows. Equal scores, whose
        correlation is unknown, count as the effective groups."""
        if self.squares == 0:
            return self.effective_groups
        return min(self.squares / (self.rows - 1) / self.variance, self.rows) if self.variance > 0 else self.rows

    @property
    def few_groups(self) -> bool:
        """Whether there are fewer than ten effective groups, so that intervals may be too narrow."""
        return self.effective_groups < FEW_GROUPS

    @property
    def design_effect(self) -> float | None:
        """The variance of the mean with groups divided by that without; ``None`` if undefined."""
        is_known = self.groups > 1 and self.squares > 0
        return self.variance / (self.squares / (self.rows - 1) / self.rows) if is_known else None


def clusters_of(values: Vector, groups: Groups = None) -> Clusters | None:
    """The clusters of one metric's scores (NaN: not scored) by the group of each row; ``None`` without a score."""
    scored = ~np.isnan(values)
    if not scored.any():
        return None
    ordered = np.sort(values[scored])
    least, most = float(ordered[0]), float(ordered[-1])
    # The mean of equal values must be exactly that value.
    mean = least if least == most else float(ordered.mean())
    deviations = ordered - mean
    squares, is_binary = float((deviations**2).sum()), bool(np.isin(ordered, (0.0, 1.0)).all())
    if groups is None:
        return Clusters(np.ones(ordered.size), deviations, mean, squares, least, most, is_binary)
    codes = group_codes(np.asarray(groups)[scored])
    order = np.lexsort((values[scored], codes))  # makes the sums independent of the row order
    sums = np.asarray(np.bincount(codes[order], weights=values[scored][order] - mean), dtype=float)
    counts = np.asarray(np.bincount(codes), dtype=float)
    return Clusters(counts, sums, mean, squares, least, most, is_binary)


def group_codes(groups: Labels) -> NDArray[np.integer[Any]]:
    """Integer codes from 0 for group names, which must be all strings or all numbers."""
    codes: NDArray[np.integer[Any]] = np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    return codes


def unseen_share(rows: int) -> float:
    """The largest share of different rows in the population that a sample of ``rows`` can miss by chance, at 95 %.

    >>> round(unseen_share(72), 3)
    0.05
    """
    return float(1 - ((1 - LEVEL) / 2) ** (1 / rows))


def bootstrap_intervals(
    columns: Sequence[Numbers], *, groups: Groups = None, ranges: Sequence[Range] | None = None, resamples: int = 2000
) -> list[Interval]:
    """The interval of each column's mean; ``None`` for fewer than two values or groups. NaN is ignored.

    The same values in any order give the same interval. ``groups``: the group of each row; each column then has one
    value per row (NaN: not scored).

    ``ranges``: the lowest and highest possible value of each column (default 0 and 1).
    """
    samples = [clusters_of(np.asarray(values, dtype=float), groups) for values in columns]
    ends = ranges or [(0.0, 1.0)] * len(samples)
    known = [_of_mean(sample, groups is not None, end) for sample, end in zip(samples, ends, strict=True)]
    return _resampled(samples, known, resamples, 0, studentized=groups is not None)


def paired_intervals(
    differences: Matrix,
    *,
    groups: Groups = None,
    spans: Sequence[float] | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> list[Interval]:
    """The interval of the mean of each column of a rows × metrics matrix of paired differences.

    NaN: the pair was not scored on both sides. ``groups``: the group of each row. ``None`` for a column with fewer than
    two pairs (or groups). ``spans``: the largest possible difference of each column (default 1).
    """
    samples = [clusters_of(column, groups) for column in differences.T]
    ends = spans or [1.0] * len(samples)
    known = [_of_difference(sample, groups is not None, end) for sample, end in zip(samples, ends, strict=True)]
    return _resampled(samples, known, resamples, seed)


def wilson_limits(share: float, rows: float, deviate: float) -> tuple[float, float]:
    """Wilson's interval; ``rows`` may be fractional, such as effective rows of groups (Korn and Graubard 1998).

    ``deviate`` is the quantile of the normal or Student's distribution.
    """
    square = deviate * deviate
    middle = (share + square / (2 * rows)) / (1 + square / rows)
    half = deviate / (1 + square / rows) * math.sqrt(share * (1 - share) / rows + square / (4 * rows * rows))
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def agresti_min_interval(
    mean: float, mean_square: float, rows: float, ends: Range, deviate: float
) -> tuple[float, float]:
    """The interval of a mean difference whose values lie between two ``ends`` (Agresti and Min 2005).

    The normal interval after adding two rows: half a row at each end and one row of no difference. ``mean_square``: the
    mean of the squared differences. ``rows`` may be effective rows.
    """
    low, high = ends
    middle = (rows * mean + (low + high) / 2) / (rows + 2)
    variance = (rows * mean_square + (low**2 + high**2) / 2) / (rows + 2) - middle**2
    half = deviate * math.sqrt(max(0.0, variance) / (rows + 2))
    return max(low, min(mean, middle - half)), min(high, max(mean, middle + half))


def _of_mean(sample: Clusters | None, is_grouped: bool, ends: Range) -> Interval:
    """The closed-form interval of a mean, if it has one."""
    if sample is None or sample.groups < 2:
        return None
    low, high = min(ends[0], sample.least), max(ends[1], sample.most)
    if sample.least == sample.most:
        share = unseen_share(sample.groups)
        return sample.mean - share * (sample.mean - low), sample.mean + share * (high - sample.mean)
    if sample.is_binary:
        rows = sample.effective_rows if is_grouped else sample.rows
        return wilson_limits(sample.mean, rows, _deviate(sample))
    if not is_grouped:
        values = sample.residuals + sample.mean
        usual = float(np.median(values))
        if np.count_nonzero(np.abs(values - usual) > 1e-9) < min(_FEW_CHANGES, 0.3 * values.size):
            limits = _of_few(sample, values - usual, (low - usual, high - usual))
            return limits[0] + usual, limits[1] + usual
    return _of_t(sample, is_grouped, 0.0 if sample.least >= 0 else -1.0)


def _of_difference(sample: Clusters | None, is_grouped: bool, span: float) -> Interval:
    """The closed-form interval of a mean difference, if it has one."""
    if sample is None or sample.groups < 2:
        return None
    span = max(span, abs(sample.least), abs(sample.most))
    if sample.least == sample.most:
        reach = unseen_share(sample.groups) * span
        return max(-span, sample.mean - reach), min(span, sample.mean + reach)
    changed = np.abs(sample.residuals + sample.counts * sample.mean) > 1e-9 * sample.counts
    values = sample.residuals + sample.mean
    is_binary = not is_grouped and bool(np.isin(np.round(values, 9), (-1.0, 0.0, 1.0)).all())
    if is_binary or int(changed.sum()) < min(_FEW_CHANGES, sample.groups):
        return _of_few(sample, values, (-span, span), is_grouped)
    return _of_t(sample, is_grouped, -1.0)


def _of_few(sample: Clusters, changes: Vector, ends: Range, is_grouped: bool = False) -> Range:
    """The interval of a mean of ``changes``, few of them different from 0.

    The added rows are halfway between the largest change and the ends of the range.
    """
    largest = max(abs(sample.least), abs(sample.most)) if is_grouped else float(np.abs(changes).max())
    low, high = ((end + math.copysign(min(largest, abs(end)), end)) / 2 for end in ends)
    if is_grouped:
        mean, mean_square, rows = sample.mean, sample.squares / sample.rows + sample.mean**2, sample.effective_rows
    else:
        mean, mean_square, rows = float(changes.mean()), float((changes**2).mean()), sample.rows
    return agresti_min_interval(mean, mean_square, rows, (low, high), _deviate(sample))


def _deviate(sample: Clusters) -> float:
    return float(stdtrit(sample.degrees, (1 + LEVEL) / 2))


def _of_t(sample: Clusters, is_grouped: bool, floor: float) -> Interval:
    """Student's t interval for few groups, or for many rows or groups; otherwise ``None``."""
    if not (is_grouped and sample.groups < BOOTSTRAP_GROUPS) and sample.groups <= MANY_ROWS:
        return None
    half = _deviate(sample) * math.sqrt(sample.variance)
    # Keep the limits of scores within their scale, 0 to 1 or -1 to 1.
    is_on_scale = floor <= sample.least and sample.most <= 1
    least, most = (floor, 1.0) if is_on_scale else (-math.inf, math.inf)
    return max(least, sample.mean - half), min(most, sample.mean + half)


def _resampled(
    samples: Sequence[Clusters | None], known: list[Interval], resamples: int, seed: int, *, studentized: bool = False
) -> list[Interval]:
    """The ``known`` intervals, and bootstrap intervals of the other samples with at least two groups.

    Samples with the same group sizes share the resamples, which take most of the time.
    """
    alike: dict[tuple[int, float], list[int]] = {}
    for place, sample in enumerate(samples):
        if known[place] is None and sample is not None and sample.groups > 1:
            alike.setdefault((sample.groups, sample.degrees), []).append(place)
    for (groups, degrees), places in alike.items():
        chosen = [sample for place in places if (sample := samples[place]) is not None]
        tail = float(stdtrit(degrees, (1 + LEVEL) / 2)) * math.sqrt(groups / (groups - 1))
        widened = min(2 * float(ndtr(tail)) - 1, 1 - 1 / resamples)
        lows, highs = bootstrap_limits(
            np.array([sample.residuals for sample in chosen]),
            np.array([sample.counts for sample in chosen]),
            studentized=studentized,
            level=LEVEL if studentized else widened,
            resamples=resamples,
            seed=seed,
        )
        for place, sample, low, high in zip(places, chosen, lows, highs, strict=True):
            known[place] = max(sample.least, sample.mean + low), min(sample.most, sample.mean + high)
    return known


def crossed_interval(scores: Matrix, *, groups: Groups = None) -> tuple[float, float] | None:
    """The 95 % interval of the mean of a rows × repeats matrix; each row counts once, by its own mean.

    Repeats make the score of a row more precise but do not enlarge the sample. If whole repeats differ by more than
    chance, for example because the judge changed, their variance is added, with Satterthwaite's degrees of freedom
    (1946). ``None`` for fewer than two rows (or ``groups``).
    """
    means = scores.mean(axis=1)
    interval = bootstrap_intervals([means.tolist()], groups=groups)[0]
    rows, repeats = scores.shape
    if interval is None or repeats < 2:
        return interval
    middle = float(np.sort(means).mean())
    rest = scores - means[:, None] - scores.mean(axis=0) + middle
    chance = float((rest**2).sum()) / (rows - 1) / (repeats - 1) / rows
    added = max(0.0, float(scores.mean(axis=0).var(ddof=1)) - chance) / repeats
    if added == 0:
        return interval
    deviate = float(stdtrit(rows - 1, 0.975))
    variance = max(((interval[1] - interval[0]) / 2 / deviate) ** 2, 1e-300)
    degrees = (variance + added) ** 2 / (variance**2 / (rows - 1) + added**2 / (repeats - 1))
    widened = math.sqrt(1 + added / variance) * float(stdtrit(degrees, 0.975)) / deviate
    return middle - (middle - interval[0]) * widened, middle + (interval[1] - middle) * widened


_FEWEST_FOR_A_SLOPE = 5


@dataclass(frozen=True)
class TrueMean:
    """An estimated mean label and its interval, which is ``None`` if fewer than two rows (or groups) have a label.

    ``labels`` of ``rows`` are labelled. ``error``: the standard error.
    """

    value: float
    low: float | None
    high: float | None
    error: float | None
    labels: int
    rows: int


def true_mean(labels: Numbers, scores: Numbers, *, groups: Groups = None) -> TrueMean:
    """Estimate the mean label of all rows from the label (NaN: none) and the judge's score (NaN: none) of each row.

    The labelled rows must be chosen at random. ``groups``: the group of each row. Labels and scores may have different
    scales. At least one row has a label.
    """
    y, f = np.asarray(labels, dtype=float), np.asarray(scores, dtype=float)
    value, error, degrees = _estimate(y, f, groups)
    known = y[~np.isnan(y)]
    if degrees < 1:
        return TrueMean(value, None, None, None, known.size, y.size)
    deviate = float(stdtrit(degrees, 0.975))
    limits = value - deviate * error, value + deviate * error
    if np.isin(known, (0.0, 1.0)).all():
        spread = float((known**2).mean()) - float(known.mean()) ** 2
        rows = spread / error**2 if spread > 1e-12 and error > 0 else degrees + 1  # labels alone with this variance
        limits = wilson_limits(min(max(value, 0.0), 1.0), rows, deviate)
    elif error < 1e-12:  # all labels are equal
        share = unseen_share(known.size)
        low, high = min(0.0, value), max(1.0, value)
        limits = value - share * (value - low), value + share * (high - value)
    return TrueMean(value, *limits, error, known.size, y.size)


def _estimate(labels: Vector, scores: Vector, groups: Groups) -> tuple[float, float, float]:
    """The value, its standard error, and the degrees of freedom.

    The degrees of freedom are 0 if the variance is unknown.
    """
    codes = np.arange(labels.size) if groups is None else group_codes(groups)
    is_labelled, is_scored = ~np.isnan(labels), ~np.isnan(scores)
    order = np.lexsort((labels, scores, codes) if groups is not None else (labels, scores))  # in any row order
    centre = np.sort(scores[is_scored]).mean() if is_scored.any() else 0.0
    y = np.where(is_labelled, labels, 0.0)[order]
    f = np.where(is_scored, scores - centre, 0.0)[order]
    n = is_labelled[order].astype(float)
    ordered_codes = codes[order] if groups is not None else codes
    sums = np.column_stack(
        [np.bincount(ordered_codes, weights=weights) for weights in (n, y, n * f, f * y, n * f**2, np.ones(n.size), f)]
    )
    total = np.array([np.sort(column).sum() for column in sums.T])
    count = int(total[0])
    use_slope = count >= _FEWEST_FOR_A_SLOPE
    (value,), (slope,) = _regressed(total[None, :], use_slope)
    has_label = sums[:, 0] > 0
    number, groups_there = int(has_label.sum()), has_label.size
    if number < 2:
        return float(value), 0.0, 0.0
    share = np.where(has_label, 1 - 1 / number, 1 - 1 / groups_there)
    changes = np.sqrt(share) * (value - _regressed(total - sums, use_slope)[0])
    effective = float(count**2 / (sums[:, 0] ** 2).sum())
    degrees = max(1.0, effective - (2 if slope else 1))
    return float(value), math.sqrt(float(np.sort(changes**2).sum())), degrees


def _regressed(sums: Matrix, use_slope: bool) -> tuple[Vector, Vector]:
    """Value and slope from each line of sums; the slope is 0 if the scores of the labelled rows are equal."""
    n, y, f, fy, ff, rows, all_f = sums.T
    square = ff - f**2 / n
    varies = use_slope & (square > 1e-12 * np.maximum(ff, 1e-300))
    slopes = np.divide(fy - y / n * f, square, out=np.zeros_like(square), where=varies)
    values: Vector = y / n + slopes * (all_f / rows - f / n)
    return values, slopes
