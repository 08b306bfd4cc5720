from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import norm, pearsonr, spearmanr, t
from sklearn import metrics

from mlflow_ragmetrics.statistics.agreement import Estimate, agreement, auroc, correlation, krippendorff_alpha

GENERATOR = np.random.default_rng(6)
BAD = GENERATOR.random(200) < 0.3
FLAGGED = np.where(GENERATOR.random(200) < 0.75, BAD, ~BAD)
SCORES = np.round(GENERATOR.beta(2, 2, 200) - 0.25 * BAD, 1)


def test_figures_are_scikit_learns() -> None:
    found = agreement(FLAGGED, BAD)
    assert found.rows == 200
    assert found.accuracy == pytest.approx(metrics.accuracy_score(BAD, FLAGGED))
    assert found.balanced_accuracy == pytest.approx(metrics.balanced_accuracy_score(BAD, FLAGGED))
    assert found.precision == pytest.approx(metrics.precision_score(BAD, FLAGGED))
    assert found.recall == pytest.approx(metrics.recall_score(BAD, FLAGGED))
    assert found.f1 == pytest.approx(metrics.f1_score(BAD, FLAGGED))
    assert found.kappa.value == pytest.approx(metrics.cohen_kappa_score(BAD, FLAGGED))


def test_what_is_not_defined_is_none() -> None:
    one_class = agreement([False, False], [False, False])
    assert (one_class.precision, one_class.recall, one_class.balanced_accuracy, one_class.kappa) == (None,) * 4
    assert one_class.accuracy == 1.0
    assert agreement([True, False], [True, True]).kappa is None
    assert agreement([], []).accuracy is None


def test_auroc_is_scikit_learns_with_ties() -> None:
    area = auroc(SCORES, BAD)
    assert area.value == pytest.approx(metrics.roc_auc_score(BAD, -SCORES))


def test_auroc_without_two_classes_and_with_perfect_order() -> None:
    assert auroc(np.array([0.1, 0.9]), np.array([True, True])) is None
    perfect = auroc(np.array([0.1, 0.2, 0.8, 0.9]), np.array([True, True, False, False]))
    assert (perfect.value, perfect.low) == (1.0, None)


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
def test_the_interval_of_a_correlation_by_hand(kind: str) -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    found = correlation(values, np.array([2.0, 1.0, 4.0, 3.0, 6.0, 5.0, 8.0, 7.0]), kind)
    spread = 1.0 if kind == "pearson" else 1.0 + found.value**2 / 2  # Bonett and Wright (2000)
    half = 1.959964 * np.sqrt(spread / (8 - 3))
    expected = np.tanh(np.arctanh(found.value) - half), np.tanh(np.arctanh(found.value) + half)
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-5)


def test_a_side_that_does_not_vary_has_no_correlation() -> None:
    assert correlation(np.array([1.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.5]), "pearson") is None


def test_one_group_gives_no_interval() -> None:
    values, bad = np.array([0.1, 0.4, 0.3, 0.9]), np.array([True, True, False, False])
    for found in (auroc(values, bad, groups=["a"] * 4), agreement(values < 0.35, bad, groups=["a"] * 4).kappa):
        assert found.low is None


def test_many_groups_take_no_longer_than_their_rows() -> None:
    generator = np.random.default_rng(0)
    values = generator.normal(size=5000)
    grades = values + generator.normal(size=values.size)
    began = time.process_time()
    doubled = correlation(np.repeat(values, 2), np.repeat(grades, 2), "spearman", groups=np.repeat(np.arange(5000), 2))
    assert time.process_time() - began < 2
    once = correlation(values, grades, "spearman")
    assert (doubled.low, doubled.high) == pytest.approx((once.low, once.high), abs=0.004)


@pytest.mark.parametrize(("rows", "bad"), [(10, 5), (10, 2), (40, 8)])
def test_few_perfect_verdicts_prove_no_perfect_agreement(rows: int, bad: int) -> None:
    truth = np.arange(rows) < bad
    perfect = agreement(truth, truth).kappa
    share = 1 - 0.025 ** (1 / rows)  # share of rows that may disagree unseen
    chance = (bad / rows) ** 2 + (1 - bad / rows) ** 2
    assert (perfect.value, perfect.high) == (1.0, 1.0)
    assert perfect.low == pytest.approx(1 - share / (1 - chance))
    opposite = agreement(~truth, truth).kappa
    assert opposite.low < opposite.high


def test_equal_scores_order_nothing_and_groups_that_are_alike_leave_doubt() -> None:
    constant = auroc(np.full(20, 0.5), np.arange(20) < 8)
    assert constant == Estimate(0.5)
    alike = agreement([True, False, False, False] * 4, [True, True, False, False] * 4, groups=np.repeat(range(4), 4))
    assert alike.kappa.low < alike.kappa.value - 0.1


