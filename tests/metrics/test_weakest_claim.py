from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.judge import Judge
from mlflow_ragmetrics.core.question import Claims, Finding, Outcome, Question

RECORD = {"question": "What is it?", "answer": "It is red and old.", "contexts": ["It is red."]}


class Graded(Judge):
    """Two claims, the first with more support."""

    name = "graded"

    def __init__(self) -> None:
        self.asked = 0

    def answer(self, questions: Sequence[Question[Any]]) -> list[Outcome]:
        self.asked += len(questions)
        findings = (Finding("SUPPORTED", "Stated.", 0.9), Finding("NEUTRAL", "No passage says so.", 0.2))
        return [("It is red.", "It is old.") if isinstance(each, Claims) else findings for each in questions]


def test_the_least_supported_claim_is_the_score_and_the_reason() -> None:
    score = rm.score("weakest_claim", RECORD, judge=Graded())
    assert (score.value, score.scaled) == (0.2, None)
    assert score.reason == "Least supported of 2 claims: “It is old.” No passage says so."
    assert score.details["support"] == pytest.approx(0.55)
    assert [item.support for item in score.items] == [0.9, 0.2]
    russian = rm.score("weakest_claim", RECORD, judge=Graded(), language="ru")
    assert russian.reason == "Слабее всего подтверждено (всего утверждений: 2): «It is old.» No passage says so."


def test_beside_faithfulness_it_costs_nothing() -> None:
    judge = Graded()
    rm.Suite(["faithfulness", "weakest_claim", "fact_recall"], judge=judge).evaluate([RECORD])
    assert judge.asked == 2


@pytest.mark.parametrize(("oks", "value"), [((True, True), 1.0), ((True, False), 0.0), ((), 1.0)])
def test_a_judge_of_verdicts_only_counts_them(oks: tuple[bool, ...], value: float) -> None:
    facts = [{"text": f"Claim {number}.", "ok": ok} for number, ok in enumerate(oks)]
    score = rm.score("weakest_claim", RECORD, judge=rm.ScriptedJudge(facts=facts))
    assert score.value == value


@pytest.mark.parametrize(
    "record",
    [
        {"answer": "It is red."},
        {"answer": "It is red.", "contexts": []},
        {"answer": "I don't know.", "contexts": ["a"]},
        {"answer": "I don't know.", "contexts": ["a"], "reference": "It is red."},
        {"answer": "I don't know.", "contexts": ["a"], "reference": "Unknown."},
    ],
)
def test_where_nothing_is_judged_it_is_what_faithfulness_is(record: dict[str, Any]) -> None:
    judge = rm.ScriptedJudge(tone=0.5)
    ours, theirs = (rm.score(name, record, judge=judge) for name in ("weakest_claim", "faithfulness"))
    assert (ours.value, ours.reason, ours.details) == (theirs.value, theirs.reason, theirs.details)
