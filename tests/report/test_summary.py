"""The figures of a run."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.report.summary import Totals


def test_nothing_scored_has_counts_and_no_mean() -> None:
    assert rm.summarize([math.nan, None]) == {"n_scored": 0, "n_skipped": 2, "n_error": 0, "n_measured": 0}


def test_failed_rows_are_counted_apart() -> None:
    scores = [rm.Score(value=1.0), rm.Score(value=0.0), rm.Score(error="JudgeError: down")]
    figures = rm.summarize(scores)
    assert (figures["mean"], figures["n_scored"], figures["n_skipped"], figures["n_error"]) == (0.5, 2, 0, 1)


def test_pass_rate_is_over_scored_rows() -> None:
    scores = [rm.Score(value=v, threshold=0.5) for v in (0.2, 0.5, 0.9)] + [rm.Score()]
    assert rm.summarize(scores)["pass_rate"] == pytest.approx(2 / 3)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40))
def test_the_interval_holds_the_mean_and_stays_in_range(values: list[float]) -> None:
    figures = rm.summarize(values)
    assert 0.0 <= figures["ci_low"] <= figures["mean"] + 1e-12
    assert figures["mean"] - 1e-12 <= figures["ci_high"] <= 1.0 + 1e-12


def test_the_interval_narrows_as_rows_grow() -> None:
    draw = np.random.default_rng(1).random
    few, many = rm.summarize(list(draw(20))), rm.summarize(list(draw(2000)))
    assert many["ci_high"] - many["ci_low"] < 0.3 * (few["ci_high"] - few["ci_low"])


def test_rows_without_context_and_coverage_are_counted_where_scores_tell_them() -> None:
    scores = [rm.Score(1.0, details={"no_context": told}) for told in (True, False, False)] + [rm.Score(0.5)]
    assert rm.summarize(scores)["n_no_context"] == 1
    assert rm.summarize([rm.Score(0.5, details={"coverage": c}) for c in (1.0, 0.5)])["coverage"] == 0.75
    assert rm.summarize([rm.Score(0.5)]).keys().isdisjoint({"n_no_context", "coverage", "pass_rate"})


def test_white_paper_scores_have_both_scales() -> None:
    totals = Totals()
    totals.add_scores({"faithfulness": rm.Score(value=0.5, scaled=3.0)})
    figures = totals.figures()
    assert figures["faithfulness/mean"] == 0.5
    assert figures["faithfulness_1to5/mean"] == 3.0