def small_sample() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores with ties, labels that they order imperfectly, and groups of one to four rows."""
    scores = np.array([0.1, 0.2, 0.2, 0.3, 0.4, 0.4, 0.5, 0.6, 0.6, 0.7, 0.8, 0.9])
    bad = np.array([1, 1, 0, 1, 0, 1, 1, 0, 0, 1, 0, 0], dtype=bool)
    return scores, bad, np.array([0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4])


@pytest.mark.parametrize("grouped", [True, False])
def test_aurocs_interval_is_delongs_and_obuchowskis_by_pairs(grouped: bool) -> None:
    scores, bad, groups = small_sample()
    wins = (scores[bad][:, None] < scores[~bad]) + 0.5 * (scores[bad][:, None] == scores[~bad])
    area, of_bad, of_good = wins.mean(), wins.mean(axis=1), wins.mean(axis=0)
    if grouped:
        sums = [
            (of_bad - area)[groups[bad] == each].sum() / bad.sum()
            + (of_good - area)[groups[~bad] == each].sum() / (~bad).sum()
            for each in range(5)
        ]
        error, deviate = np.sqrt(5 / 4 * np.square(sums).sum()), t.ppf(0.975, 4)
    else:
        error = np.sqrt(of_bad.var(ddof=1) / bad.sum() + of_good.var(ddof=1) / (~bad).sum())
        deviate = norm.ppf(0.975)
    half = deviate * error / area / (1 - area)
    expected = Estimate(area, expit(logit(area) - half), expit(logit(area) + half))
    found = auroc(scores, bad, groups=groups if grouped else None)
    assert (found.value, found.low, found.high) == pytest.approx((expected.value, expected.low, expected.high))


@pytest.mark.parametrize("figure", ["kappa", "pearson", "spearman"])
def test_intervals_over_groups_are_the_jackknife_on_fishers_scale(figure: str) -> None:
    scores, bad, groups = small_sample()
    grades, flagged = np.roll(scores, 1), scores < 0.45

    def value(rows: np.ndarray) -> float:
        if figure == "kappa":
            return float(metrics.cohen_kappa_score(bad[rows], flagged[rows]))
        return float((pearsonr if figure == "pearson" else spearmanr)(scores[rows], grades[rows])[0])

    whole = value(np.full(12, True))
    without = np.array([value(groups != each) for each in range(5)])
    error = np.sqrt(4 / 5 * np.square(without - without.mean()).sum()) / (1 - whole**2)
    half = t.ppf(0.975, 4) * error
    if figure == "kappa":
        found = agreement(flagged, bad, groups=groups).kappa
    else:
        found = correlation(scores, grades, figure, groups=groups)
    expected = (whole, np.tanh(np.arctanh(whole) - half), np.tanh(np.arctanh(whole) + half))
    assert (found.value, found.low, found.high) == pytest.approx(expected)


@given(st.lists(st.lists(st.one_of(st.none(), st.integers(0, 3)), min_size=3, max_size=3), min_size=1, max_size=8))
def test_krippendorffs_alpha_is_that_of_all_pairs(rows: list[list[int | None]]) -> None:
    """1 − observed / expected disagreement: mean squared differences within rows, weighted by 1/(judges − 1)."""
    shared = [[each for each in row if each is not None] for row in rows]
    shared = [row for row in shared if len(row) > 1]
    every = [each for row in shared for each in row]
    found = krippendorff_alpha(np.array([[np.nan if x is None else x for x in row] for row in rows], dtype=float))
    if len(set(every)) < 2:
        assert found is None
        return
    within = sum(sum((x - y) ** 2 for x in row for y in row) / (len(row) - 1) for row in shared) / len(every)
    expected = sum((x - y) ** 2 for x in every for y in every) / len(every) / (len(every) - 1)
    assert found == pytest.approx(1 - within / expected)


def test_a_few_rows_or_a_perfect_line_have_no_interval_of_a_correlation() -> None:
    values = np.array([1.0, 2.0, 3.0, 5.0, 4.0])
    two, four, five = (correlation(values[:n], values[:n][::-1] ** 2, "pearson") for n in (2, 4, 5))
    assert two is None
    assert (four.low, five.low is None) == (None, False)
    assert correlation(values, 2 * values, "pearson") == Estimate(pytest.approx(1.0))  # type: ignore[arg-type]


def test_one_row_of_a_class_has_an_area_without_an_interval() -> None:
    scores = np.array([0.2, 0.1, 0.3, 0.4])
    assert auroc(scores, np.array([True, False, False, False])) == Estimate(pytest.approx(2 / 3))  # type: ignore[arg-type]
    found = auroc(scores, np.array([True, False, False, True]))
    assert found.low is not None
    one_group_of_bad = auroc(scores, np.array([True, False, True, False]), groups=["a", "b", "a", "c"])
    assert one_group_of_bad == Estimate(0.5)
