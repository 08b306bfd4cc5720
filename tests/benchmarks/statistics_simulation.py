"""Coverage of intervals, false verdicts of comparisons, and the promised power, by simulation.

``python tests/benchmarks/statistics_simulation.py [coverage | verdicts | power | candidates | groups | true_scores]
[--repetitions 10000]``. For rows without groups, the bootstrap and the permutation test are computed for all runs at
once; ``tests/statistics/test_simulation.py`` shows that they equal the package's. Its closed forms are called by their
private names, to skip the bootstrap. With 10,000 repetitions the Monte-Carlo interval of a true 5 % is 4.6 to 5.4 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit
from scipy.stats import beta

from mlflow_ragmetrics.comparison.difference import Difference
from mlflow_ragmetrics.statistics.intervals import (
    _of_difference,
    _of_mean,
    bootstrap_intervals,
    clusters_of,
    paired_intervals,
    unseen_share,
)
from mlflow_ragmetrics.statistics.prediction_powered import true_mean
from mlflow_ragmetrics.statistics.sample_size import rows_needed
from mlflow_ragmetrics.statistics.significance import holm, paired_tests, skewed_t_test

# ``_of_mean`` and ``_of_difference`` are private: the public functions also resample, which ``bca`` does here at once

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
GroupDraw = Callable[[np.random.Generator, float, float, np.ndarray, bool], np.ndarray]
SIZES = (30, 60, 200)
GROUPS = (5, 10, 20, 40, 80)
DRAWS, BATCH, ROWS = 1000, 250, 400


def claims(share: float) -> Draw:
    def draw(generator: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        number = generator.integers(2, 7, shape)
        return generator.binomial(number, share) / number

    return draw


def mixed(share: float, at: float, rest: Draw = lambda g, shape: g.random(shape)) -> Draw:
    """A ``share`` of the values is ``at``."""
    return lambda g, shape: np.where(g.random(shape) < share, at, rest(g, shape))


def zeros(generator: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return np.zeros(shape)


MEANS: Mapping[str, tuple[Draw, float]] = {
    "uniform": (lambda g, shape: g.random(shape), 0.5),
    "beta 5, 2": (lambda g, shape: g.beta(5, 2, shape), 5 / 7),
    "narrow: beta 50, 20": (lambda g, shape: g.beta(50, 20, shape), 5 / 7),
    "skewed: beta 0.5, 3": (lambda g, shape: g.beta(0.5, 3, shape), 1 / 7),
    "U-shaped: beta 0.5, 0.5": (lambda g, shape: g.beta(0.5, 0.5, shape), 0.5),
    "60 % at 1, else uniform": (mixed(0.6, 1.0), 0.8),
    "90 % at 1, else uniform": (mixed(0.9, 1.0), 0.95),
    "shares of 2 to 6 claims, 85 %": (claims(0.85), 0.85),
    "grades 0, 0.25, …, 1": (
        lambda g, shape: g.choice([0, 0.25, 0.5, 0.75, 1], shape, p=[0.05, 0.05, 0.1, 0.3, 0.5]),
        0.7875,
    ),
    "0 or 1, 80 %": (mixed(0.8, 1.0, zeros), 0.8),
    "0 or 1, 95 %": (mixed(0.95, 1.0, zeros), 0.95),
    "97 % at 0.75, else uniform": (mixed(0.97, 0.75), 0.7425),
    "97 % at 1, else uniform": (mixed(0.97, 1.0), 0.985),
}


def disasters(share: float, size: float, noise: float) -> Draw:
    """Many small gains, and a ``share`` of rows that lose ``size``; the mean is 0."""
    return lambda g, shape: share * size - size * (g.random(shape) < share) + noise * (g.random(shape) - 0.5)


SYMMETRIC: Mapping[str, Draw] = {
    "normal": lambda g, shape: g.normal(0, 0.3, shape),
    "Laplace": lambda g, shape: g.laplace(0, 0.2, shape),
    "80 % tied": mixed(0.8, 0.0, lambda g, shape: g.normal(0, 0.4, shape)),
    "95 % tied": mixed(0.95, 0.0, lambda g, shape: g.normal(0, 0.4, shape)),
    "0 or 1, 50 %": lambda g, shape: (g.random(shape) < 0.5) * 1.0 - (g.random(shape) < 0.5),
    "0 or 1, 95 %": lambda g, shape: (g.random(shape) < 0.95) * 1.0 - (g.random(shape) < 0.95),
    "groups of 5, correlation 0.5": lambda g, shape: (
        np.repeat(g.normal(0, 0.2, (shape[0] // 5 + 1, shape[1])), 5, axis=0)[: shape[0]] + g.normal(0, 0.2, shape)
    ),
}
SKEWED: Mapping[str, Draw] = {
    "exponential": lambda g, shape: 0.1 * (g.exponential(1, shape) - 1),
    "lognormal": lambda g, shape: 0.1 * (g.lognormal(0, 1, shape) - np.exp(0.5)),
    "gamma 0.5": lambda g, shape: 0.05 * (g.gamma(0.5, 1, shape) - 0.5),
    "2 % lose 1": disasters(0.02, 1.0, 0.02),
    "5 % lose 1": disasters(0.05, 1.0, 0.02),
    "5 % lose 0.5": disasters(0.05, 0.5, 0.02),
    "10 % lose 1": disasters(0.1, 1.0, 0.02),
    "20 % lose 1": disasters(0.2, 1.0, 0.02),
    "5 % lose 0.5, noise": disasters(0.05, 0.5, 0.5),
}


def bca(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The BCa interval of each column's mean, at the level widened for small samples."""
    rows, runs = values.shape
    counts = np.random.default_rng(0).multinomial(rows, np.full(rows, 1 / rows), DRAWS).astype(np.float32)
    mean = values.mean(axis=0)
    residuals = (values - mean).astype(np.float32)
    drawn = np.sort(counts @ residuals / rows, axis=0)
    bias = ndtri(np.clip(((drawn < -1e-7).mean(axis=0) + (drawn <= 1e-7).mean(axis=0)) / 2, 1e-4, 1 - 1e-4))
    speed = (residuals**3).sum(axis=0) / 6 / np.maximum((residuals**2).sum(axis=0), 1e-30) ** 1.5
    deviate = stdtrit(rows - 1, 0.975) * np.sqrt(rows / (rows - 1))
    places = (ndtr(bias + (bias + each) / (1 - speed * (bias + each))) for each in (-deviate, deviate))
    low, high = (np.clip((place * DRAWS).astype(int), 0, DRAWS - 1) for place in places)
    return mean + drawn[low, np.arange(runs)], mean + drawn[high, np.arange(runs)]


