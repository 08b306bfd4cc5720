"""Facts of answer or reference that retrieval covers, for every state of both texts."""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import MissingFieldError
from mlflow_ragmetrics.metrics.faithfulness import fact_recall

CLEAR, VAGUE = "It is red.", "I don't know."


class SpyJudge(rm.ScriptedJudge):
    """Supports one claim of three, and records whose claims were requested."""

    def __init__(self) -> None:
        super().__init__(facts=[{"text": f"fact {i}", "ok": i == 0} for i in range(3)])

    @property
    def texts(self) -> list[str]:
        return [question.text for question in self.asked if question.kind == "claims"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("answer", "reference", "target", "checked"),
    [
        (CLEAR, "It is blue.", "answer", CLEAR),
        (CLEAR, "It is blue.", "reference", "It is blue."),
        (CLEAR, VAGUE, "answer", CLEAR),
        (CLEAR, VAGUE, "reference", CLEAR),
        (CLEAR, None, "answer", CLEAR),
        (VAGUE, "It is blue.", "answer", "It is blue."),
        (VAGUE, "It is blue.", "reference", "It is blue."),
    ],
)
def test_whose_facts_are_checked(answer: str, reference: str | None, target: str, checked: str) -> None:
    judge = SpyJudge()
    record = {"answer": answer, "reference": reference, "contexts": ["c"]}
    score = rm.score("fact_recall", record, judge=judge, target=target)
    assert judge.texts == [checked]
    assert score.value == pytest.approx(1 / 3)
    assert score.details["target"] == target
    own = answer if target == "answer" else reference
    assert score.measured is (checked == own)
    assert ("was scored instead" in score.cause) is (checked != own)


@pytest.mark.parametrize("target", ["answer", "reference"])
def test_two_indistinct_texts_need_no_fact(target: str) -> None:
    record = {"answer": "", "reference": VAGUE, "contexts": ["c"]}
    score = rm.score("fact_recall", record, judge=rm.ScriptedJudge(), target=target)
    assert (score.value, score.details["rule"]) == (1.0, "both_indistinct")
    assert "no facts are required" in score.reason


@pytest.mark.parametrize(("answer", "target"), [(VAGUE, "answer"), (VAGUE, "reference"), (CLEAR, "reference")])
def test_the_reference_is_missing_where_its_facts_are_needed(answer: str, target: str) -> None:
    record = {"answer": answer, "contexts": ["c"]}
    with pytest.raises(MissingFieldError) as caught:
        rm.score("fact_recall", record, target=target)
    assert caught.value.field == "reference"
    assert rm.score("fact_recall", record, target=target, on_missing="skip").status == "skipped"


@pytest.mark.parametrize(("mode", "value"), [("vacuous", 1.0), ("floor", 0.0), ("skip", None)])
@pytest.mark.parametrize("target", ["answer", "reference"])
def test_without_context(mode: str, value: float | None, target: str) -> None:
    score = rm.score("fact_recall", {"answer": VAGUE, "contexts": []}, no_context=mode, target=target)
    assert score.value == value
    assert ("no_context", "No context to verify.") in score.warnings


def test_it_equals_raw_faithfulness_and_asks_nothing_more() -> None:
    judge = SpyJudge()
    suite = rm.Suite(["faithfulness", "fact_recall"], judge=judge)
    row = suite.evaluate([{"answer": CLEAR, "reference": "r", "contexts": ["c"]}], progress=False).rows[0]
    assert row.scores["faithfulness"].value == row.scores["fact_recall"].value
    assert [question.kind for question in judge.asked] == ["claims", "verify"]


def test_keys() -> None:
    assert fact_recall.key == "fact_recall"
    assert fact_recall(target="reference").key == "fact_recall_reference"
    assert fact_recall(no_context="floor").key == "fact_recall"
    judge = SpyJudge()
    rm.score("fact_recall_reference", {"answer": CLEAR, "reference": "It is blue.", "contexts": ["c"]}, judge=judge)
    assert judge.texts == ["It is blue."]
