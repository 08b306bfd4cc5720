"""Several judges' scores into one."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.composite import agreement
from mlflow_ragmetrics.core.language import render
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.program import merge_judges
from mlflow_ragmetrics.errors import AllJudgesFailedError, JudgeError, JudgeReplyError

VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=9)


@given(VALUES)
def test_definitions(values: list[float]) -> None:
    assert rm.aggregate(values) == pytest.approx(statistics.fmean(values))
    assert rm.aggregate(values, "median") == statistics.median(values)
    assert rm.aggregate(values, "min") == min(values)
    assert rm.aggregate(values, "max") == max(values)
    yes = sum(value >= 0.5 for value in values)
    assert rm.aggregate(values, "majority") == float(yes > len(values) - yes)


@given(VALUES, st.floats(0, 1))
def test_consensus_is_the_mean_or_an_error(values: list[float], tolerance: float) -> None:
    spread = max(values) - min(values)
    if spread <= tolerance:
        assert rm.aggregate(values, "consensus", tolerance) == pytest.approx(statistics.fmean(values))
    elif spread > tolerance + 1e-6:
        with pytest.raises(rm.NoConsensusError, match="tolerance"):
            rm.aggregate(values, "consensus", tolerance)


def test_tolerance_forgives_the_last_bits() -> None:
    assert rm.aggregate([0.3, 0.2], "consensus", 0.1) == pytest.approx(0.25)
    assert rm.aggregate([0.8, 0.7, 0.75], "consensus") == pytest.approx(0.75)


@given(VALUES)
def test_missing_values_have_no_vote(values: list[float]) -> None:
    assert rm.aggregate([*values, float("nan"), None]) == pytest.approx(rm.aggregate(values))  # type: ignore[list-item]


def test_errors() -> None:
    with pytest.raises(rm.AllJudgesFailedError):
        rm.aggregate([])
    for options, param in (({"how": "vote"}, "aggregate"), ({"tolerance": -0.1}, "tolerance")):
        with pytest.raises(rm.InvalidOptionError) as caught:
            rm.aggregate([0.5], **options)  # type: ignore[arg-type]
        assert caught.value.param == param


def test_agreement() -> None:
    assert agreement([0.4]) == agreement([0.7, 0.7]) == 1.0
    assert agreement([0.0, 1.0]) == 0.0
    assert agreement([0.0, 0.5, 1.0]) == pytest.approx(1 / 3)


def test_merged_judges() -> None:
    outcomes = {"a": Score(value=1.0, reason="first"), "b": JudgeError("down"), "c": Score(value=0.5)}
    merged = merge_judges(outcomes, "mean", 0.1, several=True)
    assert (merged.value, merged.judge, merged.excluded_models) == (0.75, "a, c", ("b",))
    assert merged.model_scores == {"a": 1.0, "c": 0.5}
    assert merged.details["agreement"] == 0.5
    assert merged.reason.startswith("first ")
    assert merged.warnings == (("judge_failed:b", "b: down"),)


def test_a_judge_without_score_has_no_vote() -> None:
    merged = merge_judges({"a": Score(status="skipped"), "b": Score(value=0.5)}, "mean", 0.1, several=True)
    assert (merged.value, merged.model_scores) == (0.5, {"b": 0.5})
    assert merge_judges({"a": Score(status="skipped")}, "mean", 0.1, several=True).status == "skipped"


def test_failures() -> None:
    reply, down = JudgeReplyError("not json"), JudgeError("down")
    with pytest.raises(JudgeReplyError, match="not json"):
        merge_judges({"a": reply}, "mean", 0.1, several=False)
    with pytest.raises(AllJudgesFailedError, match="a: not json; b: down"):
        merge_judges({"a": reply, "b": down}, "mean", 0.1, several=True)


def test_the_way_to_merge_is_named_in_the_language_of_the_reason() -> None:
    scores = {name: Score(value=value) for name, value in (("first", 0.2), ("second", 0.4))}
    merged = merge_judges(scores, "median", 0.1, several=True)
    assert "median of 2 judges" in render(merged.reason, "en")
    assert "Агрегат «медиана» по 2 судьям" in render(merged.reason, "ru")
