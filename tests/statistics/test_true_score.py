from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import linregress, t, ttest_1samp

from mlflow_ragmetrics.statistics.intervals import true_mean, wilson_limits

DRAW = np.random.default_rng(21)


def scored(rows: int, labels: int, rho: float = 0.8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    truth = generator.normal(0.6, 0.2, rows)
    scores = 0.5 + rho * (truth - 0.6) + np.sqrt(1 - rho**2) * generator.normal(0, 0.2, rows)
    return np.where(np.arange(rows) < labels, truth, np.nan), scores


@pytest.mark.parametrize("labels", [80, 300])
def test_of_many_labels_it_is_the_published_method(labels: int) -> None:
    known, scores = scored(2000, labels)
    y, f, others = known[:labels], scores[:labels], scores[labels:]
    # PPI++ with power tuning (Angelopoulos, Duchi and Zrnic 2023, equation 6).
    tuning = ((y - y.mean()) * (f - f.mean())).mean() / ((1 + labels / others.size) * scores.var(ddof=1))
    value = tuning * others.mean() + (y - tuning * f).mean()
    error = np.sqrt((tuning * others).var() / others.size + (y - tuning * f).var() / labels)
    found = true_mean(known, scores)
    assert found.value == pytest.approx(value, abs=0.2 * error)
    assert found.error == pytest.approx(error, rel=0.1)


def test_it_is_the_regression_estimator() -> None:
    labels, scores = scored(300, 40)
    line = linregress(scores[:40], labels[:40])
    found = true_mean(labels, scores)
    assert found.value == pytest.approx(line.intercept + line.slope * scores.mean())
    residuals = labels[:40] - line.intercept - line.slope * scores[:40]
    expected = np.sqrt((residuals**2).sum() / 38 / 40 + line.slope**2 * scores.var() / 300)
    assert found.error == pytest.approx(expected, rel=0.08)
    assert (found.labels, found.rows) == (40, 300)


def test_scores_that_say_nothing_leave_the_labels_alone() -> None:
    labels, _ = scored(300, 40)
    found = true_mean(labels, np.full(300, 0.3))
    assert found.value == pytest.approx(labels[:40].mean())
    assert found.error == pytest.approx(labels[:40].std(ddof=1) / np.sqrt(40))
    expected = ttest_1samp(labels[:40], 0).confidence_interval()
    width = expected.high - expected.low
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.03 * width)
    assert found.high - found.low == pytest.approx(width, rel=0.01)
    assert true_mean(labels, np.full(300, np.nan)) == found


def test_scores_of_another_scale_give_the_same() -> None:
    labels, scores = scored(200, 50)
    one, other = true_mean(labels, scores), true_mean(labels, 10 * scores - 3)
    assert (other.value, other.low, other.high) == pytest.approx((one.value, one.low, one.high))


def test_a_row_without_a_score_counts_as_of_average_score() -> None:
    labels, scores = scored(200, 50)
    gaps, filled = scores.copy(), scores.copy()
    gaps[::7] = np.nan
    filled[::7] = np.nanmean(gaps)
    assert true_mean(labels, gaps).value == pytest.approx(true_mean(labels, filled).value)


def test_binary_labels_have_wilsons_interval_of_as_many_labels_as_would_do() -> None:
    labels, scores = scored(300, 60)
    verdicts = np.where(np.isnan(labels), np.nan, labels > 0.5)
    found = true_mean(verdicts, scores)
    known = verdicts[:60]
    rows = known.mean() * (1 - known.mean()) / found.error**2
    assert rows > 60
    assert (found.low, found.high) == pytest.approx(wilson_limits(found.value, rows, 2.0017175), abs=1e-6)


def test_labels_that_all_pass_leave_room_for_doubt() -> None:
    labels = np.where(np.arange(100) < 30, 1.0, np.nan)
    found = true_mean(labels, np.linspace(0, 1, 100))
    assert (found.value, found.error) == (1.0, 0.0)
    assert (found.low, found.high) == pytest.approx(wilson_limits(1.0, 30, 2.0452296), abs=1e-6)


def test_with_fewer_than_five_labels_the_scores_do_not_count() -> None:
    labels, scores = scored(50, 4)
    assert true_mean(labels, scores).value == pytest.approx(labels[:4].mean())
    labels, scores = scored(50, 5)
    assert true_mean(labels, scores).value != pytest.approx(labels[:5].mean())


