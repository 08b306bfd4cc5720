"""False alarms of intervals that are looked at after every row, and how wide those are that allow for it.

``python tests/benchmarks/statistics_anytime.py [--repetitions 4000] [--looks 10000]``. A false alarm: the true mean was
outside the interval at any look. Beside it, what an interval for one look, looked at as often, would give.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from mlflow_ragmetrics.statistics.anytime import ConfidenceSequence


def shares(generator: np.random.Generator, size: int) -> np.ndarray:
    return generator.beta(4.5, 0.5, size)


def verdicts(generator: np.random.Generator, size: int) -> np.ndarray:
    return (generator.random(size) < 0.8).astype(float)


def rare(generator: np.random.Generator, size: int) -> np.ndarray:
    return (generator.random(size) < 0.02).astype(float)


def no_difference(generator: np.random.Generator, size: int) -> np.ndarray:
    return generator.choice([-1.0, 0.0, 1.0], size, p=[0.1, 0.8, 0.1])


KINDS = {
    "scores of mean 0.9": (shares, 0.9, 0.0),
    "verdicts of mean 0.8": (verdicts, 0.8, 0.0),
    "verdicts of mean 0.02": (rare, 0.02, 0.0),
    "paired differences of mean 0": (no_difference, 0.0, -1.0),
}


def one_look(values: np.ndarray, truth: float) -> bool:
    """Whether the normal 95 % interval leaves out the truth at any look from the thirtieth row on."""
    numbers = np.arange(1, values.size + 1)
    means = np.cumsum(values) / numbers
    spread = np.sqrt(np.maximum(np.cumsum(values**2) / numbers - means**2, 1e-12) / numbers)
    return bool((np.abs(means - truth) > 1.96 * spread)[29:].any())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=4000)
    parser.add_argument("--looks", type=int, default=10_000)
    options = parser.parse_args()
    marks = [size for size in (100, 1_000, 10_000) if size <= options.looks]
    widths = "".join(f"{f'± at {size}':>18}" for size in marks)
    print(f"{'':<30}{'false alarms %':>15}{'one look %':>12}{widths}   (beside ± of one look)")
    for name, (draw, truth, low) in KINDS.items():
        generator = np.random.default_rng(1)
        alarms = naive = 0
        halves = np.zeros(len(marks))
        fixed = np.zeros(len(marks))
        for _ in range(options.repetitions):
            values = draw(generator, options.looks)
            sequence = ConfidenceSequence(low=low)
            done = 0
            for place, size in enumerate(marks):
                sequence.update(values[done:size])
                done = size
                halves[place] += np.subtract(*sequence.interval()[::-1]) / 2
                fixed[place] += 1.96 * values[:size].std() / size**0.5
            sequence.update(values[done:])
            least, most = sequence.interval()
            alarms += sequence.drifted or not least <= truth <= most
            naive += one_look(values, truth)
        per = options.repetitions
        cells = "".join(f"{f'{h / per:.3f} ({f / per:.3f})':>18}" for h, f in zip(halves, fixed, strict=True))
        print(f"{name:<30}{100 * alarms / per:>15.1f}{100 * naive / per:>12.1f}{cells}", flush=True)
    sequence, values = ConfidenceSequence(), verdicts(np.random.default_rng(0), 10_000)
    began = time.perf_counter()
    for value in values:
        sequence.update(value)
        sequence.interval()
    print(f"one value and its interval: {(time.perf_counter() - began) * 100:.0f} µs, over 10,000 values one by one")


if __name__ == "__main__":
    main()
