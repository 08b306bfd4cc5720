"""False alarms of intervals that are looked at after every row, and how wide those are that allow for it.

``python tests/benchmarks/statistics_anytime.py [--repetitions 4000] [--looks 10000]``. A false alarm: the true mean was
out at any look. Beside it, what an interval for one look, looked at as often, would give. Widths are of 50 runs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from mlflow_ragmetrics.statistics.anytime import ConfidenceSequence

Draw = Callable[[np.random.Generator, int], np.ndarray]


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


def is_out(values: np.ndarray, truth: float, low: float) -> bool:
    """Whether the sequence ever leaves out the truth: one that follows this mean only, since the others take long."""
    start = ConfidenceSequence(low=low).to_dict()
    place = round((truth - low) / (1 - low) * (len(start["rising"]) - 1))
    sequence = ConfidenceSequence.from_dict(start | {"first": place, "rising": [0.0], "falling": [0.0]})
    sequence.update(values)
    return sequence.drifted


def widths(draw: Draw, low: float, marks: list[int]) -> np.ndarray:
    """Half widths after so many rows, ours and that of one look."""
    generator, found = np.random.default_rng(2), []
    for _ in range(50):
        values, sequence, done = draw(generator, marks[-1]), ConfidenceSequence(low=low), 0
        for size in marks:
            sequence.update(values[done:size])
            done = size
            least, most = sequence.interval()
            found.append(((most - least) / 2, 1.96 * values[:size].std() / size**0.5))
    return np.array(found).reshape(50, len(marks), 2).mean(axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=4000)
    parser.add_argument("--looks", type=int, default=10_000)
    options = parser.parse_args()
    marks = [size for size in (100, 1_000, 10_000) if size <= options.looks]
    titles = "".join(f"{f'± at {size}':>18}" for size in marks)
    print(f"{'':<30}{'false alarms %':>15}{'one look %':>12}{titles}   (beside ± of one look)")
    for name, (draw, truth, low) in KINDS.items():
        generator = np.random.default_rng(1)
        alarms = naive = 0
        for _ in range(options.repetitions):
            values = draw(generator, options.looks)
            alarms += is_out(values, truth, low)
            naive += one_look(values, truth)
        cells = "".join(f"{f'{ours:.3f} ({fixed:.3f})':>18}" for ours, fixed in widths(draw, low, marks))
        shares = f"{100 * alarms / options.repetitions:>15.1f}{100 * naive / options.repetitions:>12.1f}"
        print(f"{name:<30}{shares}{cells}", flush=True)
    sequence, values = ConfidenceSequence(), verdicts(np.random.default_rng(0), 10_000)
    began = time.perf_counter()
    for value in values:
        sequence.update(value)
        sequence.interval()
    print(f"one value and its interval: {(time.perf_counter() - began) * 100:.0f} µs, over 10,000 values one by one")


if __name__ == "__main__":
    main()
