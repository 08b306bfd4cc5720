"""The true score from few labels: coverage and width by simulation.

``python tests/benchmarks/statistics_true_score.py [--repetitions 4000]``. ``width`` is the
width of the intervals relative to that allowed by the correlation ρ of judge and labels: √(1 − ρ²(1 − n/N)) times the
width for labels alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from mlflow_ragmetrics.statistics.prediction_powered import true_mean

ROWS, LABELS = 400, (40, 80)
Pair = tuple[np.ndarray, np.ndarray]
Draw = Callable[[np.random.Generator, float], Pair]


def shares(generator: np.random.Generator, mean: float) -> Pair:
    truth = generator.beta(3 * mean, 3 * (1 - mean), ROWS)
    return truth, np.clip(0.7 * truth + 0.3 * generator.random(ROWS) + generator.normal(0, 0.1, ROWS), 0, 1)


def verdict_and_verdict(generator: np.random.Generator, mean: float) -> Pair:
    truth = generator.random(ROWS) < mean
    return truth.astype(float), np.where(generator.random(ROWS) < 0.85, truth, ~truth).astype(float)


def verdict_and_share(generator: np.random.Generator, mean: float) -> Pair:
    truth = (generator.random(ROWS) < mean).astype(float)
    return truth, np.clip(generator.normal(0.5 + 0.35 * (truth - 0.5), 0.2), 0, 1)


def grades(generator: np.random.Generator, mean: float) -> Pair:
    """Grades from 1 to 4, like people's; four at the rate of ``mean``."""
    truth = generator.choice([1.0, 2.0, 3.0, 4.0], ROWS, p=[*(np.array([0.2, 0.3, 0.5]) * (1 - mean)), mean])
    return truth, np.clip((truth - 1) / 3 * 0.6 + 0.4 * generator.random(ROWS), 0, 1)


DRAWS: dict[str, Draw] = {
    "shares": shares,
    "verdicts, judged by verdicts": verdict_and_verdict,
    "verdicts, judged by shares": verdict_and_share,
    "grades 1 to 4": grades,
}


def truth_of(draw: Draw, mean: float) -> float:
    return 4 * mean + (1 - mean) * (0.2 + 0.6 + 1.5) if draw is grades else mean


def labelled(truth: np.ndarray, number: int) -> np.ndarray:
    return np.where(np.arange(truth.size) < number, truth, np.nan)


def coverage(repetitions: int) -> None:
    print(f"\n{ROWS} rows{'':<32}{'labels':>7}{'covers':>8}{'width':>8}{'ρ':>6}{'alone':>8}")
    for name, draw in DRAWS.items():
        for mean in (0.5, 0.7, 0.9):
            for number in LABELS:
                figures = simulated(draw, mean, number, repetitions)
                cells = "{:>8.1f}{:>8.3f}{:>6.2f}{:>8.1f}".format(*figures)
                print(f"{name}, mean {mean}".ljust(40) + f"{number:>7}{cells}", flush=True)


def simulated(draw: Draw, mean: float, number: int, repetitions: int) -> tuple[float, ...]:
    generator, truth = np.random.default_rng([number, int(10 * mean)]), truth_of(draw, mean)
    held, widths, correlations = np.zeros(2), np.zeros(2), []
    for _ in range(repetitions):
        y, f = draw(generator, mean)
        labels = labelled(y, number)
        ours, alone = true_mean(labels, f), true_mean(labels, np.zeros(ROWS))
        held += [found.low <= truth <= found.high for found in (ours, alone)]
        widths += [found.high - found.low for found in (ours, alone)]
        correlations.append(np.corrcoef(y, f)[0, 1])
    rho = float(np.mean(correlations))
    width = widths[0] / widths[1] / np.sqrt(1 - rho**2 * (1 - number / ROWS))
    ours, alone = 100 * held / repetitions
    return ours, width, rho, alone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=4000)
    options = parser.parse_args()
    coverage(options.repetitions)


if __name__ == "__main__":
    main()
