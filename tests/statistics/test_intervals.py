from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap

from mlflow_ragmetrics.statistics.intervals import (
    MANY_ROWS,
    bootstrap_interval,
    paired_intervals,
)

DRAW = np.random.default_rng(5)


def test_fewer_than_two_values_have_no_interval() -> None:
    assert bootstrap_interval([]) is None
    assert bootstrap_interval([0.7]) is None
    assert paired_intervals(np.array([[0.1], [np.nan]])) == [None]


def test_it_is_scipys_bca_interval_a_little_wider() -> None:
    scores = np.random.default_rng(3).beta(2, 5, 200)
    reference = bootstrap((scores,), np.mean, n_resamples=20_000, random_state=1).confidence_interval
    low, high = bootstrap_interval(scores.tolist(), resamples=20_000) or (0.0, 0.0)
    width = reference.high - reference.low
    assert low == pytest.approx(reference.low, abs=0.03 * width)
    assert high == pytest.approx(reference.high, abs=0.03 * width)


def test_binary_scores_have_wilsons_interval() -> None:
    assert bootstrap_interval([1.0] * 8 + [0.0] * 2) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)


def test_scores_that_all_pass_leave_room_for_doubt() -> None:
    low, high = bootstrap_interval([1.0] * 30) or (1.0, 0.0)
    assert low == pytest.approx(0.8865, abs=1e-3)
    assert high == 1.0


def test_equal_scores_that_are_not_binary_have_an_interval_of_one_point() -> None:
    assert bootstrap_interval([0.4] * 10) == pytest.approx((0.4, 0.4))


def test_the_same_values_give_the_same_interval() -> None:
    scores = DRAW.random(50).tolist()
    assert bootstrap_interval(scores) == bootstrap_interval(scores)


def test_the_closed_form_for_many_rows_goes_on_from_the_bootstrap() -> None:
    scores = np.random.default_rng(8).beta(0.5, 3, MANY_ROWS)
    resampled = bootstrap_interval(scores.tolist(), resamples=4000)
    expanded = bootstrap_interval([*scores.tolist(), float(scores.mean())])
    assert resampled is not None
    assert expanded == pytest.approx(resampled, abs=0.05 * (resampled[1] - resampled[0]))


def test_columns_do_not_disturb_each_other() -> None:
    differences = DRAW.normal(0.1, 0.3, (60, 3))
    together = paired_intervals(differences)
    for column in range(3):
        assert paired_intervals(differences[:, [column]])[0] == pytest.approx(together[column], abs=1e-6)


def test_missing_pairs_are_left_out() -> None:
    differences = DRAW.normal(0.2, 0.1, 80)
    with_gaps = np.column_stack([np.concatenate([differences, np.full(40, np.nan)]), DRAW.normal(size=120)])
    alone = paired_intervals(differences[:, None])[0] or (0.0, 0.0)
    assert paired_intervals(with_gaps)[0] == pytest.approx(alone, abs=0.1 * (alone[1] - alone[0]))


def test_no_difference_at_all_has_an_interval_of_one_point() -> None:
    assert paired_intervals(np.zeros((30, 1))) == [(0.0, 0.0)]


def test_one_changed_row_of_thirty_leaves_room_for_doubt() -> None:
    differences = np.zeros((30, 1))
    differences[4] = 1.0
    low, high = paired_intervals(differences)[0] or (0.0, 0.0)
    assert low < 0 < high
    assert high > 0.1


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=2, max_size=40))
def test_an_interval_lies_among_the_differences_and_turns_with_their_sign(values: list[float]) -> None:
    column = np.array(values)[:, None]
    low, high = paired_intervals(column, resamples=500)[0] or (0.0, 0.0)
    assert -1 - 1e-6 <= low <= high <= 1 + 1e-6
    turned_low, turned_high = paired_intervals(-column, resamples=500)[0] or (0.0, 0.0)
    step = np.ptp(column) / len(values)  # resampled means of a few values lie that far apart
    assert (turned_low, turned_high) == pytest.approx((-high, -low), abs=0.05 + step)


@pytest.mark.parametrize("rows", [30, 100])
def test_nineteen_of_twenty_intervals_hold_the_truth(rows: int) -> None:
    differences = np.random.default_rng(rows).beta(5, 2, (rows, 600)) - np.random.default_rng(1).beta(5, 3, (rows, 600))
    held = [low <= 5 / 7 - 5 / 8 <= high for low, high in filter(None, paired_intervals(differences, resamples=2000))]
    assert 0.92 <= np.mean(held) <= 0.98
