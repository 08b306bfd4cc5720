from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student
from scipy.stats import ttest_1samp

from mlflow_ragmetrics.statistics.intervals import (
    MANY_ROWS,
    agresti_min_interval,
    bootstrap_intervals,
    clusters_of,
    paired_intervals,
    wilson_limits,
)

DRAW = np.random.default_rng(12)


def grouped(groups: int, size: int = 4, spread: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    codes = np.repeat(np.arange(groups), size)
    return np.clip(DRAW.normal(0.6, spread, groups)[codes] + DRAW.normal(0, 0.1, codes.size), 0, 1), codes


@pytest.mark.parametrize("groups", [2, 9, 39])
def test_few_groups_of_one_size_have_the_t_interval_of_their_means(groups: int) -> None:
    values, codes = grouped(groups)
    expected = ttest_1samp(values.reshape(groups, -1).mean(axis=1), 0).confidence_interval()
    low, high = max(0.0, expected.low), min(1.0, expected.high)
    assert bootstrap_intervals([values], groups=codes)[0] == pytest.approx((low, high))
    expected = ttest_1samp(values.reshape(groups, -1).mean(axis=1) - 0.5, 0).confidence_interval()
    low, high = max(-1.0, expected.low), min(1.0, expected.high)
    assert paired_intervals((values - 0.5)[:, None], groups=codes)[0] == pytest.approx((low, high))


def test_scores_of_another_scale_are_not_held_to_0_and_1() -> None:
    low, high = bootstrap_intervals([[1.0, 4.0, 3.0, 2.0]], groups=[1, 1, 2, 2])[0] or (0, 0)
    assert (low, high) == (2.5, 2.5)
    low, high = bootstrap_intervals([[1.0, 1.0, 3.0, 2.0]], groups=[1, 1, 2, 2])[0] or (0, 0)
    assert (low, high) == pytest.approx((1.75 - student.ppf(0.975, 1) * 0.75, 1.75 + student.ppf(0.975, 1) * 0.75))
    assert (bootstrap_intervals([[0.2, 0.3, 0.9, 0.8]], groups=[1, 1, 2, 2])[0] or (9, 9)) == (0.0, 1.0)
    assert (bootstrap_intervals([[-0.2, -0.3, 0.9, 0.8]], groups=[1, 1, 2, 2])[0] or (9, 9)) == (-1.0, 1.0)


def test_from_forty_groups_on_whole_groups_are_drawn_again() -> None:
    values, codes = grouped(40)
    of_means = bootstrap_intervals([values.reshape(40, -1).mean(axis=1)], resamples=20_000)[0]
    found = bootstrap_intervals([values], groups=codes, resamples=20_000)[0]
    assert found == pytest.approx(of_means, abs=0.003)
    t = ttest_1samp(values.reshape(40, -1).mean(axis=1), 0).confidence_interval()
    assert found != pytest.approx((t.low, t.high), abs=1e-9)


def test_the_closed_form_for_many_groups_goes_on_from_the_bootstrap() -> None:
    codes = np.repeat(np.arange(MANY_ROWS), 2)
    values = DRAW.beta(0.5, 3, MANY_ROWS)[codes]
    resampled = bootstrap_intervals([values], groups=codes, resamples=8000)[0] or (0, 1)
    more = bootstrap_intervals([[*values, float(values.mean())]], groups=[*codes, MANY_ROWS])[0]
    assert more == pytest.approx(resampled, abs=0.03 * (resampled[1] - resampled[0]))


def test_binary_scores_of_few_groups_have_wilsons_interval_of_their_effective_rows() -> None:
    values = np.array([1.0, 1, 1, 0, 1, 0, 1, 1, 1, 1, 0, 0])
    codes = np.repeat(np.arange(4), 3)
    rows = clusters_of(values, codes).effective_rows
    assert rows < 12
    expected = wilson_limits(8 / 12, rows, student.ppf(0.975, 3))
    assert bootstrap_intervals([values], groups=codes)[0] == pytest.approx(expected)


def test_groups_that_all_pass_count_as_one_row_each() -> None:
    assert bootstrap_intervals([np.ones(50)], groups=np.arange(50) % 10)[0] == pytest.approx((0.025**0.1, 1.0))


@pytest.mark.parametrize("changed", [14, 15])
def test_differences_of_fewer_than_fifteen_groups_have_agresti_and_mins(changed: int) -> None:
    values = np.zeros(200)
    values[: 4 * changed : 4] = np.linspace(0.1, 0.8, changed)
    codes = np.repeat(np.arange(50), 4)
    rows, square = clusters_of(values, codes).effective_rows, float((values**2).mean())
    expected = agresti_min_interval(float(values.mean()), square, rows, (-0.9, 0.9), student.ppf(0.975, 49))
    found = paired_intervals(values[:, None], groups=codes)[0]
    assert (found == pytest.approx(expected, abs=1e-9)) == (changed == 14)


def test_closed_forms_by_hand() -> None:
    assert wilson_limits(0.8, 10, 1.959964) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)
    # Mean 0.1, mean square 0.1 of 10 rows: 1/12, variance (1 + 1)/12 - 1/144 over 12.
    half = 2 * np.sqrt((2 / 12 - 1 / 144) / 12)
    assert agresti_min_interval(0.1, 0.1, 10, (-1.0, 1.0), 2.0) == pytest.approx((1 / 12 - half, 1 / 12 + half))
    assert agresti_min_interval(1.0, 1.0, 1, (-1.0, 1.0), 9.0) == (-1.0, 1.0)