def intervals(values: np.ndarray, *, of_differences: bool = False) -> np.ndarray:
    """The limits of each column: the closed form if the package uses one, else the bootstrap's."""
    found = np.array(bca(values)).T
    for place, column in enumerate(values.T):
        sample = clusters_of(column)
        known = _of_difference(sample, False, 0.95, 1.0) if of_differences else _of_mean(sample, False, 0.95, (0, 1))
        found[place] = found[place] if known is None else known
    return found


def sign_flips(values: np.ndarray, draws: int) -> np.ndarray:
    """The p-value of the sign-flip test of each column."""
    signs = (np.random.default_rng(0).random((draws, len(values))) < 0.5).astype(np.float32) * 2 - 1
    reached = np.abs(signs @ values.astype(np.float32)) >= np.abs(values.sum(axis=0)) - 1e-5
    return (reached.sum(axis=0) + 1) / (draws + 1)


def p_values(values: np.ndarray, groups: np.ndarray | None = None, draws: int = DRAWS) -> np.ndarray:
    """The larger p-value of both tests of each column."""
    sums = values if groups is None else np.array([values[groups == code].sum(axis=0) for code in np.unique(groups)])
    skewed = [skewed_t_test(sample) for column in values.T if (sample := clusters_of(column, groups)) is not None]
    return np.maximum(sign_flips(sums, draws), skewed)


def print_row(name: object, cells: Sequence[object]) -> None:
    print(f"{name:<32}" + "".join(f"{cell:>20}" for cell in cells), flush=True)


