from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.statistics.intervals import Clusters, clusters_of

DRAW = np.random.default_rng(4)


def totals_of(values: object, groups: object) -> Clusters:
    found = clusters_of(np.array(values), groups)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_totals_by_hand() -> None:
    totals = totals_of([1.0, 0.0, 1.0, 0.5, np.nan], ["b", "a", "b", "a", "a"])
    assert totals.mean == pytest.approx(0.625)
    assert totals.counts.tolist() == [2, 2]
    assert totals.residuals == pytest.approx(np.array([-0.75, 0.75]))
    assert (totals.rows, totals.groups, totals.least, totals.most, totals.is_binary) == (4, 2, 0, 1, False)
    assert totals.squares == pytest.approx(2 * 0.375**2 + 0.625**2 + 0.125**2)


def test_the_variance_is_cr2_by_hand() -> None:
    # Groups of 1, 1 and 2 rows: the shares of the rows are 1/4, 1/4 and 1/2, the mean 2, the residuals -1, 1 and 0.
    totals = totals_of([1.0, 3.0, 1.0, 3.0], [1, 2, 3, 3])
    assert totals.variance == pytest.approx((1 / 0.75 + 1 / 0.75 + 0) / 16)


def test_rows_of_their_own_have_the_usual_variance_and_degrees_of_freedom() -> None:
    values = DRAW.random(30)
    for totals in (totals_of(values, np.arange(30)), totals_of(values, None)):
        assert totals.variance == pytest.approx(values.var(ddof=1) / 30)
        assert totals.degrees == pytest.approx(29)
        assert totals.effective_rows == pytest.approx(30)


def brute_force_degrees(counts: np.ndarray) -> float:
    """Satterthwaite's from the matrices: u = (I − h 1ᵀ) s, with Cov(s) = diag(m²), and V = Σ u²/(1 − h)."""
    shares = counts / counts.sum()
    maker = np.eye(counts.size) - np.outer(shares, np.ones(counts.size))
    product = np.diag(1 / (1 - shares)) @ maker @ np.diag(counts**2.0) @ maker.T
    return float(np.trace(product) ** 2 / np.trace(product @ product))


@given(st.lists(st.integers(1, 20), min_size=2, max_size=12))
def test_the_degrees_of_freedom_are_those_of_the_matrices(sizes: list[int]) -> None:
    counts = np.array(sizes, dtype=float)
    values = np.linspace(0, 1, int(counts.sum()))
    totals = totals_of(values, np.repeat(np.arange(counts.size), sizes))
    assert totals.degrees == pytest.approx(max(1.0, brute_force_degrees(counts)))


def test_copied_rows_have_the_design_effect_of_the_copies() -> None:
    values = DRAW.random((50, 1))
    known = totals_of(np.repeat(values[:, 0], 4), np.repeat(np.arange(50), 4))
    assert (known.rows, known.groups, known.effective_groups) == (200, 50, 50)
    assert known.design_effect == pytest.approx(4 * 199 / 200 * 50 / 49)


def test_effective_groups_by_hand() -> None:
    assert totals_of(np.zeros(6), [1, 2, 3, 3, 3, 3]).effective_groups == pytest.approx(2)


def test_fewer_than_ten_effective_groups_are_few() -> None:
    assert totals_of(np.arange(9) / 9, np.arange(9)).few_groups
    assert totals_of(np.arange(14) / 14, [*range(10), 9, 9, 9, 9]).few_groups
    assert not totals_of(np.arange(10) / 10, np.arange(10)).few_groups


def test_what_is_not_known_is_none() -> None:
    assert clusters_of(np.full(3, np.nan), [7, 7, 8]) is None
    single, equal = totals_of(np.array([0.2, 0.3, np.nan]), [7, 7, 8]), totals_of(np.full(3, 0.5), [7, 7, 8])
    assert (single.groups, single.design_effect) == (1, None)
    assert (equal.groups, equal.design_effect) == (2, None)


def test_effective_rows_lie_between_groups_and_rows() -> None:
    same = np.repeat(DRAW.random(20), 3)
    groups = np.repeat(np.arange(20), 3)
    assert totals_of(same, groups).effective_rows == pytest.approx(20 * 59 / 60 * 60 / 59 * 19 / 20 * 60 / 59)
    assert totals_of(np.ones(60), groups).effective_rows == pytest.approx(20)
    unlike = np.tile([0.0, 0.5, 1.0], 20)
    assert totals_of(unlike, groups).effective_rows == pytest.approx(60)


def test_equal_scores_have_exactly_their_mean_and_no_residuals() -> None:
    for value in (0.1, 0.7, 1 / 3):
        totals = totals_of(np.full(30, value), np.arange(30) % 4)
        assert (totals.mean, totals.squares, np.abs(totals.residuals).max()) == (value, 0, 0)


@st.composite
def grouped_scores(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Scores of two runs (rows × 2, NaN: unmeasured) and the group of each row; most groups of one row, some of 20."""
    sizes = draw(st.lists(st.one_of(st.just(1), st.integers(1, 20)), min_size=1, max_size=60))
    chance = np.random.default_rng(draw(st.integers(0, 9)))
    kinds: list[np.ndarray] = [np.array([0.5]), np.array([0.0, 1.0]), np.linspace(0, 1, 21)]
    scores = chance.choice(draw(st.sampled_from(kinds)), (sum(sizes), 2))
    scores[chance.random(scores.shape) < draw(st.sampled_from([0.0, 0.3, 0.98]))] = np.nan
    return scores, np.repeat(np.arange(len(sizes)), sizes)


@settings(max_examples=40, deadline=None)
@given(grouped_scores())
def test_groups_of_any_shape_have_figures_in_every_caller(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    scores, groups = drawn
    for low, mean, high in [
        *((found.get("ci_low"), found.get("mean"), found.get("ci_high")) for found in map(summary(groups), scores.T)),
        compared(scores, groups),
    ]:
        assert low is None or mean is None or high is None or low - 1e-9 <= mean <= high + 1e-9


def summary(groups: np.ndarray | None) -> Callable[[np.ndarray], Mapping[str, float]]:
    return lambda scores: rm.summarize(
        [None if np.isnan(score) else float(score) for score in scores],
        groups=None if groups is None else groups.tolist(),
    )


def compared(scores: np.ndarray, groups: np.ndarray) -> tuple[float | None, float | None, float | None]:
    """The interval and mean of run B minus run A, through reports and ``compare``."""
    a, b = (
        Report(
            [
                Row(
                    Sample(id=str(place), question=str(place), metadata={"group": str(group)}),
                    {"m": Score(None if np.isnan(score) else float(score))},
                )
                for place, (score, group) in enumerate(zip(side, groups, strict=True))
            ],
            description={"metrics": ["m"], "groups": "group"},
        )
        for side in scores.T
    )
    assert a.metrics is not None
    try:
        difference = rm.compare(a, b, groups="group", rows=0)["m"]
    except (rm.RagMetricsError, KeyError):
        return None, None, None  # no pair was measured
    return difference.low, difference.difference, difference.high