def test_one_label_or_one_group_has_no_interval() -> None:
    one = true_mean([0.5, np.nan], [0.4, 0.6])
    assert (one.value, one.low, one.high, one.error) == (0.5, None, None, None)
    labels, scores = scored(50, 10)
    assert true_mean(labels, scores, groups=np.arange(50) < 10).low is None


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 99), st.booleans())
def test_order_and_names_change_no_bit(seed: int, use_groups: bool) -> None:
    labels, scores = scored(60, 25, seed=seed)
    generator = np.random.default_rng(seed)
    groups = generator.integers(0, 12, 60)
    order, names = generator.permutation(60), generator.permutation(12)
    first, second = (groups, names[groups][order]) if use_groups else (None, None)
    found = true_mean(labels, scores, groups=first)
    moved = true_mean(labels[order], scores[order], groups=second)
    assert (moved.value, moved.low, moved.high) == pytest.approx((found.value, found.low, found.high), abs=1e-12)
    assert use_groups or moved == found


def test_copied_rows_know_no_more_than_their_groups() -> None:
    labels, scores = scored(80, 30)
    alone = true_mean(labels, scores)
    copied = true_mean(np.repeat(labels, 3), np.repeat(scores, 3), groups=np.repeat(np.arange(80), 3))
    assert (copied.value, copied.low, copied.high) == pytest.approx((alone.value, alone.low, alone.high))
    assert copied.labels == 90


@pytest.mark.parametrize("labels", [40, 80])
@pytest.mark.parametrize("binary", [True, False])
def test_nineteen_of_twenty_intervals_hold_the_truth(labels: int, binary: bool) -> None:
    held, generator = [], np.random.default_rng(labels)
    for _ in range(500):
        truth = (generator.random(300) < 0.7).astype(float) if binary else generator.beta(4, 1, 300)
        scores = 0.6 * truth + 0.4 * generator.random(300)
        found = true_mean(np.where(np.arange(300) < labels, truth, np.nan), scores)
        held.append(found.low <= (0.7 if binary else 0.8) <= found.high)
    assert 0.92 <= np.mean(held) <= 0.98


def test_equal_labels_prove_no_mean_to_the_last_digit() -> None:
    labels = [0.75] * 10 + [np.nan] * 90
    found = true_mean(labels, np.linspace(0, 1, 100))
    share = 1 - 0.025 ** (1 / 10)
    assert (found.value, found.low, found.high) == pytest.approx((0.75, 0.75 * (1 - share), 0.75 + share * 0.25))


@pytest.mark.parametrize("names", [list(range(14)), [0, 0, 0, 1, 1, 2, 3, 4, 5, 5, 6, 6, 7, 8]])
def test_the_variance_is_the_jackknife_of_the_regression_estimator(names: list[int]) -> None:
    generator, groups = np.random.default_rng(5), np.array(names)
    labels = np.where(np.arange(14) % 7 < 4, generator.normal(0.5, 0.2, 14), np.nan)
    scores = np.nan_to_num(labels) + generator.normal(0, 0.3, 14)
    known = ~np.isnan(labels)

    def value(kept: np.ndarray) -> float:
        line = linregress(scores[kept & known], labels[kept & known])
        return float(line.intercept + line.slope * scores[kept].mean())

    every = np.unique(groups)
    sizes = np.array([(groups[known] == each).sum() for each in every])
    changes = np.array([value(groups != each) for each in every]) - value(groups >= 0)
    share = np.where(sizes > 0, 1 - 1 / (sizes > 0).sum(), 1 - 1 / every.size)
    error = np.sqrt((share * changes**2).sum())
    half = t.ppf(0.975, sizes.sum() ** 2 / (sizes**2).sum() - 2) * error
    found = true_mean(labels, scores, groups=None if every.size == 14 else groups)
    assert (found.value, found.error) == pytest.approx((value(groups >= 0), error))
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half))


def test_equal_labels_beyond_the_scale_widen_it() -> None:
    share = 1 - 0.025 ** (1 / 10)
    found = true_mean([3.0] * 10, [0.5] * 10)
    assert (found.low, found.high) == pytest.approx((3 - 3 * share, 3.0))
    found = true_mean([-1.0] * 10, [0.5] * 10)
    assert (found.low, found.high) == pytest.approx((-1.0, -1 + 2 * share))


def test_labels_in_two_groups_have_one_degree_of_freedom() -> None:
    labels, scores = scored(12, 6)
    found = true_mean(labels, scores, groups=np.arange(12) // 3)
    half = t.ppf(0.975, 1) * found.error
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half))


@pytest.mark.parametrize("turned", [False, True])
def test_a_share_beyond_the_scale_has_the_interval_of_its_end(turned: bool) -> None:
    """The one failure has by far the lowest score, and the rows without a label have higher scores than all others."""
    labels = np.concatenate([[0.0], np.ones(19), np.full(200, np.nan)])
    scores = np.concatenate([[0.0], np.linspace(0.7, 0.75, 19), np.full(200, 1.0)])
    found = true_mean(1 - labels if turned else labels, scores)
    end = 0.0 if turned else 1.0
    assert (found.value < 0) if turned else (found.value > 1)
    known = 19 / 20
    rows = known * (1 - known) / found.error**2
    assert (found.low, found.high) == pytest.approx(wilson_limits(end, rows, 2.1009220), abs=1e-6)
