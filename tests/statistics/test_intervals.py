from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap, norm, t

from mlflow_ragmetrics.statistics.intervals import (
    MANY_ROWS,
    agresti_min_interval,
    bootstrap_intervals,
    clusters_of,
    paired_intervals,
)


def test_fewer_than_two_values_have_no_interval() -> None:
    assert bootstrap_intervals([[]])[0] is None
    assert bootstrap_intervals([[0.7]])[0] is None
    assert paired_intervals(np.array([[0.1], [np.nan]])) == [None]


def test_it_is_scipys_bca_interval_a_little_wider() -> None:
    scores = np.random.default_rng(3).beta(2, 5, 200)
    reference = bootstrap((scores,), np.mean, n_resamples=20_000, random_state=1).confidence_interval
    low, high = bootstrap_intervals([scores.tolist()], resamples=20_000)[0] or (0.0, 0.0)
    width = reference.high - reference.low
    assert low == pytest.approx(reference.low, abs=0.03 * width)
    assert high == pytest.approx(reference.high, abs=0.03 * width)


def test_few_rows_have_scipys_interval_of_a_wider_level() -> None:
    """Hesterberg (2015): the normal quantile becomes √(n/(n − 1)) times Student's."""
    scores = np.random.default_rng(12).random(8)
    level = 2 * norm.cdf(t.ppf(0.975, 7) * (8 / 7) ** 0.5) - 1
    reference = bootstrap(
        (scores,), np.mean, n_resamples=40_000, confidence_level=level, random_state=1
    ).confidence_interval
    found = bootstrap_intervals([scores.tolist()], resamples=40_000)[0]
    assert found == pytest.approx((reference.low, reference.high), abs=0.015 * (reference.high - reference.low))


def test_binary_scores_have_wilsons_interval() -> None:
    """With Student's quantile of 9 degrees: (0.8 + t²/20 ± t √(0.16/10 + t²/400)) / (1 + t²/10), t = 2.262157."""
    assert bootstrap_intervals([[1.0] * 8 + [0.0] * 2])[0] == pytest.approx((0.4445, 0.9527), abs=1e-3)


@given(st.floats(0, 1), st.integers(2, 300))
def test_equal_scores_leave_room_for_what_the_sample_missed(value: float, rows: int) -> None:
    """If a share p of rows differs, all n sampled rows are equal in 2.5 % of the samples: p = 1 − 0.025^(1/n)."""
    share = 1 - 0.025 ** (1 / rows)
    found = bootstrap_intervals([[value] * rows])[0]
    assert found == pytest.approx((value - share * value, value + share * (1 - value)), abs=1e-12)


def test_equal_scores_of_another_range_have_its_room() -> None:
    share = 1 - 0.025 ** (1 / 10)
    assert bootstrap_intervals([[3.0] * 10], ranges=[(1.0, 5.0)])[0] == pytest.approx((3 - 2 * share, 3 + 2 * share))


def test_the_closed_form_for_many_rows_goes_on_from_the_bootstrap() -> None:
    scores = np.random.default_rng(8).beta(0.5, 3, MANY_ROWS)
    resampled = bootstrap_intervals([scores.tolist()], resamples=4000)[0]
    expanded = bootstrap_intervals([[*scores.tolist(), float(scores.mean())]])[0]
    assert expanded == pytest.approx(resampled, abs=0.05 * (resampled[1] - resampled[0]))


@pytest.mark.parametrize(("rows", "reach"), [(6, 0.459), (30, 0.116), (72, 0.05)])
def test_no_difference_at_all_leaves_room_for_what_the_sample_missed(rows: int, reach: float) -> None:
    assert paired_intervals(np.zeros((rows, 1))) == [pytest.approx((-reach, reach), abs=1e-3)]
    assert paired_intervals(np.zeros((rows, 1)), spans=[4.0]) == [pytest.approx((-4 * reach, 4 * reach), abs=2e-3)]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=2, max_size=40))
