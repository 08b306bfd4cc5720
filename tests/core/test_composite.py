"""Weighted means of metrics: coverage, passing, scales, weights."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.composite import check_weights, to_unit
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.errors import InvalidFieldError, InvalidOptionError

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


@pytest.mark.parametrize(
    ("options", "param"),
    [({"name": "my score"}, "name"), ({"weights": {"a": -1}}, "weights"), ({"threshold": 2}, "threshold")],
)
def test_composites_that_are_refused(options: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        rm.composite(**{"name": "x", "weights": {"a": 1}, **options})
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
    other = Score(value=0.0, warnings=(("claims_missing", "Left out."),))
    assert parts(a=doubtful, b=other).warnings == (("reply_at_odds", "Odd."), ("claims_missing", "Left out."))
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


def test_what_is_said_of_a_mean() -> None:
    scores = {"a": 0.5, "b": Score(value=0.25, higher_is_better=False), "c": None, "d": 1.0, "e": 0.1}
    found = rm.combine(scores, {"a": 1, "b": 2, "c": 1, "d": 0, "f": 4})
    assert found.value == pytest.approx((0.5 + 2 * 0.75) / 3)
    assert found.reason == ("Weighted mean of 2 metrics: a 0.500 × 1, (1 − b) 0.750 × 2. Not scored: c, f.")
    assert found.details == {
        "scores": {"a": 0.5, "b": 0.75, "d": 1.0},
        "skipped": 2,
        "coverage": 0.375,
        "weights": {"a": 1.0, "b": 2.0, "c": 1.0, "d": 0.0, "f": 4.0},
        "inverted": ["b"],
    }
    assert rm.combine([]).status == "skipped"
    empty = rm.combine({})
    assert (empty.details["coverage"], empty.details["skipped"], empty.value) == (0.0, 0, None)


@pytest.mark.parametrize(
    ("weights", "name", "message"),
    [
        ([1], "combine", "combine: option weights=[1]: Input should be a valid dictionary"),
        ({"a": -0.1}, "mine", "mine: option weights={'a': -0.1}: Input should be greater than or equal to 0"),
        ({1: 1}, "mine", "mine: option weights={1: 1}: Input should be a valid string"),
        ({"a": 0}, "mine", "mine: option weights={'a': 0}: the weights sum to zero; give at least one metric a weight"),
    ],
)
def test_weights_are_refused_with_the_reason(weights: Any, name: str, message: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        check_weights(name, weights)
    assert (str(caught.value), caught.value.param) == (message, "weights")


@pytest.mark.parametrize("scores", [[{"score": 1.0}], [3], 3, {1: 0.5}, [{"metric": 1, "score": 0.5}]])
def test_scores_without_keys_are_refused(scores: Any) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        rm.combine(scores)
    assert caught.value.field == "scores"


def test_scores_come_as_a_list_with_thresholds_too() -> None:
    rows = [{"metric": "a", "score": 0.5, "threshold": 0.4}, {"metric": "b", "score": 1.0}, {"metric": "c"}]
    found = rm.combine(rows)
    assert (found.value, found.passed, found.details["skipped"]) == (0.75, True, 1)


@given(st.floats(-2, 2), st.floats(-1, 0.9), st.floats(0.05, 5))
def test_a_scale_is_brought_to_one_in_proportion_and_within_limits(value: float, low: float, width: float) -> None:
    high = max(low, 0.0) + width
    unit = to_unit(value, (low, high))
    assert 0 <= unit <= 1
    if 0 < unit < 1:
        assert max(low, 0.0) + unit * width == pytest.approx(value)


def test_a_composite_is_described_by_its_formula_and_spelling() -> None:
    overall = rm.composite("overall", {"a": 1, "b": 3})
    assert (overall.key, overall.scaled, overall.threshold, overall.min_coverage) == ("overall", False, None, 0.5)
    assert overall.spelling == "overall(weights={'a': 1.0, 'b': 3.0})"
    assert overall(min_coverage=0.25).spelling == "overall(weights={'a': 1.0, 'b': 3.0}, min_coverage=0.25)"
    assert overall.__doc__.startswith("Weighted mean of other metrics, 0 to 1.\n\nFormula: ")
    assert "``overall(weights={'a': 1.0, 'b': 3.0})``" in overall.__doc__
    changed = overall(weights={"a": 1}, threshold=0.5, key="other")
    assert (changed.key, changed.weights, changed.threshold) == ("other", {"a": 1.0}, 0.5)
    with pytest.raises(InvalidOptionError, match="option wights: no such option; did you mean 'weights'") as caught:
        overall(wights={})
    assert (caught.value.param, caught.value.metric) == ("wights", "overall")
    for name, value in {"name": "other", "scaled": True, "summary": "Other."}.items():
        with pytest.raises(InvalidOptionError, match=f"no option '{name}'; a composite accepts weights, threshold, "):
            overall(**{name: value})


def test_a_composite_brings_its_parts_to_one_scale_and_names_their_judges() -> None:
    overall = dataclasses.replace(rm.composite("overall", {"a": 1, "b": 1, "c": 1}, threshold=0.5), scaled=True)
    scores = {
        "a": Score(value=3.0, judge="first", threshold=4.0),
        "b": Score(value=0.5, judge="second"),
        "c": Score(value=0.5, judge="first"),
        "d": Score(value=0.0, judge="third"),
    }
    found = overall.score(scores, {"a": (1.0, 5.0)})
    assert (found.value, found.scaled, found.judge) == (0.5, 3.0, "first, second")
    assert (found.passed, found.threshold) == (True, 0.5)
    free = dataclasses.replace(overall, threshold=None).score(scores, {"a": (1.0, 5.0)})
    assert (free.passed, free.scaled) == (False, 3.0)
    bare = rm.composite("overall", {"a": 1}, threshold=0.5).score({}, {})
    assert (bare.value, bare.scaled, bare.passed, bare.judge) == (None, None, None, None)


def test_a_coverage_that_is_too_low_is_named_in_percent() -> None:
    overall = rm.composite("overall", {"a": 1, "b": 3}, min_coverage=1)
    found = overall.score({"a": Score(value=1.0), "b": Score()}, {})
    assert (found.value, found.status, found.passed) == (None, "skipped", None)
    assert found.reason == "Only 25 % of the weight has a score; at least 100 % is required."
