from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn import metrics

from mlflow_ragmetrics.statistics.agreement import Estimate, agreement, auroc, correlation

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
    assert found.kappa is not None
    assert found.kappa.value == pytest.approx(metrics.cohen_kappa_score(BAD, FLAGGED))


def test_kappas_interval_is_as_wide_as_its_standard_error_says() -> None:
    kappa = agreement(FLAGGED, BAD).kappa
    assert kappa is not None
    assert kappa.low is not None
    assert kappa.high is not None
    draws = GENERATOR.integers(0, 200, (1000, 200))
    error = np.std([metrics.cohen_kappa_score(BAD[draw], FLAGGED[draw]) for draw in draws])
    assert kappa.high - kappa.low == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_what_is_not_defined_is_none() -> None:
    one_class = agreement([False, False], [False, False])
    assert (one_class.precision, one_class.recall, one_class.balanced_accuracy, one_class.kappa) == (None,) * 4
    assert one_class.accuracy == 1.0
    assert agreement([], []).accuracy is None


def test_auroc_is_scikit_learns_with_ties() -> None:
    area = auroc(SCORES, BAD)
    assert area is not None
    assert area.value == pytest.approx(metrics.roc_auc_score(BAD, -SCORES))


def test_aurocs_interval_is_that_of_resampling() -> None:
    area = auroc(SCORES, BAD)
    assert area is not None
    draws = GENERATOR.integers(0, 200, (1000, 200))
    areas = [metrics.roc_auc_score(BAD[draw], -SCORES[draw]) for draw in draws]
    assert (area.low, area.high) == pytest.approx(tuple(np.quantile(areas, [0.025, 0.975])), abs=0.02)


def test_auroc_without_two_classes_and_with_perfect_order() -> None:
    assert auroc(np.array([0.1, 0.9]), np.array([True, True])) is None
    perfect = auroc(np.array([0.1, 0.2, 0.8, 0.9]), np.array([True, True, False, False]))
    assert perfect is not None
    assert (perfect.value, perfect.low) == (1.0, None)


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
def test_nineteen_of_twenty_intervals_of_a_correlation_hold_the_truth(kind: str) -> None:
    generator, truth, held = np.random.default_rng(3), 0.6, []
    expected = truth if kind == "pearson" else 6 / np.pi * np.arcsin(truth / 2)
    for _ in range(500):
        x = generator.normal(size=60)
        found = correlation(x, truth * x + np.sqrt(1 - truth**2) * generator.normal(size=60), kind)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held.append(found.low <= expected <= found.high)
    assert 0.92 <= np.mean(held) <= 0.98


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
def test_the_interval_of_a_correlation_by_hand(kind: str) -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    found = correlation(values, np.array([2.0, 1.0, 4.0, 3.0, 6.0, 5.0, 8.0, 7.0]), kind)
    assert found is not None
    spread = 1.0 if kind == "pearson" else 1.0 + found.value**2 / 2  # Bonett and Wright (2000)
    half = 1.959964 * np.sqrt(spread / (8 - 3))
    expected = np.tanh(np.arctanh(found.value) - half), np.tanh(np.arctanh(found.value) + half)
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-5)


def test_a_side_that_does_not_vary_has_no_correlation() -> None:
    assert correlation(np.array([1.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.5]), "pearson") is None


@pytest.mark.parametrize("number", [20, 80])
def test_rows_that_only_repeat_each_other_widen_no_knowledge(number: int) -> None:
    generator = np.random.default_rng(number)
    truth = generator.normal(size=number)
    scores = 0.7 * truth + generator.normal(size=number)
    bad, flagged = truth < -0.2, scores < -0.2
    names = np.repeat(np.arange(number), 5)
    order = generator.permutation(names.size)

    def width(found: Estimate | None) -> float:
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        return found.high - found.low

    def repeated(values: np.ndarray) -> np.ndarray:
        return np.repeat(values, 5)[order]

    kappa = agreement(repeated(flagged), repeated(bad), groups=names[order]).kappa
    area = auroc(repeated(scores), repeated(bad), groups=names[order])
    linear = correlation(repeated(scores), repeated(truth), "pearson", groups=names[order])
    assert width(kappa) == pytest.approx(width(agreement(flagged, bad).kappa), rel=0.2)
    assert width(area) == pytest.approx(width(auroc(scores, bad)), rel=0.15)
    assert width(linear) == pytest.approx(width(correlation(scores, truth, "pearson")), rel=0.35)
    assert width(agreement(repeated(flagged), repeated(bad)).kappa) < 0.6 * width(kappa)
    other = generator.permutation(names.size)
    again = agreement(repeated(flagged)[other], repeated(bad)[other], groups=names[order][other]).kappa
    assert again == kappa


def test_one_group_gives_no_interval() -> None:
    values, bad = np.array([0.1, 0.4, 0.3, 0.9]), np.array([True, True, False, False])
    for found in (auroc(values, bad, groups=["a"] * 4), agreement(values < 0.35, bad, groups=["a"] * 4).kappa):
        assert found is not None
        assert found.low is None


def test_many_groups_take_no_longer_than_their_rows() -> None:
    generator = np.random.default_rng(0)
    values = generator.normal(size=5000)
    grades = values + generator.normal(size=values.size)
    began = time.process_time()
    doubled = correlation(np.repeat(values, 2), np.repeat(grades, 2), "spearman", groups=np.repeat(np.arange(5000), 2))
    assert time.process_time() - began < 2
    once = correlation(values, grades, "spearman")
    assert doubled is not None
    assert once is not None
    assert (doubled.low, doubled.high) == pytest.approx((once.low, once.high), abs=0.004)


@pytest.mark.parametrize(("rows", "bad"), [(10, 5), (10, 2), (40, 8)])
def test_few_perfect_verdicts_prove_no_perfect_agreement(rows: int, bad: int) -> None:
    truth = np.arange(rows) < bad
    perfect = agreement(truth, truth).kappa
    assert perfect is not None
    share = 1 - 0.025 ** (1 / rows)  # share of rows that may disagree unseen
    chance = (bad / rows) ** 2 + (1 - bad / rows) ** 2
    assert (perfect.value, perfect.high) == (1.0, 1.0)
    assert perfect.low == pytest.approx(1 - share / (1 - chance))
    opposite = agreement(~truth, truth).kappa
    assert opposite is not None
    assert opposite.low is not None
    assert opposite.high is not None
    assert opposite.low < opposite.high


@pytest.mark.parametrize("disagreement", [0.02, 0.05, 0.1])
def test_nineteen_of_twenty_intervals_of_kappa_hold_the_truth_though_most_samples_are_perfect(
    disagreement: float,
) -> None:
    generator, held = np.random.default_rng(5), []
    for _ in range(400):
        bad = generator.random(10) < 0.5
        found = agreement(bad ^ (generator.random(10) < disagreement), bad).kappa
        if found is not None and found.low is not None and found.high is not None:
            held.append(found.low <= 1 - 2 * disagreement <= found.high)
    assert np.mean(held) >= 0.93


def test_equal_scores_order_nothing_and_groups_that_are_alike_leave_doubt() -> None:
    constant = auroc(np.full(20, 0.5), np.arange(20) < 8)
    assert constant == Estimate(0.5)
    alike = agreement([True, False, False, False] * 4, [True, True, False, False] * 4, groups=np.repeat(range(4), 4))
    assert alike.kappa is not None
    assert alike.kappa.low is not None
    assert alike.kappa.low < alike.kappa.value - 0.1