def coverage(repetitions: int) -> None:
    print("\n% of 95 % intervals of a mean that hold it (% of the samples that are constant)")
    print_row("scores", [f"n = {rows}" for rows in (20, *SIZES)])
    for name, (draw, truth) in MEANS.items():
        cells = []
        for rows in (20, *SIZES):
            values = np.asarray(draw(np.random.default_rng(rows), (rows, repetitions)), dtype=float)
            low, high = intervals(values).T
            held = np.mean((low <= truth + 1e-12) & (truth - 1e-12 <= high))
            cells.append(f"{100 * held:.1f} ({100 * np.mean(np.ptp(values, axis=0) == 0):.1f})")
        print_row(name, cells)


def false_verdicts(repetitions: int) -> None:
    """The share of wrong verdicts: better or worse for equal systems, and unchanged for differences above 0.05."""
    print("\n% improved or regressed without a difference / % unchanged with one of 0.0501; n is the number of rows")
    sizes = (*SIZES, 500)
    print_row("differences", [f"n = {rows}" for rows in sizes])
    for name, draw in {**SYMMETRIC, **SKEWED}.items():
        cells = []
        for rows in sizes:
            values = np.asarray(draw(np.random.default_rng(rows), (rows, repetitions)), dtype=float)
            groups = np.arange(rows) // 5 if name.startswith("groups") else None
            units = rows if groups is None else len(np.unique(groups))
            wrong = np.mean(changed(units, values.mean(axis=0), p_values(values, groups)))
            same = "–" if groups is not None else f"{100 * np.mean(unchanged(values + 0.0501)):.1f}"
            cells.append(f"{100 * wrong:.1f} / {same}")
        print_row(name, cells)


def candidates(repetitions: int) -> None:
    """The share of sets of equal candidates of which one or more is called better or worse than the baseline."""
    numbers, rows = (1, 2, 3, 5, 10), 60
    print(f"\n% of sets of equal candidates with a wrong verdict, {rows} rows: adjusted over the candidates / not")
    print_row("scores", [f"{number} candidates" for number in numbers])
    for name, (draw, _) in MEANS.items():
        generator = np.random.default_rng(rows)
        base, *others = (np.asarray(draw(generator, (rows, repetitions)), dtype=float) for _ in range(1 + max(numbers)))
        means = np.array([(other - base).mean(axis=0) for other in others])
        alone = np.array([p_values(other - base) for other in others])
        cells = []
        for number in numbers:
            adjusted = np.array([holm(column) for column in alone[:number].T.tolist()]).T
            wrong = [
                100 * np.mean(np.any([changed(rows, mean, p) for mean, p in zip(means, own, strict=False)], axis=0))
                for own in (adjusted, alone[:number])
            ]
            cells.append(" / ".join(f"{share:.1f}" for share in wrong))
        print_row(name, cells)


def changed(units: int, means: np.ndarray, adjusted: np.ndarray) -> np.ndarray:
    """The comparisons over so many rows or groups with the verdict improved or regressed."""
    unseen = unseen_share(units)
    return np.array(
        [
            Difference("m", units, difference=mean, low=-1, high=1, p_holm=p, unseen=unseen).paired_verdict
            != "cannot be told"
            for mean, p in zip(means, adjusted, strict=True)
        ]
    )


def unchanged(values: np.ndarray) -> np.ndarray:
    """The columns with the verdict unchanged."""
    rows, unseen = len(values), unseen_share(len(values))
    if unseen > 0.05:
        return np.zeros(values.shape[1], dtype=bool)
    limits = zip(values.mean(axis=0), intervals(values, of_differences=True), strict=True)
    made = (Difference("m", rows, difference=d, low=x[0], high=x[1], p_holm=1.0, unseen=unseen) for d, x in limits)
    return np.array([each.paired_verdict == "unchanged" for each in made])


