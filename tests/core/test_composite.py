"""Weighted means of metrics: coverage, passing, scales, weights."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.composite import to_unit
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.errors import InvalidOptionError

KEYS = "abcd"
SCORES = st.dictionaries(st.sampled_from(KEYS), st.one_of(st.none(), st.floats(0, 1)), min_size=1)
WEIGHTS = st.fixed_dictionaries({key: st.floats(0.01, 10) for key in KEYS})


@given(SCORES, WEIGHTS)
def test_weighted_mean_over_what_is_there(scores: dict[str, float | None], weights: dict[str, float]) -> None:
    found = rm.combine(scores, weights)
    present = {key: value for key, value in scores.items() if value is not None}
    if not present:
        assert (found.status, found.value) == ("skipped", None)
        assert found.details["coverage"] == 0.0
        return
    total = sum(weights[key] for key in present)
    assert found.value == pytest.approx(sum(weights[key] * value for key, value in present.items()) / total)
    assert found.details["coverage"] == pytest.approx(total / sum(weights.values()))
    assert found.details["skipped"] == len(KEYS) - len(present)
    assert found.details["scores"] == present


def test_only_components_without_weight_are_left() -> None:
    found = rm.combine({"a": 0.9, "b": math.nan}, {"a": 0, "b": 1})
    assert (found.status, found.value) == ("skipped", None)


def test_what_has_no_weight_is_not_missed() -> None:
    score = rm.combine({"a": 1.0}, {"a": 1, "b": 0})
    assert (score.details["skipped"], score.details["coverage"]) == (0, 1.0)
    assert "b" not in score.reason


def test_it_passes_only_if_all_with_a_threshold_pass() -> None:
    passed, failed = Score(value=0.9, threshold=0.5), Score(value=0.4, threshold=0.5)
    free, missing = Score(value=0.1), Score(status="skipped")
    assert rm.combine({"a": passed, "b": free, "c": missing}).passed is True
    assert rm.combine({"a": passed, "b": failed}).passed is False
    assert rm.combine({"a": free}).passed is None
    assert rm.combine({"a": passed, "b": failed}, {"a": 1, "b": 0}).passed is True


@pytest.mark.parametrize(
    "weights", [{"a": -1}, {"a": 0, "b": 0}, {"a": math.nan}, {"a": "1"}, {"a": True}, {}, {"a": math.inf}]
)
def test_weights_that_are_refused(weights: dict[str, object]) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        rm.combine({"a": 1.0}, weights)  # type: ignore[arg-type]
    assert caught.value.param == "weights"


def test_nothing_to_combine_is_skipped() -> None:
    assert rm.combine({}).status == "skipped"
    assert rm.combine([]).status == "skipped"


def test_scales_are_brought_to_one() -> None:
    assert to_unit(-0.4, (-1.0, 1.0)) == 0.0
    assert to_unit(0.4, (-1.0, 1.0)) == 0.4
    assert to_unit(3.0, (1.0, 5.0)) == 0.5
    assert to_unit(50.0, (0.0, 100.0)) == 0.5


def test_a_composite_over_a_suite() -> None:
    overall = rm.composite("overall", {"lexical_relevance": 1, "coherence": 3}, threshold=0.5)
    suite = rm.Suite([overall])
    row = suite.evaluate([{"question": "cats", "answer": "We like these dogs."}], progress=False).rows[0]
    score = row.scores["overall"]
    assert score.value == pytest.approx(0.75)
    assert (score.passed, score.threshold) == (True, 0.5)
    assert "coherence 1.000 × 3" in score.reason


def test_a_users_own_metric_takes_part() -> None:
    @rm.metric
    def shout(answer: str) -> float:
        """1.0 for upper case."""
        return float(answer.isupper())

    overall = rm.composite("overall", {"shout": 1, "coherence": 1})
    row = rm.Suite([shout, overall]).evaluate([{"answer": "WE ARE HERE."}], progress=False).rows[0]
    assert row.scores["overall"].value == 1.0


@pytest.mark.parametrize(
    ("name", "weights", "options", "param"),
    [
        ("my score", {"a": 1}, {}, "name"),
        ("x", {"a": -1}, {}, "weights"),
        ("x", {"a": 1}, {"threshold": 2}, "threshold"),
    ],
)
def test_composites_that_are_refused(
    name: str, weights: dict[str, float], options: dict[str, float], param: str
) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        rm.composite(name, weights, **options)
    assert caught.value.param == param


def test_reasons_in_russian() -> None:
    overall = rm.composite("overall", {"coherence": 1})
    row = rm.Suite([overall], language="ru").evaluate([{"answer": "We are here."}], progress=False).rows[0]
    assert row.scores["overall"].reason == "Взвешенное среднее по 1 метрике: coherence 1.000 × 1."


def parts(**scores: Score) -> Score:
    """The composite of these components with equal weights, and one of weight 0 if it is named ``idle``."""
    weights = {key: float(key != "idle") for key in scores}
    return rm.composite("overall", weights).score(scores, {})


def test_doubts_about_components_with_a_weight_are_its_own() -> None:
    doubtful = Score(value=1.0, warnings=(("reply_at_odds", "Odd."), ("no_context", "Empty.")))
    other = Score(value=0.0, warnings=(("quote_not_found", "Forged."),))
    assert parts(a=doubtful, b=other).warnings == (("reply_at_odds", "Odd."), ("quote_not_found", "Forged."))
    assert parts(a=Score(value=1.0), idle=doubtful).warnings == ()


def test_a_component_that_failed_or_was_not_measured_leaves_it_unmeasured() -> None:
    sound, vain = Score(value=1.0), Score(value=1.0, details={"unmeasured": "no claims"})
    failed = Score(status="error", error="no reply")
    for score in (parts(a=sound, b=vain), parts(a=sound, b=failed)):
        assert (score.value, score.measured) == (1.0, False)
        assert str(score.details["unmeasured"]).endswith("b")
    for score in (parts(a=sound, b=Score(status="skipped")), parts(a=sound, idle=failed)):
        assert (score.value, score.measured) == (1.0, True)


@pytest.mark.parametrize("rule", ["instead_of_answer", "other_text"])
def test_a_component_that_fell_back_on_another_text_drops_out(rule: str) -> None:
    score = parts(a=Score(value=0.0), b=Score(value=1.0, details={"rule": rule}))
    assert (score.value, score.measured, score.details["coverage"]) == (0.0, True, 0.5)


@pytest.mark.parametrize(("least", "value"), [(0.5, 1.0), (0.51, None), (0.0, 1.0)])
def test_it_has_no_value_below_its_coverage(least: float, value: float | None) -> None:
    overall = rm.composite("overall", {"a": 1, "b": 1}, min_coverage=least)
    score = overall.score({"a": Score(value=1.0), "b": Score(status="skipped")}, {})
    assert (score.value, score.status) == (value, "ok" if value else "skipped")
    for wrong in (-0.01, 1.01, True, "1"):
        with pytest.raises(InvalidOptionError, match="min_coverage"):
            rm.composite("overall", {"a": 1}, min_coverage=wrong)  # type: ignore[arg-type]


def test_lower_is_better_counts_as_one_minus_the_value() -> None:
    score = parts(a=Score(value=0.25, higher_is_better=False), b=Score(value=0.25))
    assert (score.value, score.details["inverted"]) == (0.5, ["a"])
    assert "(1 − a)" in score.reason
    with pytest.raises(InvalidOptionError, match="neither"):
        parts(a=Score(value=0.25, higher_is_better=None))
    assert parts(a=Score(value=0.25), idle=Score(value=0.1, higher_is_better=None)).value == 0.25
