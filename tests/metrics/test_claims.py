"""Claims and their verdicts: two questions, one after another."""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Extraction, Finding, Verify
from mlflow_ragmetrics.core.score import Evidence, held_by
from mlflow_ragmetrics.errors import JudgeError, JudgeReplyError
from mlflow_ragmetrics.metrics.claims import Correspondence, Verified, read_findings, to_do, verified_claims
from mlflow_ragmetrics.text.messages import render


def test_claims_that_their_text_does_not_make_have_no_support() -> None:
    program = verified_claims("A.", ["c"])
    next(program)
    claims = ("A.", "B.", "C.")
    assert program.send((Extraction(claims, at_odds=("D.",)),)) == (Verify(claims, ("c",)),)
    with pytest.raises(StopIteration) as end:
        program.send(((Finding("SUPPORTED", support=0.8),) * 3,))
    assert end.value.value.counts == {"supported": 3, "contradicted": 0, "neutral": 1, "total": 4}
    assert end.value.value.details["support"] == pytest.approx(0.6)


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


@pytest.mark.parametrize(("claims", "at_odds", "fails"), [(8, 2, False), (8, 3, True), (4, 1, False), (3, 1, True)])
def test_more_than_a_quarter_of_findings_at_odds_are_an_error(claims: int, at_odds: int, fails: bool) -> None:
    findings = [Finding("NEUTRAL", at_odds=place < at_odds) for place in range(claims)]
    texts = [f"{place}." for place in range(claims)]
    if fails:
        with pytest.raises(JudgeReplyError, match=f"contradict themselves on {at_odds} of {claims} claims"):
            read_findings(texts, findings, 1)
    else:
        ((code, text),) = read_findings(texts, findings, 1).warnings
        assert (code, f"{at_odds} of {claims}" in render(text, "en")) == ("reply_at_odds", True)


def test_missing_and_unknown_findings_are_neutral_with_a_warning_and_extra_ones_nothing() -> None:
    given = [Finding(" supported. "), Finding("maybe"), Finding("CONTRADICTED")]
    verified = read_findings(["a", "b", "c", "d", "e"], given, 1)
    assert [item.verdict for item in verified.items] == ["SUPPORTED", "NEUTRAL", "CONTRADICTED", "NEUTRAL", "NEUTRAL"]
    said = {code: render(text, "en") for code, text in verified.warnings}
    assert list(said) == ["verdict_missing", "verdict_unknown"]
    assert "2" in said["verdict_missing"]
    assert "'maybe'" in said["verdict_unknown"]
    assert [item.verdict for item in read_findings(["a"], given, 1).items] == ["SUPPORTED"]
    assert read_findings(["a"], given, 1).warnings == ()


@pytest.mark.parametrize(("support", "shown"), [(0.0, 0.0), (1.0, 1.0), (-0.01, None), (1.01, None), (None, None)])
def test_a_support_off_its_scale_is_none(support: float | None, shown: float | None) -> None:
    (item,) = read_findings(["a"], [Finding("SUPPORTED", support=support)], 1).items
    assert item.support == shown


def test_evidence_is_from_a_passage_that_is_there_or_from_the_other_text() -> None:
    quotes = ((0, "x"), (1, "a"), (2, "b"), (3, "y"))
    (item,) = read_findings(["a"], [Finding("SUPPORTED", quotes=quotes)], 2).items
    assert [(each.chunk, each.quote) for each in item.evidence] == [(1, "a"), (2, "b")]
    (item,) = read_findings(["a"], [Finding("SUPPORTED", quotes=quotes)], 2, "reference").items
    assert [(each.chunk, each.quote) for each in item.evidence] == [(None, quote) for _, quote in quotes]
    assert item.against == "reference"
    assert held_by([Evidence(2, None, ""), Evidence(None, None, ""), Evidence(1, None, ""), Evidence(2, None, "")]) == [
        1,
        2,
    ]


FIGURES = ("precision", "recall", "f1")


def test_the_counts_of_both_texts_and_their_means() -> None:
    found = Correspondence(
        Verified(("a", "b", "c"), (Finding("SUPPORTED"), Finding("NEUTRAL"), Finding("NEUTRAL"))),
        Verified(("d", "e"), (Finding("SUPPORTED"), Finding("CONTRADICTED"))),
    )
    assert [found.details[name] for name in FIGURES] == pytest.approx([1 / 3, 1 / 2, 2 / 5])
    assert found.details["answer_neutral"] == 2
    assert found.details["reference_contradicted"] == 1
    assert found.answer.of("NEUTRAL", "CONTRADICTED") == ["b", "c"]
    assert [Correspondence().details[name] for name in FIGURES] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("claims", "more"), [(5, False), (6, True)])
def test_advice_names_five_claims(claims: int, more: bool) -> None:
    said = render(to_do("not_retrieved", [f"{place}." for place in range(claims)]) or "", "en")
    assert said.count("“") == 5
    assert ("1 more" in said) is more
    assert to_do("not_retrieved", []) is None
