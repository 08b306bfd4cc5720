"""False-positive rate of the paired test and coverage of the intervals, by simulation.

``python tests/benchmarks/statistics_simulation.py [repetitions]``. Each cell is a share of that many simulated
comparisons; with 4,000 the Monte-Carlo interval of a true 5 % is 4.3 to 5.7 %, of a true 95 % 94.3 to 95.7 %.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator

import numpy as np

from mlflow_ragmetrics.statistics.intervals import bootstrap_interval, paired_intervals
from mlflow_ragmetrics.statistics.significance import sign_flip_tests

SIZES = (30, 100, 1000)
BATCH = 500
Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def skewed(generator: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return generator.beta(0.5, 3.0, shape)


def bounded(generator: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return generator.beta(5.0, 2.0, shape)


def mostly_full(generator: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return np.where(generator.random(shape) < 0.6, 1.0, generator.random(shape))


def shares_of_claims(generator: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    claims = generator.integers(2, 7, shape)
    return generator.binomial(claims, 0.85) / claims


def binary(generator: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return (generator.random(shape) < 0.8).astype(float)


MEANS = {
    skewed: 0.5 / 3.5,
    bounded: 5 / 7,
    mostly_full: 0.8,
    shares_of_claims: 0.85,
    binary: 0.8,
}


def correlated(draw: Draw, agree: float, better: float) -> Draw:
    """B's score is A's with probability ``agree``, else drawn anew, and then raised half way to 1 in ``better`` of the
    rows: to 1 for binary scores. Returns B minus A."""

    def differences(generator: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        before = draw(generator, shape)
        after = np.where(generator.random(shape) < agree, before, draw(generator, shape))
        raised = np.ones(shape) if draw is binary else (1 + after) / 2
        return np.where(generator.random(shape) < better, raised, after) - before

    return differences


def gained(draw: Draw, better: float) -> float:
    return better * (1 - MEANS[draw]) * (1.0 if draw is binary else 0.5)


def batches(repetitions: int) -> Iterator[int]:
    return (min(BATCH, repetitions - start) for start in range(0, repetitions, BATCH))


def coverage(differences: np.ndarray, truth: float) -> int:
    intervals = paired_intervals(differences)
    return sum(low <= truth <= high for low, high in filter(None, intervals))


def mean_coverage(scores: np.ndarray, truth: float) -> int:
    return sum(low <= truth <= high for low, high in map(bootstrap_interval, scores.T))


def simulate(count: Callable[[np.ndarray], int], draw: Draw, rows: int, repetitions: int) -> str:
    generator = np.random.default_rng([rows, repetitions])
    hits = sum(count(draw(generator, (rows, size))) for size in batches(repetitions))
    share = hits / repetitions
    return f"{100 * share:5.1f} ±{196 * math.sqrt(share * (1 - share) / repetitions):.1f}"


def show(title: str, names: list[str], cells: Callable[[str, int], str]) -> None:
    print(f"\n{title}\n{'scores':<34}" + "".join(f"{f'n = {rows}':>13}" for rows in SIZES))
    for name in names:
        print(f"{name:<34}" + "".join(f"{cells(name, rows):>13}" for rows in SIZES), flush=True)


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    few = min(repetitions, 1000)
    null = {f"{d.__name__}, {a:.0%} of pairs equal": correlated(d, a, 0.0) for d in MEANS for a in (0.0, 0.5)}
    show(
        "False positives of the sign-flip test at 5 %, in % (no difference between A and B)",
        list(null),
        lambda name, rows: simulate(lambda d: sum(p < 0.05 for p in sign_flip_tests(d)), null[name], rows, repetitions),
    )
    shifted = {f"{d.__name__}, {a:.0%} of pairs equal": (d, correlated(d, a, 0.3)) for d in MEANS for a in (0.0, 0.5)}
    show(
        "Coverage of the 95 % interval of the paired difference, in % (B better in 30 % of the rows)",
        list(shifted),
        lambda name, rows: simulate(
            lambda d: coverage(d, gained(shifted[name][0], 0.3)), shifted[name][1], rows, repetitions
        ),
    )
    means = {draw.__name__: draw for draw in MEANS}
    show(
        f"Coverage of the 95 % interval of a run's mean, in % ({few} repetitions)",
        list(means),
        lambda name, rows: simulate(lambda s: mean_coverage(s, MEANS[means[name]]), means[name], rows, few),
    )


if __name__ == "__main__":
    main()
