from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import permutation_test, skew, t, ttest_1samp, ttest_ind

from mlflow_ragmetrics.statistics.intervals import clusters_of, sign_flip_p_values
from mlflow_ragmetrics.statistics.significance import (
    equal_columns,
    holm,
    paired_tests,
    skewed_t_test,
    welch_tests,
)


def test_it_is_scipys_permutation_test() -> None:
    differences = np.random.default_rng(2).normal(0.15, 0.3, (14, 1))
    exact = permutation_test((differences[:, 0],), np.sum, permutation_type="samples", n_resamples=np.inf).pvalue
    assert sign_flip_p_values(differences, resamples=50_000, seed=0)[0] == pytest.approx(exact, abs=0.01)
    assert sign_flip_p_values(differences, resamples=2**14, seed=0) == pytest.approx([exact])
    assert sign_flip_p_values(differences, resamples=2**14 - 1, seed=0) != pytest.approx([exact], abs=1e-9)


@given(st.integers(6, 400), st.integers(0, 2**32))
def test_without_skew_it_is_students_t_test(rows: int, seed: int) -> None:
    half = np.random.default_rng(seed).normal(0.0, 0.3, rows)
    differences = np.concatenate([half, -half]) + 0.02
    assert skewed_t_test(clusters_of(differences)) == pytest.approx(ttest_1samp(differences, 0).pvalue)


@pytest.mark.parametrize("side", [1, -1])
def test_the_skew_is_removed_as_hall_does(side: int) -> None:
    """Hall (1992): g(t) = t + γt²/3 + γ²t³/27 + γ/(6n), of the mean over the standard deviation."""
    differences = side * (np.random.default_rng(7).exponential(0.1, 40) - 0.06)
    ratio, gamma = differences.mean() / differences.std(ddof=1), skew(differences)
    moved = ratio + gamma * ratio**2 / 3 + gamma**2 * ratio**3 / 27 + gamma / 6 / 40
    expected = 2 * t.sf(abs(moved) * 40**0.5, 39) if moved * ratio > 0 else 1.0
    assert skewed_t_test(clusters_of(differences)) == pytest.approx(expected)


def test_a_mean_whose_skew_turns_its_sign_shows_nothing() -> None:
    assert skewed_t_test(clusters_of(np.array([0.1] * 9 + [-0.88]))) == 1.0


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=40))
def test_the_larger_of_both_p_values_counts(values: list[float]) -> None:
    differences = np.array(values)[:, None]
    flips = sign_flip_p_values(differences, resamples=500, seed=0)[0]
    (found,) = paired_tests(differences, resamples=500)
    assert found == pytest.approx(max(flips, skewed_t_test(clusters_of(differences[:, 0]))))
    assert 0 <= found <= 1


def test_ties_count_as_far_as_observed() -> None:
    differences = np.array([[0.1]] * 6)
    assert paired_tests(differences, resamples=50_000)[0] == pytest.approx(2 / 64, abs=0.004)


def test_without_a_difference_p_is_one_and_it_is_never_zero() -> None:
    assert paired_tests(np.column_stack([np.zeros(50), np.full(50, 0.5)]), resamples=999) == [1.0, 0.002]


def test_missing_pairs_do_not_count() -> None:
    differences = np.random.default_rng(4).normal(0.1, 0.3, 40)
    padded = np.concatenate([differences, np.full(17, np.nan)])
    (alone,), (with_gaps,) = paired_tests(differences[:, None]), paired_tests(padded[:, None])
    assert with_gaps == pytest.approx(alone, abs=0.02)
    assert paired_tests(np.array([[0.5], [np.nan]])) == [1.0]


def test_equal_columns_are_found_once() -> None:
    a = np.array([[0.1, 0.1, 0.2, 0.1], [np.nan, np.nan, 0.3, 0.0]])
    assert equal_columns(a.T) == [0, 0, 2, 3]
    assert equal_columns(a.T, np.array([[1.0, 0.0, 0.0, 0.0]]).T) == [0, 1, 2, 3]
    assert equal_columns([]) == []


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_groups_turn_as_one() -> None:
    differences = np.array([[0.2], [0.1], [0.3], [0.4], [-0.1], [np.nan]])
    groups = ["a", "a", "b", "c", "c", "d"]
    # Sums 0.3, 0.3, 0.3 and 0: two of the patterns of three signs reach 0.9.
    assert paired_tests(differences, groups=groups) == pytest.approx([2 / 8])
    assert paired_tests(np.full((6, 1), np.nan), groups=groups) == [1.0]


