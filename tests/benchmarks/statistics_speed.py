"""Time and memory of intervals and tests: ``python tests/benchmarks/statistics_speed.py``."""

from __future__ import annotations

import resource
import time

import numpy as np

from mlflow_ragmetrics.statistics.intervals import bootstrap_intervals, paired_intervals
from mlflow_ragmetrics.statistics.significance import paired_tests


def main() -> None:
    print(f"{'rows':>8} {'metrics':>8} {'intervals s':>12} {'tests s':>8} {'one mean s':>11} {'peak MB':>8}")
    for rows, metrics in ((100, 20), (1_000, 20), (10_000, 1), (10_000, 20), (100_000, 5)):
        differences = np.random.default_rng(0).beta(5, 2, (rows, metrics)) - 0.7
        seconds = [
            timed(lambda d=differences: paired_intervals(d)),
            timed(lambda d=differences: paired_tests(d)),
            timed(lambda d=differences: bootstrap_intervals([d[:, 0]])[0]),
        ]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{rows:>8} {metrics:>8} {seconds[0]:>12.2f} {seconds[1]:>8.2f} {seconds[2]:>11.2f} {peak:>8.0f}")


def timed(action) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
