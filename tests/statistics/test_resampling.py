from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.statistics.resampling import bootstrap_weights, exact_columns, random_signs


@given(st.integers(1, 400), st.integers(0, 99), st.sampled_from([1e-200, 1e-3, 1.0, 7e5]))
def test_no_order_of_addition_changes_a_bit(rows: int, seed: int, scale: float) -> None:
    generator = np.random.default_rng(seed)
    columns = scale * generator.normal(size=(rows, 2))
    exact = exact_columns(columns)
    assert exact == pytest.approx(columns, abs=rows * 2.0**-50 * np.abs(columns).max())
    weights = generator.multinomial(rows, np.full(rows, 1 / rows), size=3).astype(float)
    order = generator.permutation(rows)
    assert np.array_equal(weights @ exact, weights[:, order] @ exact[order])
    assert np.array_equal((weights @ exact)[:, 0], np.cumsum(weights * exact[:, 0], axis=1)[:, -1])


def test_whole_numbers_and_nothing_stay_what_they_are() -> None:
    columns = np.array([[0.0, 3.0, -0.5], [0.0, -7.0, 0.25]])
    assert np.array_equal(exact_columns(columns), columns)
    assert exact_columns(np.empty((0, 2))).shape == (0, 2)


def test_each_bootstrap_sample_has_as_many_rows() -> None:
    blocks = list(bootstrap_weights(7, 500, 3))
    weights = np.concatenate(blocks)
    assert weights.shape == (500, 7)
    assert (weights.sum(axis=1) == 7).all()
    assert weights.mean(axis=0) == pytest.approx(np.ones(7), abs=0.15)
    assert np.array_equal(weights, np.concatenate(list(bootstrap_weights(7, 500, 3))))
    assert not np.array_equal(weights, np.concatenate(list(bootstrap_weights(7, 500, 4))))
    assert len(list(bootstrap_weights(500_000, 9, 0))) == 3


def test_all_patterns_of_signs_where_there_are_few() -> None:
    (patterns,) = random_signs(3, 8, 0)
    assert len({tuple(pattern) for pattern in patterns.tolist()}) == 8
    assert set(np.unique(patterns)) == {-1.0, 1.0}
    drawn = np.concatenate(list(random_signs(3, 7, 0)))
    assert drawn.shape == (7, 3)
    many = np.concatenate(list(random_signs(21, 4000, 1)))
    assert many.shape == (4000, 21)
    assert many.mean(axis=0) == pytest.approx(np.zeros(21), abs=0.07)
