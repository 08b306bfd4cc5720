"""The weighted mean of facts and similarity."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import AllJudgesFailedError, InvalidOptionError, JudgeError
from mlflow_ragmetrics.metrics.factual_correctness import answer_correctness

RECORD = {"answer": "A.", "reference": "B."}


class Angle:
    """An embedding model that gives the texts this cosine, or fails."""

    name = "angle"
    local = True

    def __init__(self, cosine: float | None) -> None:
        self.cosine = cosine
        self.calls = 0

    def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
        self.calls += 1
        if self.cosine is None:
            raise TimeoutError("no vectors")
        return [(1.0, 0.0), (self.cosine, (1 - self.cosine**2) ** 0.5)][: len(texts)]


def half_right() -> rm.ScriptedJudge:
    verdicts = ["SUPPORTED", "NEUTRAL"]
    return rm.ScriptedJudge(
        response_claims=["a", "b"], reference_claims=["r", "s"], response_verdicts=verdicts, reference_verdicts=verdicts
    )


@pytest.mark.parametrize(
    ("options", "weight"),
    [
        ({}, 0.75),
        ({"preset": "default"}, 0.75),
        ({"preset": "equal_weights"}, 0.5),
        ({"preset": "EqualWeights"}, 0.5),
        ({"preset": "factual_focused"}, 0.9),
        ({"preset": "semantic_focused"}, 0.1),
        ({"factual_weight": 3, "semantic_weight": 1}, 0.75),
        ({"factual_weight": 0.25}, 0.5),
        ({"preset": "equal_weights", "semantic_weight": 1.5}, 0.25),
    ],
)
def test_weights(options: dict[str, object], weight: float) -> None:
    score = rm.score("answer_correctness", RECORD, judge=half_right(), embeddings=Angle(0.8), **options)
    assert score.details["factual_weight"] == pytest.approx(weight)
    assert score.value == pytest.approx(weight * 0.5 + (1 - weight) * 0.8)
    assert (score.details["precision"], score.details["recall"]) == (0.5, 0.5)
    assert len(score.items) == 4


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 10), st.floats(0, 10), st.floats(-1, 1))
def test_it_lies_between_its_components(factual: float, semantic: float, cosine: float) -> None:
    if factual + semantic < 1e-6:
        return
    options = {"factual_weight": factual, "semantic_weight": semantic}
    value = rm.score("answer_correctness", RECORD, judge=half_right(), embeddings=Angle(cosine), **options).value
    low, high = sorted((0.5, max(0.0, cosine)))
    assert low - 1e-9 <= value <= high + 1e-9


@pytest.mark.parametrize(
    "options",
    [{"factual_weight": -0.1}, {"semantic_weight": -1}, {"factual_weight": 0, "semantic_weight": 0}],
)
def test_weights_that_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        answer_correctness(**options)
    assert (caught.value.param, caught.value.metric) == ("weights", "answer_correctness")


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        answer_correctness(preset="lenient")
    assert caught.value.param == "preset"


def test_a_component_without_weight_is_not_asked_for() -> None:
    embeddings, judge = Angle(None), half_right()
    facts_only = rm.score("answer_correctness", RECORD, judge=judge, embeddings=embeddings, semantic_weight=0)
    assert (facts_only.value, embeddings.calls) == (0.5, 0)
    assert "semantic" not in facts_only.details
    assert facts_only.reason == "Factual F1 0.500 × 1.00."
    silent = rm.ScriptedJudge(error="not to be asked")
    likeness_only = rm.score("answer_correctness", RECORD, judge=silent, embeddings=Angle(0.8), factual_weight=0)
    assert (likeness_only.value, silent.asked) == (pytest.approx(0.8), [])


def test_a_failed_component_leaves_it_unscored() -> None:
    with pytest.raises(AllJudgesFailedError, match="no vectors"):
        rm.score("answer_correctness", RECORD, judge=half_right(), embeddings=Angle(None))
    broken = rm.ScriptedJudge(error="overloaded")
    with pytest.raises(JudgeError, match="overloaded"):
        rm.score("answer_correctness", RECORD, judge=broken, embeddings=Angle(1.0))
    kept = rm.score("answer_correctness", RECORD, judge=broken, embeddings=Angle(1.0), on_missing="skip")
    assert (kept.status, kept.value) == ("error", None)


def test_all_questions_of_one_kind_are_asked_at_once() -> None:
    judge, embeddings = half_right(), Angle(0.0)
    rm.score("answer_correctness", RECORD, judge=judge, embeddings=embeddings)
    assert [question.kind for question in judge.asked] == ["claims", "claims", "verify", "verify"]
    assert embeddings.calls == 1


def test_blank_answer() -> None:
    score = rm.score("answer_correctness", {"answer": "", "reference": "B."}, judge=rm.ScriptedJudge())
    assert score.value == 0.0
