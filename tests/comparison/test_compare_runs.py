from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Item
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.statistics.significance import holm

from .reports import noisy, report_of


def test_a_better_version_improved() -> None:
    before, after = noisy(120), noisy(120, shift=0.1, seed=1)
    found = rm.compare(report_of(before), report_of(after))
    difference = found["faithfulness"]
    assert found.verdict == {"faithfulness": "improved"}
    assert difference.difference == pytest.approx(np.mean(after) - np.mean(before))
    assert (difference.paired_mean_a, difference.paired_mean_b) == pytest.approx((np.mean(before), np.mean(after)))
    assert 0 < difference.low < 0.1 < difference.high + 0.02
    assert difference.wins + difference.ties + difference.losses == difference.rows == 120


def test_swapped_sides_regressed_by_the_same() -> None:
    a, b = report_of(noisy(120)), report_of(noisy(120, shift=0.1, seed=1))
    there, back = rm.compare(a, b)["faithfulness"], rm.compare(b, a)["faithfulness"]
    assert back.verdict == "regressed"
    assert back.difference == pytest.approx(-(there.difference or 0))
    assert (back.low, back.high) == pytest.approx((-(there.high or 0), -(there.low or 0)), abs=0.005)
    assert (back.wins, back.losses) == (there.losses, there.wins)


def test_a_metric_that_nothing_was_scored_for_is_told_so() -> None:
    found = rm.compare(report_of([None] * 10), report_of([0.5] * 10))
    assert found.verdict == {"faithfulness": "cannot be told"}
    assert found["faithfulness"].difference is None
    assert "no row is measured on both sides" in found["faithfulness"].plain


def test_thresholds_have_mcnemars_test() -> None:
    before = report_of([0.4] * 9 + [0.8] * 31, threshold=0.6)
    after = report_of([0.7] * 8 + [0.4] * 2 + [0.8] * 30, threshold=0.6)
    passes = rm.compare(before, after)["faithfulness"].passes
    assert (passes.newly_passed, passes.newly_failed) == (8, 1)
    assert (passes.passed_a, passes.passed_b, passes.rows) == (31, 38, 40)
    assert passes.p_value == pytest.approx(2 * (1 + 9) / 2**9)


def test_p_values_are_adjusted_for_the_number_of_candidates() -> None:
    base = report_of(noisy(80))
    runs = [report_of(noisy(80, shift, seed=seed)) for seed, shift in ((1, 0.02), (2, 0.0), (3, 0.1))]
    found = rm.compare(base, runs)
    alone = [rm.compare(base, run) for run in runs]
    p_values = [each["faithfulness"].p_value or 0.0 for each in alone]
    assert [each["faithfulness"].p_holm for each in found] == pytest.approx(holm(p_values))
    assert found[2].verdict == {"faithfulness": "improved"}
    assert [each.b.name for each in found] == ["B", "C", "D"]
    assert rm.power(found[0]).tests == 3 == found[0].to_dict()["candidates"]
    line = "adjusted over the metrics of all 3 candidates compared with A"
    for text in (str(found[0]), found[1].to_markdown(), found[2].to_html(), found[0]._repr_html_()):
        assert line in text
    assert line not in str(rm.compare(base, runs[:1])[0])
    with pytest.raises(InvalidOptionError, match="at least one candidate"):
        rm.compare(base, [])


def test_more_candidates_need_more_rows() -> None:
    base, near = report_of(noisy(20)), report_of(noisy(20, 0.03, 0.5, seed=1))
    alone, several = rm.compare(base, near)["faithfulness"], rm.compare(base, [near] * 5)[0]["faithfulness"]
    assert several.needed > 1.2 * alone.needed


def test_the_rows_that_changed_most_come_first_with_their_changed_claims() -> None:
    def claims(*verdicts: str) -> tuple[Item, ...]:
        return tuple(Item("claim", f"claim {n}", verdict) for n, verdict in enumerate(verdicts))  # type: ignore[arg-type]

    before = report_of([0.9, 0.5, 0.5], items=[claims("SUPPORTED"), claims("NEUTRAL", "SUPPORTED"), claims()])
    after = report_of([0.9, 1.0, 0.4], items=[claims("SUPPORTED"), claims("SUPPORTED", "SUPPORTED"), claims("NEUTRAL")])
    first, second = rm.compare(before, after).rows
    assert (first.id, first.change, second.id) == ("1", 0.5, "2")
    assert [(item.text, item.verdict_a, item.verdict_b) for item in first.items] == [
        ("claim 0", "NEUTRAL", "SUPPORTED")
    ]
    assert [(item.text, item.verdict_a, item.verdict_b) for item in second.items] == [("claim 0", None, "NEUTRAL")]
    assert first.scores == {"faithfulness": (0.5, 1.0)}


def test_metrics_of_one_side_are_named_and_none_in_common_is_refused() -> None:
    values: Sequence[float] = [0.5] * 10
    with pytest.raises(InvalidDataError, match="no metric in common"):
        rm.compare(report_of(values), report_of(values, key="rouge1_f1"), allow_different=True)


@pytest.mark.parametrize("options", [{"tolerance": -0.1}, {"tolerance": float("nan")}, {"resamples": 5}])
def test_options_are_checked(options: dict[str, float]) -> None:
    with pytest.raises(InvalidOptionError, match=next(iter(options))):
        rm.compare(report_of([0.5] * 10), report_of([0.5] * 10), **options)  # type: ignore[arg-type]


def test_ten_thousand_rows_of_twenty_metrics_take_seconds() -> None:
    from mlflow_ragmetrics.comparison.difference import differences_of

    generator = np.random.default_rng(0)
    scores = {f"m{k}": (generator.beta(5, 2, 10_000), generator.beta(5, 2, 10_000)) for k in range(20)}
    began = time.perf_counter()
    found = differences_of(scores, tolerance=0.05, resamples=10_000, seed=0)
    assert time.perf_counter() - began < 20
    assert {each.verdict for each in found} == {"unchanged"}
