from __future__ import annotations

import numpy as np
import pytest

from mlflow_ragmetrics.statistics import bootstrap_interval
from mlflow_ragmetrics.statistics.repeats import VarianceParts, crossed_interval, variance_parts


def drawn(generator: np.random.Generator, rows: int, judges: int, repeats: int, *deviations: float) -> np.ndarray:
    of_rows, of_judges, crossed, rest = deviations
    return (
        0.5
        + generator.normal(0, of_rows, (rows, 1, 1))
        + generator.normal(0, of_judges, (1, judges, 1))
        + generator.normal(0, crossed, (rows, judges, 1))
        + generator.normal(0, rest, (rows, judges, repeats))
    )


def test_the_parts_by_hand() -> None:
    # Means of the rows 1, 3 and 5: variance 4; within rows 2 each, of which half is in the mean of two.
    parts = variance_parts(np.array([[0.0, 2.0], [2.0, 4.0], [4.0, 6.0], [np.nan, 1.0]]))
    assert parts == VarianceParts(rows=3.0, judges=0.0, judges_by_rows=0.0, repeats=2.0)
    assert parts.deviation() == pytest.approx(np.sqrt(5))
    assert parts.error(3, repeats=2) == pytest.approx(np.sqrt((3 + 1) / 3))


def test_the_parts_of_judges_by_hand() -> None:
    scores = np.array([[[0.0], [1.0]], [[1.0], [2.0]], [[2.0], [6.0]]])
    # Rows' means 0.5, 1.5, 4; judges' 1, 3; left over ±0.5, ±0.5, ∓1: mean square (4 × 0.25 + 2 × 1) / 2.
    parts = variance_parts(scores)
    assert parts is not None
    assert parts.judges_by_rows == pytest.approx(1.5)
    assert parts.judges == pytest.approx((3 * 2 - 1.5) / 3)
    assert parts.rows == pytest.approx((2 * 3.25 - 1.5) / 2)
    assert parts.repeats == 0
    assert parts.error(3, judges=2) == pytest.approx(np.sqrt((2.5 + 0.75) / 3 + 0.75))


def test_the_parts_are_found_again() -> None:
    generator = np.random.default_rng(1)
    found = [variance_parts(drawn(generator, 60, 6, 3, 0.3, 0.2, 0.1, 0.15)) for _ in range(1000)]
    means = [np.mean([getattr(parts, name) for parts in found]) for name in VarianceParts.__dataclass_fields__]
    assert means == pytest.approx([0.09, 0.04, 0.01, 0.0225], rel=0.06)


def test_the_error_is_that_of_means() -> None:
    generator = np.random.default_rng(2)
    parts = VarianceParts(0.09, 0.04, 0.01, 0.0225)
    means = [drawn(generator, 20, 3, 2, 0.3, 0.2, 0.1, 0.15).mean() for _ in range(2000)]
    assert np.std(means) == pytest.approx(parts.error(20, repeats=2, judges=3), rel=0.06)


def test_what_is_below_zero_is_zero_and_too_little_is_none() -> None:
    parts = variance_parts(np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert parts is not None
    assert (parts.rows, parts.repeats) == (0.0, 0.5)
    assert variance_parts(np.array([[0.0, 1.0]])) is None
    assert variance_parts(np.array([[0.0], [1.0]])) is None
    assert variance_parts(np.array([[0.0, np.nan], [1.0, 0.0]])) is None


def test_equal_repeats_count_once() -> None:
    scores = np.random.default_rng(3).random(40)
    found = crossed_interval(np.column_stack([scores] * 5))
    assert found == pytest.approx(bootstrap_interval(scores.tolist()))


def test_repeats_that_agree_but_for_noise_give_the_interval_of_the_rows_means() -> None:
    generator = np.random.default_rng(4)
    scores = generator.random((50, 1)) + generator.normal(0, 0.05, (50, 3))
    scores -= scores.mean(axis=0) - scores.mean()
    scores[3, 1] = np.nan
    scores[4] = np.nan
    groups = np.arange(50) % 12
    means = np.nanmean(np.delete(scores, 4, axis=0), axis=1)
    assert crossed_interval(scores) == pytest.approx(bootstrap_interval(means.tolist()))
    expected = bootstrap_interval(means.tolist(), groups=np.delete(groups, 4))
    assert crossed_interval(scores, groups=groups) == pytest.approx(expected)
    assert crossed_interval(np.full((3, 2), np.nan)) is None
    assert crossed_interval(np.array([[0.5, 0.6]])) is None


def test_repeats_of_other_means_widen_it() -> None:
    scores = np.random.default_rng(5).random((40, 1)) * 0.2 + np.array([0.0, 0.3, 0.5])
    low, high = crossed_interval(scores) or (0.0, 0.0)
    middle = scores.mean()
    assert low < middle - 0.5
    assert high > middle + 0.5
    equal = crossed_interval(np.full((9, 2), [0.2, 0.4]))
    assert equal == pytest.approx((0.3, 0.3), abs=1e-6)


@pytest.mark.parametrize("shift", [0.0, 0.05])
def test_nineteen_of_twenty_intervals_hold_the_truth(shift: float) -> None:
    generator, held = np.random.default_rng(6), []
    for _ in range(400):
        scores = drawn(generator, 40, 1, 5, 0.2, 0, 0, 0.1)[:, 0] + generator.normal(0, shift, 5)
        low, high = crossed_interval(scores, resamples=500) or (0.0, 0.0)
        held.append(low <= 0.5 <= high)
    assert 0.92 <= np.mean(held) <= 0.985
