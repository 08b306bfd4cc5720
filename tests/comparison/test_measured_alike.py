from __future__ import annotations

from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.results.results import Results, results_of

from .reports import noisy, report_of


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"judge": ["openai:/gpt-4o-mini"]}, "judge (lexical / openai:/gpt-4o-mini)"),
        ({"judge_versions": {"lexical": "2"}}, "judge or prompt version (lexical 1 / lexical 2)"),
        ({"metrics": ["faithfulness(no_context='skip')"]}, "suite (faithfulness / faithfulness(no_context='skip'))"),
        ({"thresholds": {"faithfulness": 0.7}}, "thresholds (faithfulness 0.6 / faithfulness 0.7)"),
    ],
)
def test_what_was_measured_otherwise_is_refused_and_can_be_allowed(changed: dict[str, Any], named: str) -> None:
    a, b = report_of(noisy(30)), report_of(noisy(30, seed=1), **changed)
    with pytest.raises(InvalidOptionError) as refusal:
        rm.compare(a, b)
    assert named in str(refusal.value)
    assert "allow_different=True" in str(refusal.value)
    assert refusal.value.param == "allow_different"
    assert any(named in warning for warning in rm.compare(a, b, allow_different=True).warnings)


def test_the_order_of_judges_and_metrics_does_not_matter() -> None:
    a = report_of(noisy(30), judge=["x", "y"], weights={"rag_score": {"a": 1, "b": 2}})
    b = report_of(noisy(30), judge=["y", "x"], weights={"rag_score": {"b": 2, "a": 1}})
    assert rm.compare(a, b).warnings == ()


def test_a_side_that_does_not_say_how_it_was_measured_is_a_warning() -> None:
    a = results_of(report_of(noisy(30)))
    silent = Results("silent", a.table, a.items)
    assert rm.compare(a, silent).warnings == ("silent does not record its judge and suite",)


def test_judges_that_nothing_identifies_are_not_taken_for_the_same() -> None:
    a = report_of(noisy(30), judge_versions={"mine": "", "lexical": "1"})
    (warning,) = rm.compare(a, a).warnings
    assert "were judged by mine without a known version or prompts" in warning
