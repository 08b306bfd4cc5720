"""Coverage of the intervals over grouped rows, by simulation, and for resampled conversations.

``python tests/benchmarks/statistics_groups.py [--repetitions 4000] [--groups 5 10 20 40 80] [--data mtrag.dev.jsonl]``.
Each cell: % of the simulated runs whose 95 % interval contains the true mean / whose lower / upper limit at 95 % (that
of the 90 % interval, as for a gate) is on the right side of it. With 4,000 the Monte-Carlo interval of a true 95 % is
94.3 to 95.7 %. Group sizes are between 2 and 16, uniform on the logarithmic scale, and drawn again for every 250 runs.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import ndtr
from scipy.stats import beta

from mlflow_ragmetrics.statistics.intervals import bootstrap_intervals, clusters_of, paired_intervals
from mlflow_ragmetrics.statistics.significance import paired_tests

MEANS, CORRELATIONS, BATCH, RESAMPLES = (0.3, 0.5, 0.7, 0.9), (0.0, 0.1, 0.3, 0.5), 250, 2000
GRID = (np.arange(4000) + 0.5) / 4000
Draw = Callable[[np.random.Generator, float, float, np.ndarray], tuple[np.ndarray, float]]


def scores(generator: np.random.Generator, mean: float, icc: float, groups: np.ndarray, binary: bool) -> np.ndarray:
    """Rows × runs; ``icc`` is the correlation of two rows of a group (of their normal scores, if continuous)."""
    number = int(groups.max()) + 1
    if binary:
        strength = (1 - icc) / icc if icc else 1e9
        shares = generator.beta(mean * strength, (1 - mean) * strength, (number, BATCH))[groups]
        return (generator.random(shares.shape) < shares).astype(float)
    shared = generator.normal(size=(number, BATCH))[groups]
    normal = np.sqrt(icc) * shared + np.sqrt(1 - icc) * generator.normal(size=shared.shape)
    table = beta.ppf(GRID, 3 * mean, 3 * (1 - mean))
    return table[np.minimum((ndtr(normal) * GRID.size).astype(int), GRID.size - 1)]


def means(binary: bool) -> Draw:
    return lambda generator, mean, icc, groups: (scores(generator, mean, icc, groups, binary), mean)


def differences(binary: bool) -> Draw:
    """B has A's score in half of the rows, and its own in the others, with a mean higher by 0.05."""

    def draw(generator: np.random.Generator, mean: float, icc: float, groups: np.ndarray) -> tuple[np.ndarray, float]:
        before, after = (scores(generator, each, icc, groups, binary) for each in (mean, mean + 0.05))
        return np.where(generator.random(before.shape) < 0.5, 0.0, after - before), 0.025

    return draw


def runs(generator: np.random.Generator, groups: int, repetitions: int) -> Iterator[np.ndarray]:
    for _ in range(0, repetitions, BATCH):
        yield np.repeat(np.arange(groups), np.round(2 * 8 ** generator.random(groups)).astype(int))


def coverage(draw: Draw, paired: bool, mean: float, icc: float, groups: int, repetitions: int) -> list[float]:
    generator = np.random.default_rng([groups, int(100 * mean), int(100 * icc), paired])
    held = []
    for codes in runs(generator, groups, repetitions):
        values, truth = draw(generator, mean, icc, codes)
        two, one = (intervals(values, codes, paired, level) for level in (0.95, 0.90))
        held.append(
            [
                np.mean((two[0] <= truth) & (truth <= two[1])),
                np.mean(one[0] <= truth),
                np.mean(truth <= one[1]),
            ]
        )
    return [100 * float(share) for share in np.mean(held, axis=0)]


def intervals(values: np.ndarray, codes: np.ndarray, paired: bool, level: float) -> np.ndarray:
    if paired:
        found = paired_intervals(values, groups=codes, level=level, resamples=RESAMPLES)
    else:
        found = bootstrap_intervals(list(values.T), groups=codes, level=level, resamples=RESAMPLES)
    return np.array(found, dtype=float).T


