from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import skew

from mlflow_ragmetrics.statistics import bootstrap_interval
from mlflow_ragmetrics.statistics.intervals import MANY_ROWS
from mlflow_ragmetrics.statistics.moments import Moments, interval_of_moments


def moments_of(scores: np.ndarray) -> Moments:
    skewness = float(skew(scores)) if scores.std() > 1e-12 else 0.0
    is_binary = bool(np.isin(scores, (0.0, 1.0)).all())
    shape = (float(scores.mean()), float(scores.std()), skewness, float(scores.min()), float(scores.max()))
    return Moments(scores.size, *shape, is_binary)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.2, 5), st.floats(0.2, 5), st.integers(0, 99))
def test_it_is_the_interval_of_many_rows(first: float, second: float, seed: int) -> None:
    scores = np.random.default_rng(seed).beta(first, second, MANY_ROWS + 1)
    assert interval_of_moments(moments_of(scores)) == pytest.approx(bootstrap_interval(scores.tolist()), rel=1e-9)


def test_scores_of_0_and_1_have_wilsons_interval() -> None:
    scores = np.array([1.0] * 8 + [0.0] * 2)
    assert interval_of_moments(moments_of(scores)) == bootstrap_interval(scores.tolist())


def test_of_few_rows_it_is_close_to_the_bootstrap() -> None:
    scores = np.random.default_rng(3).beta(2, 5, 200)
    expected = bootstrap_interval(scores.tolist(), resamples=20_000) or (0.0, 1.0)
    assert interval_of_moments(moments_of(scores)) == pytest.approx(expected, abs=0.03 * (expected[1] - expected[0]))


def test_equal_scores_have_a_point_and_one_has_none() -> None:
    assert interval_of_moments(moments_of(np.full(9, 0.4))) == pytest.approx((0.4, 0.4))
    assert interval_of_moments(moments_of(np.array([0.4]))) is None
