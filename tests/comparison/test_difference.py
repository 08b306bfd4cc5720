"""What determines a verdict: Holm's p-value, the tolerance, and the minimum number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlflow_ragmetrics.comparison.difference import Difference, differences_of


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


@pytest.mark.parametrize(("rows", "verdict"), [(5, "cannot be told"), (6, "improved")])
def test_six_rows_are_the_fewest_that_decide(rows: int, verdict: str) -> None:
    assert difference(rows=rows).verdict == verdict


def test_the_figures_of_a_metric_by_hand() -> None:
    before = np.array([0.2, 0.4, 0.4, 0.6, np.nan, 0.5, 0.5])
    after = np.array([0.5, 0.4, 0.405, 0.5, 0.1, 0.5 + 1e-12, np.nan])
    (found,) = differences_of({"m": (before, after)}, tolerance=0.05, resamples=200)
    changes = np.array([0.3, 0.0, 0.005, -0.1, 0.0])
    assert (found.rows, found.unscored_a, found.unscored_b) == (5, 1, 1)
    assert (found.wins, found.ties, found.losses) == (2, 2, 1)
    assert found.difference == pytest.approx(changes.mean())
    assert found.figures(1.0)["won/tied/lost"] == "2/2/1"


def test_the_rows_needed_follow_from_the_spread_of_the_differences() -> None:
    """Four of five comparisons at 5 %: (1.96 + 0.84)² × variance / tolerance², plus at most four rows."""
    changes = np.array([0.1, -0.1, 0.3, -0.3, 0.2, -0.2, 0.1, -0.1])
    (found,) = differences_of({"m": (np.zeros(8), changes)}, tolerance=0.05, resamples=200)
    expected = 7.849 * changes.var(ddof=1) / 0.05**2
    assert expected <= found.needed <= expected + 4


def test_two_rows_have_p_values_and_one_has_none() -> None:
    two, one = (differences_of({"m": (np.zeros(n), np.full(n, 0.5))}, tolerance=0.05, resamples=200)[0] for n in (2, 1))
    assert two.p_value is not None
    assert (one.p_value, one.p_holm, one.low) == (None, None, None)


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"lost_b": 1}, "cannot be told"),
        ({"lost_a": 1}, "improved"),
        ({"lost_a": 1, "difference": -0.2, "low": -0.3, "high": -0.1}, "cannot be told"),
        ({"lost_b": 1, "difference": -0.2, "low": -0.3, "high": -0.1}, "regressed"),
        ({"lost_a": 1, "difference": 0.0, "low": -0.01, "high": 0.01}, "cannot be told"),
        ({"lost_b": 1, "difference": 0.0, "low": -0.01, "high": 0.01}, "cannot be told"),
        ({"difference": 0.0, "low": -0.01, "high": 0.01}, "unchanged"),
        ({"difference": 0.0, "low": -0.01, "high": 0.01, "unseen": 0.05}, "unchanged"),
        ({"difference": 0.01, "low": -0.01, "high": 0.02, "unseen": 0.05}, "cannot be told"),
        ({"unseen": 0.2}, "cannot be told"),
        ({"unseen": 0.19}, "improved"),
        ({"groups": 5}, "cannot be told"),
        ({"groups": 6}, "improved"),
        ({"rows": 5, "groups": 6}, "improved"),
        ({"higher_is_better": False}, "regressed"),
        ({"higher_is_better": None}, "changed"),
        ({"higher_is_better": False, "difference": -0.2, "low": -0.3, "high": -0.1}, "improved"),
        ({"higher_is_better": None, "difference": -0.2, "low": -0.3, "high": -0.1}, "changed"),
    ],
)
def test_lost_and_unseen_rows_groups_and_the_better_direction_decide(fields: dict[str, Any], verdict: str) -> None:
    assert difference(**fields).verdict == verdict
    assert difference(**fields).reaches([verdict])
    assert not difference(**fields).reaches(["anything else"])


@pytest.mark.parametrize(("rows", "lost", "reached"), [(95, 5, False), (94, 6, True), (94, 5, False)])
def test_more_than_a_twentieth_of_lost_rows_is_a_regression(rows: int, lost: int, reached: bool) -> None:
    found = difference(rows=rows, unscored_b=100 - rows, lost_b=lost)
    assert found.reaches(["regressed"]) is reached
    assert not found.reaches(["improved"])
    assert not difference(rows=rows, unscored_a=100 - rows, lost_a=lost).reaches(["regressed"])
    worse = difference(difference=-0.2, low=-0.3, high=-0.1, lost_a=1)
    assert worse.verdict == "cannot be told"
    assert worse.reaches(["regressed"])


def test_every_row_is_counted_and_lost_rows_with_them() -> None:
    nan = np.nan
    a, b = np.array([0.5, 0.5, nan, nan, nan, 0.5, 0.5]), np.array([0.7, nan, 0.5, 0.5, nan, nan, 0.4])
    failed = np.array([0, 0, 1, 0, 1, 1, 0], dtype=bool), np.array([0, 1, 1, 0, 1, 0, 0], dtype=bool)
    scores = {"m": (a, b), "n": (a, b), "o": (a, b + 0.1)}
    first, same, other = differences_of(
        scores, tolerance=0.05, resamples=200, failed=failed, better={"m": False, "n": None}
    )
    assert (first.rows, first.unscored_a, first.unscored_b, first.unscored_both) == (2, 2, 2, 1)
    assert (first.lost_a, first.lost_b) == (1, 1)
    assert (first.wins, first.ties, first.losses) == (1, 0, 1)
    assert (first.same_as, same.same_as, other.same_as) == (None, "m", None)
    assert (same.p_holm, same.wins, other.wins) == (first.p_holm, 1, 1)
    assert (first.higher_is_better, same.higher_is_better, other.higher_is_better) == (False, None, True)
    assert (first.paired_mean_a, first.paired_mean_b) == pytest.approx((0.5, 0.55))
    assert first.accounted == (
        "2 paired, 2 unscored in A only (1 lost by A), 2 unscored in B only (1 lost by B), 1 unscored in both"
    )
    assert difference(only_a=1, only_b=2).accounted == "40 paired, 1 in A's run only, 2 in B's run only"


def test_equal_metrics_share_a_test_and_its_p_value() -> None:
    draw = np.random.default_rng(7)
    zero, small, large = np.zeros(30), draw.normal(0.05, 0.2, 30), draw.normal(0.3, 0.2, 30)
    scores = {"a": (zero, small), "b": (zero, large), "c": (zero, small)}
    found = differences_of(scores, tolerance=0.05, resamples=500)
    two = differences_of({"a": scores["a"], "b": scores["b"]}, tolerance=0.05, resamples=500)
    assert [each.p_holm for each in found] == pytest.approx([two[0].p_holm, two[1].p_holm, two[0].p_holm])
    assert two[1].p_holm == pytest.approx(2 * (two[1].p_value or 0.0))
    assert two[0].p_holm == two[0].p_value
    assert [each.needed is None for each in found] == [each.verdict != "cannot be told" for each in found]


def test_in_brief_a_verdict_has_its_figures_and_none_has_its_cause() -> None:
    assert difference().plain == "faithfulness (+0.20 [0.10, 0.30], 40 rows)"
    assert difference(groups=8, few_groups=True).plain == (
        "faithfulness (+0.20 [0.10, 0.30], 40 rows in 8 groups (few groups))"
    )
    assert (
        difference(difference=None, p_holm=None).plain == "no verdict on faithfulness: no row is measured on both sides"
    )
    assert difference(lost_b=2).plain == "no verdict on faithfulness: B lost 2 of the rows that the other measured"
    unsure = {"p_holm": 0.5}
    assert difference(**unsure, needed=366).plain == "no verdict on faithfulness with 40 rows (about 370 needed)"
    assert difference(**unsure, needed=40).plain == (
        "no verdict on faithfulness with 40 rows: the difference may exceed 0.05"
    )
    assert difference(**unsure, needed=366, groups=8).plain == (
        "no verdict on faithfulness with 40 rows in 8 groups (about 370 rows needed)"
    )


def test_the_figures_of_groups_are_there_only_with_groups() -> None:
    assert "groups" not in difference().figures(1.0)
    assert difference(groups=8).figures(1.0)["groups"] == "8"
    assert difference(groups=8, few_groups=True).figures(1.0)["groups"] == "8 (few)"
    assert difference().figures(1.0)["95 % interval"] != "–"
    assert difference(low=None).figures(1.0)["95 % interval"] == "–"
    assert (difference().figures(1.0)["needed"], difference(needed=7).figures(1.0)["needed"]) == ("–", "7")


def test_a_difference_has_counts_of_zero_until_they_are_known() -> None:
    bare = Difference("m", 40)
    assert {name: value for name, value in vars(bare).items() if value is not None} == {
        "key": "m", "rows": 40, "wins": 0, "ties": 0, "losses": 0, "tolerance": 0.05, "unscored_a": 0, "unscored_b": 0,
        "unscored_both": 0, "only_a": 0, "only_b": 0, "lost_a": 0, "lost_b": 0, "unlike": 0, "unseen": 0.0,
        "few_groups": False, "higher_is_better": True,
    }  # fmt: skip
    assert bare.plain == "no verdict on m: no row is measured on both sides"
    assert bare.accounted == "40 paired"


def test_the_figures_and_the_record_of_a_difference() -> None:
    found = difference(wins=20, ties=15, losses=5)
    assert found.figures(1.0) | {"95 % interval": "drawn"} == {
        "A paired": "0.500", "B paired": "0.700", "B−A": "+0.200", "95 % interval": "drawn",
        "p (Holm)": "0.0020", "won/tied/lost": "20/15/5", "rows": "40", "needed": "–",
    }  # fmt: skip
    record = found.record()
    assert (record["metric"], record["verdict"]) == ("faithfulness", "improved")
    assert not {"key", "tolerance"} & set(record)
