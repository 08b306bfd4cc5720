from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.statistics.agreement import ThresholdGain, _between, _folds, best_threshold, threshold_gain
from mlflow_ragmetrics.statistics.intervals import paired_intervals


def balanced(values: np.ndarray, bad: np.ndarray, cut: float) -> float:
    flagged = values < cut - 1e-9
    return float((flagged[bad].mean() + (~flagged[~bad]).mean()) / 2)


def scored(rows: int, shift: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    bad = generator.random(rows) < 0.4
    return np.clip(generator.normal(0.75 - shift * bad, 0.12, rows), 0, 1), bad


def test_the_best_threshold_lies_between_the_classes_with_few_decimals() -> None:
    values, bad = np.array([0.1, 0.2, 0.61, 0.9]), np.array([True, True, False, False])
    assert best_threshold(values, bad, default=0.95) == 0.4
    assert best_threshold(values, bad, default=0.5) == 0.5
    two = np.array([0.1, 0.2, 0.5, 0.8]), np.array([True, False, True, False])
    assert [best_threshold(*two, default) for default in (0.3, 0.45)] == [0.2, 0.7]


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), st.booleans()), min_size=2, max_size=30))
def test_no_other_threshold_is_better(rows: list[tuple[float, bool]]) -> None:
    values, bad = np.array([v for v, _ in rows]), np.array([b for _, b in rows])
    if bad.all() or not bad.any():
        return
    reached = balanced(values, bad, best_threshold(values, bad, 0.5))
    assert all(balanced(values, bad, cut) <= reached + 1e-9 for cut in (-0.1, 0.1, 0.3, 0.5, 0.6, 0.9, 1.1))


def test_a_default_that_is_as_good_is_kept() -> None:
    values, bad = scored(300, 0.3)
    gain = threshold_gain(values, bad, default=0.6)
    assert not gain.beats_default


def test_a_gain_whose_interval_holds_zero_does_not_beat_the_default() -> None:
    assert not ThresholdGain(chosen=0.6, held_out=0.8, default=0.7, gain=0.1, low=-0.01, high=0.2).beats_default
    assert ThresholdGain(chosen=0.6, held_out=0.8, default=0.7, gain=0.1, low=0.01, high=0.2).beats_default


def test_a_row_whose_score_is_the_threshold_itself_is_not_flagged() -> None:
    values, bad = np.array([0.2, 0.5] * 15), np.array([True, False] * 15)
    gain = threshold_gain(values, bad, default=0.5)
    assert gain.default == 1.0


def test_too_few_rows_of_a_class_give_no_threshold() -> None:
    assert threshold_gain(np.linspace(0, 1, 30), np.arange(30) < 9, default=0.5) is None


def test_groups_stay_together_and_count_as_one() -> None:
    values, bad = scored(60, 0.3)
    many = threshold_gain(values, bad, 0.2)
    groups = [f"g{row % 60}" for row in range(240)]
    copied = threshold_gain(np.tile(values, 4), np.tile(bad, 4), 0.2, groups=groups)
    assert copied.high - copied.low == pytest.approx(many.high - many.low, rel=0.25)


@given(
    st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=2, max_size=12),
    st.sampled_from([-0.05, 0.1, 0.4, 0.55, 0.9]),
)
def test_of_equally_good_thresholds_the_nearest_to_the_default_counts(
    rows: list[tuple[int, bool]], default: float
) -> None:
    values, bad = np.array([v / 10 for v, _ in rows]), np.array([b for _, b in rows])
    if bad.all() or not bad.any():
        return
    chosen = best_threshold(values, bad, default)
    best = balanced(values, bad, chosen)
    if balanced(values, bad, default) >= best - 1e-9:
        assert chosen == default
    low, high = sorted((default, chosen))
    between = {each for each in values if low <= each < high}
    for cut in {each for each in np.arange(-1, 10) / 10 + 0.05 if low < each < high}:
        passed = {each for each in values if min(cut, default) <= each < max(cut, default)}
        assert passed == between or balanced(values, bad, cut) < best - 1e-9


def test_classes_apart_are_told_apart_in_every_fold() -> None:
    """Ten rows of each class, the least that is taken: all are right in the folds, and five with the default."""
    values, bad = np.array([0.1] * 10 + [0.7] * 5 + [0.9] * 5), np.arange(20) < 10
    gain = threshold_gain(values, bad, default=0.8)
    assert (gain.held_out, gain.default, gain.gain) == pytest.approx((1.0, 0.75, 0.25))
    assert gain.chosen == 0.4
    expected = paired_intervals(np.array([0.0] * 10 + [1.0] * 5 + [0.0] * 5)[:, None])[0]
    assert (gain.low, gain.high) == pytest.approx(expected)
    assert threshold_gain(values[1:], bad[1:], default=0.8) is None


@pytest.mark.parametrize("shift", [0.1, 0.2, 0.3])
def test_the_figures_of_a_gain_are_shares_of_rows(shift: float) -> None:
    values, bad = scored(300, shift)
    gain = threshold_gain(values, bad, default=0.5)
    assert gain.default == pytest.approx(balanced(values, bad, 0.5))
    assert gain.gain == pytest.approx(gain.held_out - gain.default)
    best = balanced(values, bad, gain.chosen)
    assert best - 0.1 < gain.held_out <= best
    assert gain.low < gain.gain < gain.high


def test_groups_with_both_classes_are_spread_first() -> None:
    """All good rows lie in two groups of 200: dealt among all others, they would now and then share a fold."""
    names = np.repeat(np.arange(200), 2)
    bad = np.ones(400, dtype=bool)
    bad[[0, 2]] = False
    for seed in range(50):
        fold = _folds(names, bad, np.random.default_rng(seed))
        assert fold[0] != fold[2]
        assert (fold[::2] == fold[1::2]).all()


@pytest.mark.parametrize(("place", "cut"), [(0, 0.52), (1, 0.6), (2, 0.71)])
def test_a_cut_has_few_decimals_also_outside_of_all_scores(place: int, cut: float) -> None:
    assert _between(np.array([0.523, 0.704]), place) == cut