def test_equal_values_have_the_interval_of_their_groups_and_one_group_nothing() -> None:
    share = 1 - 0.025 ** (1 / 3)
    assert paired_intervals(np.zeros((6, 1)), groups=[1, 1, 2, 2, 3, 3]) == [pytest.approx((-share, share))]
    assert paired_intervals(np.array([[0.1], [0.2]]), groups=[1, 1]) == [None]
    assert bootstrap_intervals([[0.1, np.nan], [np.nan, np.nan]], groups=[1, 2]) == [None, None]
    assert bootstrap_intervals([[1.0, 0.0]], groups=[1, 1]) == [None]
    assert bootstrap_intervals([], groups=[]) == []
    share = 1 - 0.025 ** (1 / 80)
    found = bootstrap_intervals([np.full(80, 0.4)], groups=np.arange(80))[0]
    assert found == pytest.approx((0.4 - share * 0.4, 0.4 + share * 0.6))


@pytest.mark.parametrize("groups", [9, 45])
def test_columns_do_not_disturb_each_other_and_missing_rows_do_not_count(groups: int) -> None:
    values, codes = grouped(groups)
    other = np.where(np.arange(values.size) % 3 == 0, np.nan, values)
    together = bootstrap_intervals([values, other], groups=codes)
    assert together[0] == bootstrap_intervals([values], groups=codes)[0]
    present = ~np.isnan(other)
    assert together[1] == bootstrap_intervals([other[present]], groups=codes[present])[0]
    assert bootstrap_intervals([[0.1, 0.9, np.nan]])[0] == bootstrap_intervals([[0.1, 0.9]])[0]


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 60), st.integers(0, 99), st.booleans())
def test_order_and_names_change_no_bit_and_signs_turn_the_interval(groups: int, seed: int, use_groups: bool) -> None:
    generator = np.random.default_rng(seed)
    values = generator.normal(0.05, 0.3, (3 * groups, 2)).round(2)
    codes = generator.integers(0, groups, 3 * groups)
    order = generator.permutation(3 * groups)
    names = generator.permutation(groups)
    first, moved = (codes, names[codes][order]) if use_groups else (None, None)
    found = paired_intervals(values, groups=first, resamples=300)
    assert paired_intervals(values[order], groups=moved, resamples=300) == found
    assert bootstrap_intervals(list(values[order].T), groups=moved) == bootstrap_intervals(list(values.T), groups=first)
    turned = paired_intervals(-values, groups=first, resamples=300)
    for interval, other in zip(found, turned, strict=True):
        assert (interval is None) == (other is None)
        if interval is not None:
            assert other == pytest.approx((-interval[1], -interval[0]), abs=1e-9)


def test_the_number_of_threads_changes_no_bit() -> None:
    limits = pytest.importorskip("threadpoolctl").threadpool_limits
    values, codes = DRAW.random((300, 7)), np.arange(300) % 60
    found = []
    for threads in (1, 4):
        with limits(threads):
            found.append(
                (paired_intervals(values), paired_intervals(values, groups=codes), bootstrap_intervals(list(values.T)))
            )
    assert found[0] == found[1]


@pytest.mark.parametrize("groups", [10, 40])
def test_most_intervals_hold_the_truth(groups: int) -> None:
    generator = np.random.default_rng(groups)
    codes = np.repeat(np.arange(groups), np.round(2 * 8 ** generator.random(groups)).astype(int))
    values = generator.beta(6, 4, (groups, 400))[codes] / 2 + generator.beta(6, 4, (codes.size, 400)) / 2
    found = np.array(bootstrap_intervals(list(values.T), groups=codes, resamples=1000), dtype=float)
    assert 0.92 <= np.mean((found[:, 0] <= 0.6) & (found[:, 1] >= 0.6)) <= 0.98