def powers(repetitions: int) -> None:
    repetitions = min(repetitions, 2000)
    print("\n% of comparisons that show the difference with the rows that are promised for 80 % (rows)")
    tests = (1, 6, 12, 35)
    print_row("deviation, difference", [f"{number} metrics" for number in tests])
    for deviation, difference in ((0.3, 0.1), (0.3, 0.05), (0.15, 0.05), (0.1, 0.05), (0.5, 0.2)):
        cells = []
        for number in tests:
            rows = rows_needed(deviation, difference, alpha=0.05 / number)
            generator = np.random.default_rng([rows, number])
            values = difference + generator.normal(0, deviation, (rows, repetitions))
            own = p_values(values, draws=10 * DRAWS)
            others = generator.random((repetitions, number - 1))
            adjusted = [holm([p, *rest])[0] for p, rest in zip(own, others, strict=True)]
            shown = (np.array(adjusted) < 0.05) & (values.mean(axis=0) > unseen_share(rows))
            cells.append(f"{100 * np.mean(shown):.1f} ({rows})")
        print_row(f"{deviation}, {difference}", cells)


def grouped(repetitions: int) -> None:
    """Means and differences over grouped rows: two-sided coverage, and of the lower and the upper limit at 95 %."""
    correlations = (0.0, 0.1, 0.3, 0.5)
    for number, draw, binary in product(GROUPS, (group_scores, group_differences), (True, False)):
        kind = f"{draw.__name__} ({'0 or 1' if binary else 'continuous'})"
        print(f"\n{kind}, {number} groups: % of 95 % intervals that hold the mean / of lower / of upper limits at 95 %")
        print_row("mean", [f"correlation {icc}" for icc in correlations])
        for mean in (0.3, 0.5, 0.7, 0.9):
            print_row(mean, [held_by_groups(draw, binary, number, mean, icc, repetitions) for icc in correlations])
    print("\n% false alarms at 5 % of the paired test of groups")
    for number, binary, icc in product(GROUPS, (True, False), (0.0, 0.5)):
        generator = np.random.default_rng([number, binary, int(10 * icc)])
        alarms = []
        for codes in group_codes(generator, number, repetitions):
            before, after = (group_scores(generator, 0.8, icc, codes, binary) for _ in range(2))
            alarms += [p < 0.05 for p in paired_tests(after - before, groups=codes, resamples=2 * DRAWS)]
        kind = "0 or 1" if binary else "continuous"
        print_row(f"{kind}, correlation {icc}", [f"{number} groups", f"{100 * np.mean(alarms):.1f}"])


def group_scores(
    generator: np.random.Generator, mean: float, icc: float, codes: np.ndarray, binary: bool
) -> np.ndarray:
    """Rows × runs; ``icc`` is the correlation of two rows of a group (of their normal scores, if continuous)."""
    shape = (int(codes.max()) + 1, BATCH)
    if binary:
        strength = (1 - icc) / icc if icc else 1e9
        shares = generator.beta(mean * strength, (1 - mean) * strength, shape)[codes]
        return (generator.random(shares.shape) < shares).astype(float)
    normal = generator.normal(size=shape)[codes] * np.sqrt(icc)
    normal += generator.normal(size=normal.shape) * np.sqrt(1 - icc)
    table = beta.ppf((np.arange(4000) + 0.5) / 4000, 3 * mean, 3 * (1 - mean))
    return table[np.minimum((ndtr(normal) * 4000).astype(int), 3999)]


def group_differences(
    generator: np.random.Generator, mean: float, icc: float, codes: np.ndarray, binary: bool
) -> np.ndarray:
    """B has A's score in half of the rows, and its own in the others, with a mean higher by 0.05."""
    before, after = (group_scores(generator, each, icc, codes, binary) for each in (mean, mean + 0.05))
    return np.where(generator.random(before.shape) < 0.5, 0.0, after - before)


def group_codes(generator: np.random.Generator, number: int, repetitions: int) -> Iterator[np.ndarray]:
    """The group of each row, with other sizes for every ``BATCH`` runs."""
    for _ in range(0, repetitions, BATCH):
        yield np.repeat(np.arange(number), np.round(2 * 8 ** generator.random(number)).astype(int))


