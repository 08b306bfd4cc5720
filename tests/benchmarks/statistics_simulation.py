"""Coverage of intervals, false verdicts of comparisons, and the promised power, by simulation.

``python tests/benchmarks/statistics_simulation.py [coverage | verdicts | power]
[--repetitions 10000]``. For rows without groups, the bootstrap and the permutation test are computed for all runs at
once; ``tests/statistics/test_simulation.py`` shows that they equal the package's. Its closed forms are called by their
private names, to skip the bootstrap. With 10,000 repetitions the Monte-Carlo interval of a true 5 % is 4.6 to 5.4 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from mlflow_ragmetrics.comparison.difference import Difference
from mlflow_ragmetrics.statistics.intervals import (
    _of_difference,
    _of_mean,
    clusters_of,
    unseen_share,
)
from mlflow_ragmetrics.statistics.significance import holm, rows_needed, skewed_t_test

# ``_of_mean`` and ``_of_difference`` are private: the public functions also resample, which ``bca`` does here at once

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
SIZES = (30, 60, 200)
DRAWS = 1000


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
        known = _of_difference(sample, False, 1.0) if of_differences else _of_mean(sample, False, (0, 1))
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


PARTS = {
    "coverage": coverage,
    "verdicts": false_verdicts,
    "power": powers,
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
