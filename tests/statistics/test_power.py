from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from mlflow_ragmetrics.statistics.power import Plan, about, paired_deviation, plans, power_of, smallest_difference
from mlflow_ragmetrics.statistics.repeats import VarianceParts
from mlflow_ragmetrics.statistics.significance import rows_needed


@given(st.floats(0.05, 2), st.integers(7, 5000))
def test_the_smallest_difference_needs_as_many_rows_as_there_are(deviation: float, rows: int) -> None:
    smallest = smallest_difference(deviation, rows)
    assert smallest is not None
    assert rows_needed(deviation, smallest * (1 + 1e-9)) == rows


def test_it_is_seen_in_four_of_five_samples() -> None:
    smallest = smallest_difference(0.3, 40)
    samples = np.random.default_rng(0).normal(smallest, 0.3, (40, 3000))
    assert np.mean(ttest_1samp(samples, 0).pvalue < 0.05) == pytest.approx(0.8, abs=0.025)
    assert smallest_difference(0.3, 5) is None
    assert smallest_difference(0.3, 6) is not None
    assert smallest_difference(0.3, 6, alpha=0.0001) is None
    assert smallest_difference(0.3, 40, power=0.9) > smallest
    assert smallest_difference(0.3, 40, alpha=0.01) > smallest


def test_of_rows_of_their_own() -> None:
    differences = np.random.default_rng(1).normal(0.05, 0.3, (80, 2))
    differences[:30, 1] = np.nan
    first, second = power_of(differences)
    assert first is not None
    assert second is not None
    deviation = differences[:, 0].std(ddof=1)
    assert (first.rows, first.groups, first.design_effect) == (80, 80, pytest.approx(1))
    assert first.deviation == pytest.approx(deviation)
    assert first.smallest == pytest.approx(smallest_difference(deviation, 80))
    assert first.rows_needed(0.05) == first.groups_needed(0.05) == rows_needed(deviation, 0.05)
    assert (second.rows, second.groups) == (50, 50)


def test_copied_rows_need_as_many_groups_as_rows_alone() -> None:
    differences = np.random.default_rng(2).normal(0.05, 0.3, (60, 1))
    alone = power_of(differences)[0]
    copied = power_of(np.repeat(differences, 4, axis=0), groups=np.repeat(np.arange(60), 4), power=0.8)[0]
    assert alone is not None
    assert copied is not None
    assert copied.smallest == pytest.approx(alone.smallest)
    assert copied.groups_needed(0.04) == alone.groups_needed(0.04)
    assert copied.rows_needed(0.04) == 4 * alone.rows_needed(0.04)


def test_too_few_say_nothing_and_equal_differences_all() -> None:
    assert power_of(np.array([[0.1], [np.nan]])) == [None]
    assert power_of(np.array([[0.1], [0.2]]), groups=[1, 1]) == [None]
    few = power_of(np.array([[0.1], [0.2], [0.3]]))[0]
    assert few is not None
    assert few.smallest is None
    equal = power_of(np.full((9, 1), 0.1))[0]
    assert equal is not None
    assert (equal.deviation, equal.design_effect, equal.smallest, equal.rows_needed(0.1)) == (0, 1, 0, 6)


def test_rows_buy_more_where_rows_differ_and_repeats_where_these_do_and_rows_are_dear() -> None:
    rows_differ = VarianceParts(rows=0.09, judges=0.0, judges_by_rows=0.0, repeats=0.01)
    assert plans(rows_differ, 0.05)[0].repeats == 1
    repeats_differ = VarianceParts(rows=0.01, judges=0.5, judges_by_rows=0.0, repeats=0.09)
    cheapest = plans(repeats_differ, 0.05, row_cost=10)[0]
    assert cheapest.repeats == 10
    rows = rows_needed(np.sqrt(0.01 + 0.009), 0.05)
    assert cheapest == Plan(rows, 10, rows * 20)
    found = plans(repeats_differ, 0.05, repeats=(2, 4), judges=3, score_cost=0.5)
    assert {plan.repeats for plan in found} == {2, 4}
    rows = rows_needed(np.sqrt(0.01 + 0.09 / 6), 0.05)
    assert Plan(rows, 2, rows * 3.0) in found
    assert found[0].cost <= found[1].cost


def test_equal_cost_prefers_fewer_repeats() -> None:
    free = plans(VarianceParts(0.1, 0, 0, 0), 0.1, row_cost=1, score_cost=0, repeats=(3, 1))
    assert [plan.repeats for plan in free] == [1, 3]


def test_the_deviation_of_differences() -> None:
    assert paired_deviation(0.3, 0.5) == pytest.approx(0.3)
    assert paired_deviation(0.3, 0.0) == pytest.approx(0.3 * 2**0.5)


@given(st.integers(0, 10**7))
def test_about_is_never_fewer_and_has_two_digits(number: int) -> None:
    rounded = about(number)
    assert number <= rounded <= number * 1.1 + 1
    assert len(str(rounded).rstrip("0")) <= 2
