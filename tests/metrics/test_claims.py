"""Claims and their verdicts: two questions, one after another."""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Claims, Finding, Verify
from mlflow_ragmetrics.errors import JudgeError
from mlflow_ragmetrics.metrics.claims import Verified, verified_claims


def test_questions() -> None:
    program = verified_claims("A. B.", ["c1", "c2"], role="reference")
    (claims,) = next(program)
    assert claims == Claims("A. B.")
    assert claims.role == "reference"  # type: ignore[union-attr]
    assert program.send((("A.", "  ", "B."),)) == (Verify(("A.", "B."), ("c1", "c2")),)
    with pytest.raises(StopIteration) as end:
        program.send(((Finding("supported"),),))
    assert end.value.value.counts == {"supported": 1, "contradicted": 0, "neutral": 1, "total": 2}


def test_a_failed_question_ends_the_program() -> None:
    program = verified_claims("A.", ["c"])
    next(program)
    with pytest.raises(JudgeError, match="down"):
        program.send((JudgeError("down"),))


def test_a_blank_text_asks_nothing() -> None:
    with pytest.raises(StopIteration) as end:
        next(verified_claims(" ", ["c"]))
    assert end.value.value == Verified()


def test_support_is_there_where_it_is_graded() -> None:
    graded = Verified(("a", "b"), (Finding("SUPPORTED", support=0.9), Finding("NEUTRAL", support=0.3)))
    assert graded.details["support"] == pytest.approx(0.6)
    assert "support" not in Verified(("a",), (Finding("SUPPORTED"),)).details
    assert (Verified().share(empty=1.0), graded.share(empty=1.0)) == (1.0, 0.5)


CLAIMS = {
    "response_claims": ["It is red.", "It is old."],
    "reference_claims": ["It is red.", "It is high."],
    "response_verdicts": ["SUPPORTED", "CONTRADICTED"],
    "reference_verdicts": ["SUPPORTED", "NEUTRAL"],
}
RECORD = {"answer": "It is red and old.", "reference": "It is red and high.", "contexts": ["It is red."]}


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("faithfulness", "Correct what the passages contradict: “It is old.”"),
        ("fact_recall", "Retrieve passages that say: “It is old.”"),
        (
            "factual_correctness",
            "Leave out or correct what the reference does not support: “It is old.” "
            "State what the answer lacks: “It is high.”",
        ),
    ],
)
def test_reasons_name_what_is_not_supported_and_say_what_to_do(metric: str, said: str) -> None:
    assert rm.score(metric, RECORD, judge=rm.ScriptedJudge(**CLAIMS)).reason.endswith(said)
    russian = rm.score(metric, RECORD, judge=rm.ScriptedJudge(**CLAIMS), language="ru").reason
    assert "“It is old.”" in russian
    assert not any(word in russian for word in ("Correct", "Retrieve", "Leave"))


def test_reasons_of_supported_texts_say_nothing_more_and_long_lists_are_cut() -> None:
    supported = rm.ScriptedJudge(facts=[{"text": "It is red.", "ok": True}])
    assert rm.score("faithfulness", RECORD, judge=supported).reason.endswith("not in the passages).")
    many = rm.ScriptedJudge(facts=[{"text": f"Claim {number}.", "ok": False} for number in range(7)])
    assert rm.score("faithfulness", RECORD, judge=many).reason.endswith("“Claim 3.” “Claim 4.” and 2 more")
