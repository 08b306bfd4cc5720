"""What determines a verdict: Holm's p-value, the tolerance, and the minimum number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.comparison.difference import Difference, differences_of

from .reports import report_of


def difference(**fields: Any) -> Difference:
    """A clear improvement, with these ``fields`` changed."""
    clear: dict[str, Any] = {
        "rows": 40,
        "paired_mean_a": 0.5,
        "paired_mean_b": 0.7,
        "difference": 0.2,
        "low": 0.1,
        "high": 0.3,
        "p_value": 0.001,
        "p_holm": 0.002,
    }
    return Difference("faithfulness", **{**clear, **fields})


@pytest.mark.parametrize(
    ("p_value", "p_holm", "verdict"),
    [
        (0.001, 0.002, "improved"),
        (0.01, 0.0499, "improved"),
        (0.01, 0.05, "cannot be told"),
        (0.01, 0.2, "cannot be told"),
    ],
)
def test_holms_p_value_decides_and_not_the_raw_one(p_value: float, p_holm: float, verdict: str) -> None:
    assert difference(p_value=p_value, p_holm=p_holm).verdict == verdict
    assert f"p = {p_holm:.4f} after Holm" in difference(p_value=p_value, p_holm=p_holm).sentence


def test_what_one_metric_shows_alone_it_does_not_show_among_twenty() -> None:
    draw = np.random.default_rng(3)
    noise = draw.normal(0, 1, 40)
    changes = 0.12 + 0.32 * (noise - noise.mean()) / noise.std()  # t = 2.3 over 40 rows: p is about 0.02
    scores = {"m0": (np.zeros(40), changes)}
    others = {f"m{k}": (np.zeros(40), draw.normal(0, 0.3, 40)) for k in range(1, 20)}
    (alone,) = differences_of(scores, tolerance=0.01, resamples=2000, seed=0)
    among = differences_of({**scores, **others}, tolerance=0.01, resamples=2000, seed=0)[0]
    assert alone.verdict == "improved"
    assert among.p_value is not None
    assert among.p_value < 0.05
    assert among.verdict == "cannot be told"


@pytest.mark.parametrize(
    ("low", "high", "tolerance", "verdict"),
    [
        (-0.05, 0.05, 0.05, "unchanged"),
        (0.001, 0.05, 0.05, "unchanged"),
        (-0.02, 0.051, 0.05, "improved"),
        (-0.051, 0.02, 0.05, "regressed"),
        (-0.051, 0.02, 0.06, "unchanged"),
    ],
)
def test_an_interval_within_the_tolerance_is_unchanged_whatever_the_p_value(
    low: float, high: float, tolerance: float, verdict: str
) -> None:
    assert difference(difference=(low + high) / 2, low=low, high=high, tolerance=tolerance).verdict == verdict


def test_the_tolerance_is_a_twentieth_unless_another_is_given() -> None:
    assert difference(difference=0.0, low=-0.05, high=0.05).verdict == "unchanged"
    assert difference(difference=0.001, low=-0.05, high=0.0501).verdict == "improved"


@pytest.mark.parametrize(("rows", "verdict"), [(5, "cannot be told"), (6, "improved")])
def test_six_rows_are_the_fewest_that_decide(rows: int, verdict: str) -> None:
    assert difference(rows=rows).verdict == verdict


def test_without_an_interval_there_are_too_few_rows() -> None:
    assert difference(low=None, high=None).verdict == "cannot be told"


@pytest.mark.parametrize(
    ("needed", "advice"),
    [
        (400, "; 40 rows, about 400 would show a difference of 0.05"),
        (40, "; a difference of 0.05 cannot be ruled out with 40 rows"),
        (None, "after Holm)"),
    ],
)
def test_where_rows_are_too_few_the_sentence_says_how_many_it_takes(needed: int | None, advice: str) -> None:
    assert difference(p_holm=0.5, needed=needed).sentence.endswith(advice)


def test_the_figures_of_a_metric_by_hand() -> None:
    before = np.array([0.2, 0.4, 0.4, 0.6, np.nan, 0.5, 0.5])
    after = np.array([0.5, 0.4, 0.405, 0.5, 0.1, 0.5 + 1e-12, np.nan])
    (found,) = differences_of({"m": (before, after)}, tolerance=0.05, resamples=200, seed=0)
    changes = np.array([0.3, 0.0, 0.005, -0.1, 0.0])
    assert (found.rows, found.unscored_a, found.unscored_b) == (5, 1, 1)
    assert (found.wins, found.ties, found.losses) == (2, 2, 1)
    assert found.difference == pytest.approx(changes.mean())
    assert found.effect == pytest.approx(changes.mean() / changes.std(ddof=1))
    assert found.figures(1.0)["won/tied/lost"] == "2/2/1"


def test_the_rows_needed_follow_from_the_spread_of_the_differences() -> None:
    """Four of five comparisons at 5 %: (1.96 + 0.84)² × variance / tolerance², plus at most four rows."""
    changes = np.array([0.1, -0.1, 0.3, -0.3, 0.2, -0.2, 0.1, -0.1])
    (found,) = differences_of({"m": (np.zeros(8), changes)}, tolerance=0.05, resamples=200, seed=0)
    expected = 7.849 * changes.var(ddof=1) / 0.05**2
    assert found.needed is not None
    assert expected <= found.needed <= expected + 4


def test_two_rows_have_p_values_and_one_has_none() -> None:
    two, one = (
        differences_of({"m": (np.zeros(n), np.full(n, 0.5))}, tolerance=0.05, resamples=200, seed=0)[0] for n in (2, 1)
    )
    assert two.p_value is not None
    assert (one.p_value, one.p_holm, one.low) == (None, None, None)
    assert one.sentence == "m: cannot be told, paired means 0.000 → 0.500 (+0.500, 1 row)"


def test_compare_takes_the_tolerance_that_differences_have() -> None:
    assert rm.compare(report_of([0.5] * 8), report_of([0.5] * 8), resamples=100).tolerance == 0.05
    strict = rm.compare(report_of([0.5] * 8), report_of([0.5] * 8), tolerance=0.0, resamples=100)
    assert strict["faithfulness"].needed is None
