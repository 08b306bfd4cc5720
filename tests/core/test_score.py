from __future__ import annotations

import pytest

from mlflow_ragmetrics.core.score import Sample, passes, score_of, verdict_name
from mlflow_ragmetrics.errors import InvalidFieldError


@pytest.mark.parametrize(
    ("value", "threshold", "reached"),
    [
        (0.7, 0.7, True),
        (1 - 0.1 - 0.2, 0.7, True),
        (1 - 0.9, 0.1, True),
        (0.7 - 1e-6, 0.7, False),
        (0.6999, 0.7, False),
    ],
)
def test_a_threshold_is_reached_but_for_the_last_bits(value: float, threshold: float, reached: bool) -> None:
    assert passes(value, threshold) is reached


def test_a_verdict_of_several_metrics_speaks_of_passages_where_one_of_them_does() -> None:
    assert verdict_name("NEUTRAL", "answer") == verdict_name("NEUTRAL", "reference") == "not supported"
    assert verdict_name("NEUTRAL") == "not in the passages"
    assert verdict_name("CONTRADICTED", "answer") == "contradicted"


@pytest.mark.parametrize(("value", "reached"), [(0.1 + 0.2, True), (0.3 + 1e-6, False), (0.2, True), (0.4, False)])
def test_where_lower_is_better_a_threshold_is_reached_from_above(value: float, reached: bool) -> None:
    assert passes(value, 0.3, higher_is_better=False) is reached
    assert passes(-value, -0.3) is reached


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("no_model_call", "no_model_call"),
        ("no_call_matches", "no_call_matches"),
        ("else", None),
        (1, None),
        (None, None),
    ],
)
def test_contexts_are_assumed_for_a_known_cause(given: object, expected: str | None) -> None:
    assert Sample(metadata={"contexts_assumed": given}).contexts_assumed == expected
    assert Sample().contexts_assumed is None


@pytest.mark.parametrize(("given", "named"), [([], "a list"), ((), "a tuple"), (object(), "an object"), ("x", "a str")])
def test_what_is_no_number_is_named_with_its_article(given: object, named: str) -> None:
    with pytest.raises(InvalidFieldError, match=f"must be a number, but is {named}$"):
        score_of(given)