def held_by_groups(scores: GroupDraw, binary: bool, number: int, mean: float, icc: float, repetitions: int) -> str:
    paired = scores is group_differences
    generator = np.random.default_rng([number, int(100 * mean), int(100 * icc), paired])
    truth, held = 0.025 if paired else mean, []
    for codes in group_codes(generator, number, repetitions):
        values = scores(generator, mean, icc, codes, binary)
        two, one = (group_limits(values, codes, paired, level) for level in (0.95, 0.9))
        held.append(
            [np.mean((two[0] <= truth) & (truth <= two[1])), np.mean(one[0] <= truth), np.mean(truth <= one[1])]
        )
    return " / ".join(f"{100 * part:.1f}" for part in np.mean(held, axis=0))


def group_limits(values: np.ndarray, codes: np.ndarray, paired: bool, level: float) -> np.ndarray:
    if paired:
        limits = paired_intervals(values, groups=codes, level=level, resamples=2 * DRAWS)
    else:
        limits = bootstrap_intervals([*values.T], groups=codes, level=level, resamples=2 * DRAWS)
    return np.array(limits, dtype=float).T


def shares(generator: np.random.Generator, mean: float) -> tuple[np.ndarray, np.ndarray]:
    truth = generator.beta(3 * mean, 3 * (1 - mean), ROWS)
    return truth, np.clip(0.7 * truth + 0.3 * generator.random(ROWS) + generator.normal(0, 0.1, ROWS), 0, 1)


def verdicts(generator: np.random.Generator, mean: float) -> tuple[np.ndarray, np.ndarray]:
    truth = generator.random(ROWS) < mean
    return truth.astype(float), np.where(generator.random(ROWS) < 0.85, truth, ~truth).astype(float)


def verdicts_by_shares(generator: np.random.Generator, mean: float) -> tuple[np.ndarray, np.ndarray]:
    truth = (generator.random(ROWS) < mean).astype(float)
    return truth, np.clip(generator.normal(0.5 + 0.35 * (truth - 0.5), 0.2), 0, 1)


def grades(generator: np.random.Generator, mean: float) -> tuple[np.ndarray, np.ndarray]:
    """Grades from 1 to 4, like people's; four at the rate of ``mean``."""
    truth = generator.choice([1.0, 2.0, 3.0, 4.0], ROWS, p=[*(np.array([0.2, 0.3, 0.5]) * (1 - mean)), mean])
    return truth, np.clip((truth - 1) / 3 * 0.6 + 0.4 * generator.random(ROWS), 0, 1)


def true_scores(repetitions: int) -> None:
    """The true score from few labels.

    Width is relative to that allowed by the correlation ρ of judge and labels: √(1 − ρ²(1 − n/N)) times the width for
    labels alone.
    """
    repetitions = min(repetitions, 4000)
    print(f"\nTrue scores of {ROWS} rows")
    print_row("scores", ["labels", "covers %", "width", "ρ", "covers % alone"])
    for draw, mean, number in product((shares, verdicts, verdicts_by_shares, grades), (0.5, 0.7, 0.9), (40, 80)):
        generator = np.random.default_rng([number, int(10 * mean)])
        truth = 4 * mean + 2.3 * (1 - mean) if draw is grades else mean
        held, widths, correlations = np.zeros(2), np.zeros(2), []
        for _ in range(repetitions):
            y, f = draw(generator, mean)
            labels = np.where(np.arange(ROWS) < number, y, np.nan)
            estimates = [true_mean(labels, scores) for scores in (f, np.zeros(ROWS))]
            held += [estimate.low <= truth <= estimate.high for estimate in estimates]
            widths += [estimate.high - estimate.low for estimate in estimates]
            correlations.append(np.corrcoef(y, f)[0, 1])
        rho = float(np.mean(correlations))
        width = widths[0] / widths[1] / np.sqrt(1 - rho**2 * (1 - number / ROWS))
        covers, alone = 100 * held / repetitions
        cells = [number, f"{covers:.1f}", f"{width:.3f}", f"{rho:.2f}", f"{alone:.1f}"]
        print_row(f"{draw.__name__}, mean {mean}", cells)


PARTS = {
    "coverage": coverage,
    "verdicts": false_verdicts,
    "power": powers,
    "candidates": candidates,
    "groups": grouped,
    "true_scores": true_scores,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--repetitions", type=int, default=10_000)
    options = parser.parse_args()
    for part in options.parts or PARTS:
        PARTS[part](options.repetitions)


if __name__ == "__main__":
    main()