def test_copied_rows_know_no_more_than_their_groups() -> None:
    differences = np.random.default_rng(2).normal(0.15, 0.3, (30, 2))
    copied, groups = np.repeat(differences, 5, axis=0), np.repeat(np.arange(30), 5)
    assert paired_tests(copied, groups=groups) == pytest.approx(paired_tests(differences), abs=1e-9)
    assert paired_tests(copied)[0] < paired_tests(differences)[0]


@pytest.mark.parametrize("rows", [8, 60])
def test_order_sign_and_names_change_no_p_value(rows: int) -> None:
    generator = np.random.default_rng(rows)
    differences, codes = generator.normal(0.1, 0.5, (rows, 3)), generator.integers(0, rows // 2, rows)
    order = generator.permutation(rows)
    names = generator.permutation(rows)
    assert paired_tests(-differences[order]) == paired_tests(differences)
    found = paired_tests(differences, groups=codes)
    assert paired_tests(differences[order], groups=names[codes][order]) == pytest.approx(found)


def test_of_groups_of_one_size_it_is_the_test_of_their_means() -> None:
    differences = np.random.default_rng(5).normal(0.1, 0.3, 24)
    means = differences.reshape(6, 4).mean(axis=1)
    assert skewed_t_test(clusters_of(differences, np.repeat(np.arange(6), 4))) == pytest.approx(
        skewed_t_test(clusters_of(means))
    )


def test_of_very_many_rows_it_is_the_t_test_alone() -> None:
    differences = np.random.default_rng(6).normal(0.01, 0.3, (1001, 1))
    assert paired_tests(differences) == [skewed_t_test(clusters_of(differences[:, 0]))]
    assert paired_tests(differences) == pytest.approx([ttest_1samp(differences[:, 0], 0).pvalue], abs=0.01)


@pytest.mark.parametrize("rows", [(6, 9), (40, 30)])
def test_two_sides_are_compared_by_welchs_test(rows: tuple[int, int]) -> None:
    generator = np.random.default_rng(rows)
    one, other = generator.normal(0.1, 0.1, rows[0]), generator.normal(0, 0.4, rows[1])
    inside = np.arange(sum(rows)) < rows[0]
    expected = ttest_ind(one, other, equal_var=False).pvalue
    assert welch_tests(np.concatenate([one, other])[:, None], inside) == pytest.approx([expected])


def test_of_groups_of_one_size_welchs_test_is_that_of_their_means() -> None:
    generator = np.random.default_rng(8)
    values, groups = generator.normal(0.3, [[0.1], [0.4]], (2, 36)), np.tile(np.repeat(np.arange(9), 4), (2, 1))
    values[1], groups[1] = values[1] + 0.2, groups[1] // 2 + 9  # nine groups of four, and eight rows or four in five
    inside = np.arange(72) < 36
    one, other = clusters_of(values[0], groups[0]), clusters_of(values[1], groups[1])
    assert one.degrees == pytest.approx(8)
    degrees = (one.variance + other.variance) ** 2 / sum(each.variance**2 / each.degrees for each in (one, other))
    ratio = abs(one.mean - other.mean) / (one.variance + other.variance) ** 0.5
    found = welch_tests(values.reshape(72, 1), inside, groups.reshape(72))
    assert found == pytest.approx([2 * t.sf(ratio, degrees)])
    means = [values[0].reshape(9, 4).mean(axis=1), values[1][:32].reshape(4, 8).mean(axis=1)]
    alike = welch_tests(np.concatenate([values[0], values[1][:32]])[:, None], inside[:68], groups.reshape(72)[:68])
    assert alike == pytest.approx([ttest_ind(*means, equal_var=False).pvalue])


def test_without_two_groups_a_side_or_any_difference_there_is_no_p_value() -> None:
    inside = np.array([True, True, False, False])
    equal, apart, alone = [0.5] * 4, [0.5, 0.5, 0.1, 0.1], [0.1, 0.2, 0.9, np.nan]
    assert welch_tests(np.array([equal, apart, alone]).T, inside) == [None, 0.0, None]
    assert welch_tests(np.array([[0.1, 0.2, 0.8, 0.9]]).T, inside, ["a", "a", "b", "c"]) == [None]
    unscored = np.array([[np.nan, np.nan, 0.8, 0.9], [0.1, 0.2, np.nan, np.nan]])
    assert welch_tests(unscored.T, inside) == [None, None]


@pytest.mark.parametrize("scale", [1e-140, 1e20])
def test_the_scale_of_the_differences_changes_no_p_value(scale: float) -> None:
    differences = np.random.default_rng(3).exponential(0.2, (12, 2)) - 0.1
    assert paired_tests(differences * scale) == pytest.approx(paired_tests(differences))
