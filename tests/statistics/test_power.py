from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, t

from mlflow_ragmetrics.statistics.intervals import bootstrap_intervals, crossed_interval
from mlflow_ragmetrics.statistics.significance import (
    about,
    power_of,
    rows_needed,
    smallest_difference,
)


@given(st.floats(0.05, 2), st.integers(7, 5000))
def test_the_smallest_difference_needs_as_many_rows_as_there_are(deviation: float, rows: int) -> None:
    smallest = smallest_difference(deviation, rows)
    assert rows_needed(deviation, smallest * (1 + 1e-9)) == rows


def test_six_rows_or_more_of_a_lower_level_tell_a_difference() -> None:
    assert smallest_difference(0.3, 5) is None
    assert smallest_difference(0.3, 6) is not None
    assert smallest_difference(0.3, 6, alpha=0.0001) is None


def test_of_rows_of_their_own() -> None:
    differences = np.random.default_rng(1).normal(0.05, 0.3, (80, 2))
    differences[:30, 1] = np.nan
    first, second = power_of(differences, 0.05)
    deviation = differences[:, 0].std(ddof=1)
    assert (first.rows, first.groups, first.design_effect) == (80, None, pytest.approx(1))
    assert first.deviation == pytest.approx(deviation)
    assert first.smallest == pytest.approx(smallest_difference(deviation, 80))
    assert first.rows_needed == rows_needed(deviation, 0.05)
    assert second.rows == 50
    assert power_of(differences, 0.0)[0].rows_needed is None


def test_copied_rows_need_as_many_groups_as_rows_alone() -> None:
    differences = np.random.default_rng(2).normal(0.05, 0.3, (60, 1))
    alone = power_of(differences, 0.04)[0]
    copied = power_of(np.repeat(differences, 4, axis=0), 0.04, groups=np.repeat(np.arange(60), 4))[0]
    assert copied.smallest == pytest.approx(alone.smallest)
    assert (copied.groups, copied.rows_needed) == (60, 4 * alone.rows_needed)


def test_too_few_say_nothing_and_equal_differences_all() -> None:
    assert power_of(np.array([[0.1], [np.nan]]), 0.1) == [None]
    assert power_of(np.array([[0.1], [0.2]]), 0.1, groups=[1, 1]) == [None]
    few = power_of(np.array([[0.1], [0.2], [0.3]]), 0.1)[0]
    assert few.smallest is None
    equal = power_of(np.full((9, 1), 0.1), 0.1)[0]
    assert (equal.deviation, equal.design_effect, equal.rows_needed) == (0, 1, 36)
    assert equal.smallest == pytest.approx(1 - 0.025 ** (1 / 9))


@given(st.integers(0, 10**7))
def test_about_is_never_fewer_and_has_two_digits(number: int) -> None:
    rounded = about(number)
    assert number <= rounded <= number * 1.1 + 1
    assert len(str(rounded).rstrip("0")) <= 2


def drawn(generator: np.random.Generator, rows: int, repeats: int, of_rows: float, rest: float) -> np.ndarray:
    return 0.5 + generator.normal(0, of_rows, (rows, 1)) + generator.normal(0, rest, (rows, repeats))


def test_equal_repeats_count_once() -> None:
    scores = np.random.default_rng(3).random(40)
    found = crossed_interval(np.column_stack([scores] * 5))
    assert found == pytest.approx(bootstrap_intervals([scores.tolist()])[0])


def test_repeats_that_agree_but_for_noise_give_the_interval_of_the_rows_means() -> None:
    generator = np.random.default_rng(4)
    scores = generator.random((50, 1)) + generator.normal(0, 0.05, (50, 3))
    scores -= scores.mean(axis=0) - scores.mean()
    groups = np.arange(50) % 12
    assert crossed_interval(scores) == pytest.approx(bootstrap_intervals([scores.mean(axis=1)])[0])
    expected = bootstrap_intervals([scores.mean(axis=1)], groups=groups)[0]
    assert crossed_interval(scores, groups=groups) == pytest.approx(expected)
    assert crossed_interval(np.array([[0.5, 0.6]])) is None


@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_the_variance_of_repeats_is_that_of_a_table_of_two_ways(repeats: int) -> None:
    """Of the mean squares: σ² of repeats = (MS of repeats − MS of the rest) / rows; Satterthwaite's degrees."""
    generator = np.random.default_rng(repeats)
    scores = drawn(generator, 12, repeats, 0.2, 0.1) + np.linspace(0, 0.2, repeats)
    of_rows, of_repeats, middle = scores.mean(axis=1), scores.mean(axis=0), scores.mean()
    rest = [scores[i, j] - of_rows[i] - of_repeats[j] + middle for i in range(12) for j in range(repeats)]
    of_rest = np.square(rest).sum() / 11 / (repeats - 1)
    added = (12 * np.square(of_repeats - middle).sum() / (repeats - 1) - of_rest) / 12 / repeats
    assert added > 0
    low, high = bootstrap_intervals([of_rows])[0] or (0.0, 0.0)
    own = ((high - low) / 2 / t.ppf(0.975, 11)) ** 2
    degrees = (own + added) ** 2 / (own**2 / 11 + added**2 / (repeats - 1))
    factor = np.sqrt((own + added) / own) * t.ppf(0.975, degrees) / t.ppf(0.975, 11)
    assert crossed_interval(scores) == pytest.approx(
        (middle + (low - middle) * factor, middle + (high - middle) * factor)
    )


@pytest.mark.parametrize(("rows", "span"), [(40, 1.0), (40, 9.0), (6, 0.1)])
def test_the_smallest_difference_is_guenthers_or_what_rows_can_miss(rows: int, span: float) -> None:
    z, own = norm.ppf(0.995), norm.ppf(0.8) * 0.3
    seen = (z * 0.3 + own) / (rows - z**2 / 2) ** 0.5
    unseen = (1 - 0.025 ** (1 / rows)) * span + own / rows**0.5
    assert smallest_difference(0.3, rows, alpha=0.01, span=span) == pytest.approx(max(seen, unseen))


def test_several_tests_share_the_level() -> None:
    (shared,) = power_of(np.eye(20)[:, :1], 0.1, tests=5, spans=[2.0])
    assert shared.smallest == smallest_difference(shared.deviation, 20, alpha=0.01, span=2.0)
