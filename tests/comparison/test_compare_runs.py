from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest

import mlflow_ragmetrics as rm
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


def test_a_metric_that_nothing_was_scored_for_is_told_so() -> None:
    found = rm.compare(report_of([None] * 10), report_of([0.5] * 10))
    assert found.verdict == {"faithfulness": "cannot be told"}
    assert found["faithfulness"].difference is None
    assert "no row is measured on both sides" in found["faithfulness"].plain


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
    found = differences_of(scores, tolerance=0.05, resamples=10_000)
    assert time.perf_counter() - began < 20
    assert {each.verdict for each in found} == {"unchanged"}
