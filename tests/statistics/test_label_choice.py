from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.statistics.label_choice import choose_rows, expected_errors, label_probabilities, score_doubt
from mlflow_ragmetrics.statistics.true_score import true_mean


def test_doubt_is_the_root_of_what_a_score_lacks() -> None:
    assert score_doubt(np.array([1.0, 0.75, 0.0, np.nan])) == pytest.approx([0, 0.5, 1, 1])
    assert score_doubt(np.array([4.0, 1.0, 5.0]), low=1, high=5) == pytest.approx([0.5, 1, 0])
    with pytest.raises(ValueError, match="must lie below"):
        score_doubt(np.array([1.0]), low=1, high=1)


def test_probabilities_by_hand() -> None:
    found = label_probabilities(np.array([0.0, 1.0, 3.0, 0.0]), 2, uniform=0.5)
    # Half evenly: 1/8 each; half in proportion: 0, 1/8, 3/8, 0.
    assert found == pytest.approx([0.25, 0.5, 1.0, 0.25])
    assert label_probabilities(np.array([0.0, 0.0]), 1) == pytest.approx([0.5, 0.5])
    assert label_probabilities(np.array([0.0, 9.0]), 2).tolist() == [1.0, 1.0]


def test_what_would_exceed_one_is_certain_and_leaves_its_share_to_others() -> None:
    found = label_probabilities(np.array([100.0, 1.0, 1.0, 1.0, 1.0]), 2, uniform=0.1)
    assert found == pytest.approx([1, 0.25, 0.25, 0.25, 0.25])


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=40),
    st.integers(1, 50),
    st.floats(0.05, 1),
)
def test_probabilities_add_up_to_the_budget_and_none_is_small(
    importance: list[float], budget: int, uniform: float
) -> None:
    found = label_probabilities(np.array(importance), budget, uniform=uniform)
    assert found.sum() == pytest.approx(min(budget, len(importance)))
    assert (found <= 1).all()
    assert (found >= min(1.0, uniform * budget / len(importance)) * (1 - 1e-9)).all()


def test_what_cannot_be_is_refused() -> None:
    for importance in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="importance"):
            label_probabilities(np.array([importance, 1.0]), 1)
    for budget, uniform in ((0, 0.5), (1, 0.0), (1, 1.1)):
        with pytest.raises(ValueError, match="budget"):
            label_probabilities(np.ones(3), budget, uniform=uniform)
    with pytest.raises(ValueError, match="2 names and 1 groups are given for 1 rows"):
        choose_rows(np.ones(1), names=["a", "b"])


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 99))
def test_as_many_rows_as_the_budget_each_once(rows: int, budget: int, seed: int) -> None:
    importance = np.random.default_rng(seed).random(rows)
    chosen = choose_rows(label_probabilities(importance, budget), seed=seed)
    assert chosen.size == np.unique(chosen).size == min(rows, budget)


def test_certain_rows_are_chosen_and_the_same_names_give_the_same_rows() -> None:
    generator = np.random.default_rng(1)
    probabilities = label_probabilities(np.append(generator.random(39), 50.0), 8)
    names = [f"row {place}" for place in range(40)]
    chosen = choose_rows(probabilities, names=names, seed=3)
    order = generator.permutation(40)
    moved = choose_rows(probabilities[order], names=[names[place] for place in order], seed=3)
    assert {names[place] for place in chosen} == {names[order[place]] for place in moved}
    assert 39 in chosen
    assert choose_rows(probabilities, names=names, seed=4).tolist() != chosen.tolist()
    assert choose_rows(np.array([])).size == 0


def test_each_row_is_chosen_as_often_as_its_probability_says() -> None:
    probabilities = label_probabilities(np.arange(12.0), 5, uniform=0.2)
    chosen = np.concatenate([choose_rows(probabilities, seed=seed) for seed in range(4000)])
    assert np.bincount(chosen, minlength=12) / 4000 == pytest.approx(probabilities, abs=0.035)


def test_probabilities_that_add_up_to_no_whole_number_give_one_more_or_less() -> None:
    probabilities = np.full(7, 0.35)
    sizes = [choose_rows(probabilities, seed=seed).size for seed in range(300)]
    assert set(sizes) == {2, 3}
    assert np.mean(sizes) == pytest.approx(2.45, abs=0.1)


def test_labels_are_spread_over_groups() -> None:
    groups = [f"question {row // 5}" for row in range(60)]
    probabilities = np.full(60, 0.2)
    for seed in range(20):
        chosen = choose_rows(probabilities, groups=groups, seed=seed)
        assert len({groups[row] for row in chosen}) == 12
    alone = choose_rows(probabilities, seed=1)
    assert len({groups[row] for row in alone}) < 12
    chosen = np.concatenate([choose_rows(probabilities, groups=groups, seed=seed) for seed in range(2000)])
    assert np.bincount(chosen, minlength=60) / 2000 == pytest.approx(probabilities, abs=0.04)
    with pytest.raises(ValueError, match="2 names and 1 groups"):
        choose_rows(np.ones(2), groups=["a"])


def test_errors_are_larger_where_labels_lie_farther_from_the_scores() -> None:
    generator = np.random.default_rng(5)
    scores = generator.random(400)
    labels = scores + np.where(scores < 0.5, 0.4, 0.1) * generator.normal(size=400)
    labels[100:] = np.nan
    found = expected_errors(scores, labels)
    assert found[scores < 0.4].mean() > 1.5 * found[scores > 0.6].mean()
    gaps = scores.copy()
    gaps[7] = np.nan
    assert expected_errors(gaps, labels)[7] == expected_errors(gaps, labels).max()


def test_few_labels_give_equal_errors() -> None:
    scores = np.linspace(0, 1, 50)
    assert expected_errors(scores, np.where(np.arange(50) < 19, scores**2, np.nan)).tolist() == [1.0] * 50
    assert np.ptp(expected_errors(scores, np.where(np.arange(50) < 20, scores**2, np.nan))) > 0
    assert np.ptp(expected_errors(np.full(50, 0.5), scores)) == pytest.approx(0)


def test_chosen_rows_leave_the_mean_unbiased() -> None:
    generator = np.random.default_rng(8)
    truth = generator.beta(2, 1, 150)
    scores = np.clip(truth + generator.normal(0, 0.2, 150), 0, 1)
    probabilities = label_probabilities(score_doubt(scores), 40, uniform=0.3)
    values = []
    for seed in range(300):
        labels = np.full(150, np.nan)
        chosen = choose_rows(probabilities, seed=seed)
        labels[chosen] = truth[chosen]
        values.append(true_mean(labels, scores, probabilities=probabilities).value)
    assert np.mean(values) == pytest.approx(truth.mean(), abs=0.005)
