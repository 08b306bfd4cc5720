"""The verdict on one metric, at its limits: tolerance, Holm's p-value, and the number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlflow_ragmetrics.comparison.difference import Difference, differences_of

WORSE = {"difference": -0.04, "low": -0.08, "high": -0.005}
BETTER = {"difference": 0.04, "low": 0.005, "high": 0.08}


def verdict_of(**figures: Any) -> str:
    return Difference(
        "faithfulness", **{"rows": 100, "tolerance": 0.03, "p_value": 0.01, "p_holm": 0.01, **figures}
    ).verdict


@pytest.mark.parametrize(("figures", "verdict"), [(BETTER, "improved"), (WORSE, "regressed")])
def test_holms_p_value_decides_and_not_the_raw_one(figures: dict[str, float], verdict: str) -> None:
    assert verdict_of(**figures) == verdict
    assert verdict_of(**figures, p_value=0.01, p_holm=0.06) == "too few rows to tell"
    assert verdict_of(**figures, p_value=0.06, p_holm=0.049) == verdict
    assert verdict_of(**figures, p_holm=None) == "too few rows to tell"


@pytest.mark.parametrize(
    ("low", "high", "unchanged"),
    [(-0.03, 0.03, True), (-0.0301, 0.02, False), (-0.02, 0.0301, False), (0.001, 0.02, True)],
)
def test_unchanged_is_an_interval_that_lies_within_the_tolerance_on_both_sides(
    low: float, high: float, unchanged: bool
) -> None:
    assert (verdict_of(difference=(low + high) / 2, low=low, high=high) == "unchanged") is unchanged


def test_fewer_than_six_rows_tell_nothing() -> None:
    assert verdict_of(**BETTER, rows=5) == "too few rows to tell"
    assert verdict_of(**BETTER, rows=6) == "improved"


def test_more_metrics_make_it_harder_for_each() -> None:
    before = np.zeros(40)
    shifted = np.linspace(-0.2, 0.3, 40)
    noise = {f"other_{n}": (before, np.random.default_rng(n).normal(0, 0.1, 40)) for n in range(8)}
    options: dict[str, Any] = {"tolerance": 0.001, "resamples": 2000, "seed": 0}
    (alone,) = differences_of({"key": (before, shifted)}, **options)
    among = next(each for each in differences_of({"key": (before, shifted), **noise}, **options) if each.key == "key")
    assert (alone.p_holm or 1) == (alone.p_value or 1) < 0.05
    assert (among.p_holm or 0) > 0.05 > (among.p_value or 1)
    assert (alone.verdict, among.verdict) == ("improved", "too few rows to tell")


def test_wins_are_counted_for_the_second_side_and_ties_apart() -> None:
    (found,) = differences_of(
        {"key": (np.array([0.1, 0.5, 0.5, 0.9]), np.array([0.4, 0.5, 0.5 + 1e-12, 0.8]))},
        tolerance=0.03,
        resamples=100,
        seed=0,
    )
    assert (found.wins, found.ties, found.losses) == (1, 2, 1)
    assert found.difference == pytest.approx(0.05)
