"""Combining several judges' scores into one."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.composite import agreement
from mlflow_ragmetrics.errors import AllJudgesFailedError, InvalidOptionError, NoConsensusError

VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=9)


@given(VALUES)
def test_definitions(values: list[float]) -> None:
    assert rm.aggregate(values) == pytest.approx(statistics.fmean(values))
    assert rm.aggregate(values, "median") == statistics.median(values)
    assert rm.aggregate(values, "min") == min(values)
    assert rm.aggregate(values, "max") == max(values)
    yes = sum(value >= 0.5 for value in values)
    assert rm.aggregate(values, "majority") == float(yes > len(values) - yes)
    assert rm.aggregate([0.5], "majority") == 1.0


@given(VALUES, st.floats(0, 1))
def test_consensus_is_the_mean_or_an_error(values: list[float], tolerance: float) -> None:
    spread = max(values) - min(values)
    if spread <= tolerance:
        assert rm.aggregate(values, "consensus", tolerance) == pytest.approx(statistics.fmean(values))
    elif spread > tolerance + 1e-6:
        with pytest.raises(NoConsensusError, match="tolerance"):
            rm.aggregate(values, "consensus", tolerance)


def test_tolerance_forgives_the_last_bits() -> None:
    assert rm.aggregate([0.3, 0.2], "consensus", 0.1) == pytest.approx(0.25)
    assert rm.aggregate([0.8, 0.7, 0.75], "consensus") == pytest.approx(0.75)


@given(VALUES)
def test_missing_values_have_no_vote(values: list[float]) -> None:
    assert rm.aggregate([*values, float("nan"), None]) == pytest.approx(rm.aggregate(values))  # type: ignore[list-item]


def test_errors() -> None:
    with pytest.raises(AllJudgesFailedError):
        rm.aggregate([])
    for options, param in (({"how": "vote"}, "aggregate"), ({"tolerance": -0.1}, "tolerance")):
        with pytest.raises(InvalidOptionError) as caught:
            rm.aggregate([0.5], **options)  # type: ignore[arg-type]
        assert caught.value.param == param


def test_agreement() -> None:
    assert agreement([0.4]) == agreement([0.7, 0.7]) == 1.0
    assert agreement([0.0, 1.0]) == 0.0
    assert agreement([0.0, 0.5, 1.0]) == pytest.approx(1 / 3)
