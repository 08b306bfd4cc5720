"""Every golden case holds through the public names."""

from __future__ import annotations

from typing import Any

import pytest

import mlflow_ragmetrics as rm
import mlflow_ragmetrics.errors as errors
from mlflow_ragmetrics import Score

from .golden_cases import cases, decoded, embeddings_of, judges_of

CASES = cases()
_OF_CASE = {"score", "tolerance", "unscored", "error", "field", "param", "metric"}
_NOT_IN_DETAILS = {"passed", "scaled", "display", "warning", "excluded_models"}


def run(case: dict[str, Any]) -> Any:
    """The result of the case's call: a score, a number, or a run's figures."""
    name, sample, params = case["metric"], decoded(case["sample"]), decoded(case["params"])
    if name == "is_indistinct":
        return float(rm.is_indistinct(sample["text"]))
    if name == "combine":
        return rm.combine(sample["results"], **params)
    if name == "aggregate_models":
        return rm.aggregate(sample["scores"], params.get("aggregate", "mean"), params.get("tolerance", 0.1))
    if name == "aggregate@run":
        return rm.summarize(sample["scores"])
    if name.endswith("@run"):
        return rm.Suite.preset("retrieval").evaluate(sample["rows"], progress=False).metrics
    stub = params.pop("stub", {})
    judge, embeddings = judges_of(stub), embeddings_of(stub, sample)
    result = rm.score(name, sample, judge=judge, embeddings=embeddings, **params)
    if not stub:
        asked = [*judge.asked, *(text for model in embeddings for text in model.asked)]
        assert not asked, "an empty stub: no call may happen"
    return result


def check_details(score: Score, expected: dict[str, Any]) -> None:
    """Checks the other expectations of the case."""
    if "passed" in expected:
        assert score.passed is expected["passed"]
    if "scaled" in expected:
        assert score.scaled == pytest.approx(expected["scaled"], abs=1e-6)
        assert f"{score.scaled:.1f}" == f"{expected.get('display', round(expected['scaled'], 1)):.1f}"
    if "warning" in expected:
        assert expected["warning"] in dict(score.warnings)
    if "excluded_models" in expected:
        assert list(score.excluded_models) == expected["excluded_models"]
    for name in expected.keys() - _OF_CASE - _NOT_IN_DETAILS:
        value = expected[name]
        assert score.details[name] == (pytest.approx(value, abs=1e-6) if isinstance(value, float) else value), name


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case: dict[str, Any]) -> None:
    expected = case["expected"]
    if "error" in expected:
        with pytest.raises(getattr(errors, expected["error"])) as caught:
            run(case)
        for attribute in ("field", "param"):
            if attribute in expected:
                assert getattr(caught.value, attribute) == expected[attribute]
        return
    result = run(case)
    if "metrics" in expected:
        figures = {name: result[name] for name in expected["metrics"]}
        assert figures == pytest.approx(expected["metrics"], abs=expected.get("tolerance", 0))
        assert not set(expected.get("absent", ())) & set(result)
        return
    if expected.get("unscored"):
        assert result.value is None
        assert result.status == "skipped"
        assert result.reason
        return
    value = result.value if isinstance(result, Score) else result
    if case["sample"].get("scale") == "1-5":
        value = result.scaled
    assert value == pytest.approx(expected["score"], abs=expected["tolerance"], rel=0)
    if isinstance(result, Score):
        check_details(result, expected)


def test_there_are_cases_of_every_file() -> None:
    assert len(CASES) >= 190