def test_an_interval_lies_among_the_differences_and_turns_with_their_sign(values: list[float]) -> None:
    column = np.array(values)[:, None]
    low, high = paired_intervals(column, resamples=500)[0] or (0.0, 0.0)
    assert -1 - 1e-6 <= low <= high <= 1 + 1e-6
    turned_low, turned_high = paired_intervals(-column, resamples=500)[0] or (0.0, 0.0)
    step = np.ptp(column) / len(values)  # resampled means of a few values lie that far apart
    assert (turned_low, turned_high) == pytest.approx((-high, -low), abs=0.05 + step)


def of_few(changes: np.ndarray, low: float, high: float) -> tuple[float, float]:
    """Agresti and Min's interval with rows added halfway between the largest change and each end."""
    largest = np.abs(changes).max()
    ends = (low - min(largest, -low)) / 2, (high + min(largest, high)) / 2
    deviate = t.ppf(0.975, changes.size - 1)
    return agresti_min_interval(float(changes.mean()), float((changes**2).mean()), changes.size, ends, deviate)


@pytest.mark.parametrize(("changed", "few"), [(14, True), (15, False)])
def test_differences_of_which_fewer_than_fifteen_changed_have_agresti_and_mins(changed: int, few: bool) -> None:
    differences = np.zeros(60)
    differences[:changed] = np.linspace(-0.2, 0.4, changed)
    for span in (1.0, 0.3, 4.0):
        found = paired_intervals(differences[:, None], spans=[span])[0]
        reach = max(span, 0.4)
        assert (found == pytest.approx(of_few(differences, -reach, reach), abs=1e-9)) is few


@pytest.mark.parametrize("kinds", [(-1.0, 1.0, 0.0), (0.0, 1.0, 0.0), (-1.0, 1.0, 1.0), (-1.0, 0.0, 0.0)])
def test_differences_of_passes_have_agresti_and_mins_however_many_changed(kinds: tuple[float, float, float]) -> None:
    differences = np.repeat(kinds, [17, 18, 25])
    assert paired_intervals(differences[:, None])[0] == pytest.approx(of_few(differences, -1, 1))


@pytest.mark.parametrize(("rows", "changed", "few"), [(60, 14, True), (60, 15, False), (20, 5, True), (20, 6, False)])
@pytest.mark.parametrize("usual", [1.0, 0.25])
def test_scores_that_nearly_all_are_equal_have_agresti_and_mins_around_the_usual_one(
    rows: int, changed: int, few: bool, usual: float
) -> None:
    scores = np.full(rows, usual)
    scores[:changed] = np.linspace(0.3, 0.6, changed)
    low, high = of_few(scores - usual, -usual, 1 - usual)
    found = bootstrap_intervals([scores.tolist()], resamples=500)[0]
    assert (found == pytest.approx((low + usual, high + usual), abs=1e-9)) is few


@pytest.mark.parametrize("groups", [None, 4])
@pytest.mark.parametrize(
    ("low", "high", "limits"), [(0.0, 1.0, (0.0, 1.0)), (-1.0, 1.0, (-1.0, 1.0)), (0.0, 2.0, None), (-2.0, 1.0, None)]
)
def test_students_interval_stays_on_the_scale_of_its_scores(
    groups: int | None, low: float, high: float, limits: tuple[float, float] | None
) -> None:
    """Nearly all scores lie at one end of the scale. A score beyond it shows that the scale is another one."""
    rows = 1200 if groups is None else 12
    for usual, other, place in ((high, low, 1), (low, high, 0)):
        scores = np.full(rows, usual)
        scores[: rows // 4] += (other - usual) * np.linspace(0.0001, 0.01, rows // 4)
        scores[0] = other
        names = None if groups is None else np.arange(rows) // (rows // groups)
        found = bootstrap_intervals([scores.tolist()], groups=names)[0]
        assert found is not None
        sample = clusters_of(scores, names)
        half = t.ppf(0.975, sample.degrees) * sample.variance**0.5
        free = scores.mean() - half, scores.mean() + half
        if limits is None:
            assert found == pytest.approx(free)
        else:
            assert found == pytest.approx((max(free[0], limits[0]), min(free[1], limits[1])))
            assert groups is None or found[place] == limits[place]