def table(title: str, draw: Draw, paired: bool, groups: int, repetitions: int) -> np.ndarray:
    print(f"\n{title}, {groups} groups\n{'mean':>6}" + "".join(f"{f'correlation {icc}':>19}" for icc in CORRELATIONS))
    cells = []
    for mean in MEANS:
        row = [coverage(draw, paired, mean, icc, groups, repetitions) for icc in CORRELATIONS]
        cells += row
        print(f"{mean:>6}" + "".join(f"{' / '.join(f'{share:.1f}' for share in cell):>19}" for cell in row), flush=True)
    print(f"lowest {np.min(cells, axis=0).round(1)} highest {np.max(cells, axis=0).round(1)}", flush=True)
    return np.array(cells)


def false_alarms(groups: int, repetitions: int) -> None:
    """Paired tests of differences between systems with equal means, at 5 %."""
    print(f"\n% false alarms at 5 %, {groups} groups")
    for binary, icc in product((True, False), (0.0, 0.5)):
        generator = np.random.default_rng([groups, binary, int(10 * icc)])
        p_values: list[float] = []
        for codes in runs(generator, groups, repetitions):
            before, after = (scores(generator, 0.8, icc, codes, binary) for _ in range(2))
            p_values += paired_tests(after - before, groups=codes, resamples=RESAMPLES)
        kind = "binary" if binary else "continuous"
        print(f"{kind:>12}, correlation {icc}: {100 * float(np.mean(np.array(p_values) < 0.05)):>6.1f}", flush=True)


def conversations(path: Path, repetitions: int) -> None:
    """Conversations drawn with replacement from those of the file, which define the truth."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    names, codes = np.unique([row["group"] for row in rows], return_inverse=True)
    figures = {name: [row["published"][name] for row in rows] for name in rows[0]["published"]}
    figures |= {f"people's {name}": [np.mean(row["human"][name]) for row in rows] for name in rows[0]["human"]}
    values = np.array(list(figures.values()), dtype=float).T
    members = [np.flatnonzero(codes == code) for code in range(names.size)]
    generator = np.random.default_rng(0)
    held = np.zeros((2, values.shape[1]))
    for _ in range(repetitions):
        drawn = generator.integers(0, names.size, names.size)
        picked = np.concatenate([members[place] for place in drawn])
        groups = np.repeat(np.arange(names.size), [members[place].size for place in drawn])
        for row, found in enumerate(
            (
                bootstrap_intervals(list(values[picked].T), resamples=500),
                bootstrap_intervals(list(values[picked].T), groups=groups, resamples=500),
            )
        ):
            low, high = np.array(found, dtype=float).T
            held[row] += (low <= values.mean(axis=0)) & (values.mean(axis=0) <= high)
    print(f"\n{names.size} conversations of {path.name} drawn again: % of 95 % intervals that hold the mean of all")
    print(f"{'':<28}{'rows':>8}{'groups':>8}{'design effect':>15}")
    for name, by_rows, by_groups, column in zip(figures, *held, values.T, strict=True):
        shares = f"{100 * by_rows / repetitions:>8.1f}{100 * by_groups / repetitions:>8.1f}"
        known = clusters_of(column, codes)
        print(f"{name:<28}{shares}{(known and known.design_effect) or 0:>15.1f}")


def speed() -> None:
    generator = np.random.default_rng(0)
    values = generator.beta(5, 2, (10_000, 20))
    print(f"\n10,000 rows × 20 metrics, CPU seconds\n{'groups':>8}{'means s':>9}{'differences s':>15}{'tests s':>9}")
    for number in (20, 40, 500, 1_000, 5_000):
        groups = generator.integers(0, number, 10_000)
        seconds = []
        for work in (
            lambda groups=groups: bootstrap_intervals(list(values.T), groups=groups),
            lambda groups=groups: paired_intervals(values - 0.7, groups=groups),
            lambda groups=groups: paired_tests(values - 0.7, groups=groups),
        ):
            began = time.process_time()
            work()
            seconds.append(time.process_time() - began)
        print(f"{number:>8}{seconds[0]:>9.2f}{seconds[1]:>15.2f}{seconds[2]:>9.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=4000)
    parser.add_argument("--groups", type=int, nargs="*", default=[5, 10, 20, 40, 80])
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    speed()
    if options.data:
        conversations(options.data, options.repetitions)
    for groups in options.groups:
        false_alarms(groups, options.repetitions)
        for binary in (True, False):
            kind = "binary" if binary else "continuous"
            table(f"Means of {kind} scores", means(binary), False, groups, options.repetitions)
            table(f"Differences of {kind} scores", differences(binary), True, groups, options.repetitions)


if __name__ == "__main__":
    main()
