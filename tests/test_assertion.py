"""``assert_score`` fails with an explanation, and if nothing was measured."""

from __future__ import annotations

from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import GateError, InvalidOptionError

TOWER: dict[str, Any] = {
    "id": "tower",
    "question": "How high is it?",
    "answer": "It is 330 metres high. It was built in 1925.",
    "contexts": [{"id": "doc-1", "text": "It is 330 metres high."}, {"id": "doc-2", "text": "It was built in 1889."}],
}


def test_a_limit_that_holds_gives_the_scores() -> None:
    scores = rm.assert_score(["faithfulness >= 0.5", "faithfulness < 0.6", "coherence > 0"], TOWER)
    assert list(scores) == ["faithfulness", "coherence"]
    assert scores["faithfulness"].value == 0.5


def test_a_limit_that_does_not_hold_fails_with_claim_reason_and_passage() -> None:
    with pytest.raises(AssertionError) as caught:
        rm.assert_score("faithfulness >= 0.8", TOWER)
    said = str(caught.value)
    assert said.startswith("faithfulness is 0.500 and must be >= 0.8 (sample tower, judge lexical)")
    assert "not in the passages: “It was built in 1925.”" in said
    assert "why: Lexical" in said
    assert "passage 2 (doc-2): “It was built in 1889.”" in said


def test_all_limits_that_do_not_hold_are_said() -> None:
    with pytest.raises(GateError) as caught:
        rm.assert_score(["faithfulness >= 0.8", "coherence > 0", "ndcg(k=5) >= 0.5"], TOWER)
    assert [check.name for check in caught.value.checks] == ["faithfulness", "ndcg_5"]


@pytest.mark.parametrize(
    ("change", "judge", "said"),
    [
        ({"contexts": []}, "lexical", "no contexts (by rule 1): No context to verify."),
        ({"contexts": None}, "lexical", "no contexts: faithfulness needs the field 'contexts'"),
        ({"answer": None}, "lexical", "no answer: faithfulness needs the field 'answer'"),
        ({}, rm.ScriptedJudge(error="down"), ": AllJudgesFailedError: no judge answered (scripted: down)"),
    ],
)
def test_what_was_not_measured_fails_whatever_the_limit(change: dict[str, Any], judge: Any, said: str) -> None:
    for limit in ("faithfulness >= 0.0", "faithfulness <= 1"):
        with pytest.raises(AssertionError, match="faithfulness was not measured and must be") as caught:
            rm.assert_score(limit, {**TOWER, **change}, judge=judge)
        assert said in str(caught.value)


def test_a_rule_that_was_asked_for_counts() -> None:
    rm.assert_score("faithfulness(no_context='vacuous') >= 0.8", {**TOWER, "contexts": []})


def test_a_metric_is_held_against_its_own_threshold() -> None:
    rm.assert_score(rm.faithfulness(threshold=0.4), TOWER)
    with pytest.raises(AssertionError, match=r"must be >= 0\.6"):
        rm.assert_score(rm.faithfulness(threshold=0.6), TOWER)


def test_a_composite_fails_with_the_claims_of_its_components() -> None:
    with pytest.raises(AssertionError, match="built in 1925"):
        rm.assert_score("rag_score >= 0.9", TOWER)


def test_rows_of_a_report_are_not_scored_again() -> None:
    report = rm.Suite(["faithfulness"], name_prefix="v2_", judge=rm.LexicalJudge()).evaluate([TOWER])
    rm.assert_score("v2_faithfulness > 0.4", report.rows[0])
    with pytest.raises(InvalidOptionError, match="already scored"):
        rm.assert_score("v2_faithfulness > 0.4", report.rows[0], judge="lexical")
    with pytest.raises(InvalidOptionError, match="coherence was not scored in this row; use one of v2_faithfulness"):
        rm.assert_score("coherence > 0.4", report.rows[0])


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("faithfulness > high", "not a condition on a score"),
        ("> 0.8", "not a condition on a score"),
        ("faithfulness => 0.8", "not a condition on a score"),
        ("0.5 < faithfulness < 0.8", "not a condition on a score"),
        ("faithfulness", "has no threshold; write a limit"),
        ("faithfullness >= 0.8", "faithfulness"),
    ],
)
def test_limits_that_cannot_be_read_are_refused(limit: str, said: str) -> None:
    with pytest.raises(InvalidOptionError, match=said):
        rm.assert_score(limit, TOWER)


def test_without_a_limit_nothing_would_be_asserted() -> None:
    with pytest.raises(InvalidOptionError, match="give a limit"):
        rm.assert_score([], TOWER)


def test_a_claim_that_the_reference_lacks_names_no_passage() -> None:
    sample = {"answer": "It is green.", "reference": "It is 330 m high.", "contexts": ["It is green."]}
    with pytest.raises(AssertionError, match="not supported: “It is green") as raised:
        rm.assert_score("factual_correctness >= 0.9", sample)
    assert "passage" not in str(raised.value)
