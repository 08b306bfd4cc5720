from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Claims, Finding, Judge, Outcome, Question
from tests.judges.fake_models import scripted

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


QUOTES = [{"passage": "p1", "text": "It holds."}]
GOLDEN = [  # supports and verdicts in a chat judge's reply, in order; the score; the claim named as its reason
    ([(100, "SUPPORTED"), (90, "SUPPORTED")], 0.9, 2),
    ([(75, "SUPPORTED"), (40, "NEUTRAL"), (100, "SUPPORTED")], 0.4, 2),
    ([(0, "NEUTRAL"), (0, "CONTRADICTED")], 0.0, 1),  # the first of several equal ones
    ([(60, "SUPPORTED"), (5, "CONTRADICTED"), (20, "NEUTRAL")], 0.05, 2),
    ([(100, "SUPPORTED")], 1.0, 1),
    ([(50, "SUPPORTED"), (49, "NEUTRAL")], 0.49, 2),
    ([("85%", "SUPPORTED"), ("62.5", "SUPPORTED")], 0.625, 2),
    ([(0.9, "SUPPORTED"), (0.3, "NEUTRAL")], 0.3, 2),  # a reply in fractions
    ([(None, "SUPPORTED"), (None, "NEUTRAL")], 0.0, 2),  # verdicts only
    ([(None, "SUPPORTED"), (None, "SUPPORTED")], 1.0, 1),
]


@pytest.mark.parametrize("calls", ["full", "single"])
@pytest.mark.parametrize(("given", "value", "weakest"), GOLDEN)
def test_golden_replies(calls: Any, given: list[tuple[Any, str]], value: float, weakest: int) -> None:
    claims = [f"Claim number {number} holds." for number in range(1, len(given) + 1)]
    judged = [
        {"quotes": QUOTES, "reason": f"Reason {number}.", "support": support, "verdict": verdict}
        for number, (support, verdict) in enumerate(given, 1)
    ]
    listed = [{"claim": claim, "sentences": [number]} for number, claim in enumerate(claims, 1)]
    if calls == "single":
        replies = [{"texts": [{"id": "t1", "claims": list(map(merged, listed, judged)), "none": []}]}]
    else:
        verdicts = [{"id": f"c{number}", **each} for number, each in enumerate(judged, 1)]
        replies = [{"texts": [{"id": "t1", "claims": listed, "none": []}]}, {"verdicts": verdicts}]
    record = {"answer": " ".join(claims), "contexts": ["It holds."]}
    for threshold in (0.3, 0.5, 0.8):  # decides verdicts, not support
        judge = rm.ChatJudge(scripted(*map(json.dumps, replies)), calls=calls, support_threshold=threshold)
        score = rm.score("weakest_claim", record, judge=judge)
        assert score.value == pytest.approx(value)
        assert f"“{claims[weakest - 1]}” Reason {weakest}." in score.reason


def merged(claim: dict[str, Any], judged: dict[str, Any]) -> dict[str, Any]:
    return {**claim, **judged}


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
