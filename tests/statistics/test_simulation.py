"""The simulation's vectorised bootstrap and permutation test equal the package's."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from mlflow_ragmetrics.statistics.intervals import bootstrap_intervals, paired_intervals
from mlflow_ragmetrics.statistics.significance import paired_tests

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import statistics_simulation as simulation


@pytest.mark.parametrize("name", list(simulation.MEANS))
def test_the_intervals_are_the_packages(name: str) -> None:
    draw, _ = simulation.MEANS[name]
    values = np.asarray(draw(np.random.default_rng(3), (40, 20)), dtype=float)
    expected = np.array(bootstrap_intervals(list(values.T), resamples=10_000))
    assert simulation.intervals(values) == pytest.approx(expected, abs=0.1 * float(np.ptp(expected, axis=1).max()))


def test_the_p_values_and_verdicts_are_the_packages() -> None:
    values = np.random.default_rng(4).normal(0.1, 0.3, (40, 30))
    codes = np.arange(40) // 4
    for groups in (None, codes):
        expected = paired_tests(values, groups=groups)
        assert simulation.p_values(values, groups, draws=10_000) == pytest.approx(np.array(expected), abs=0.02)
    expected = np.array(paired_intervals(values))
    assert simulation.intervals(values, of_differences=True) == pytest.approx(expected, abs=0.02)
