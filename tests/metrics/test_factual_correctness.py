"""Claims in both directions, from replies of any quality."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.metrics.factual_correctness import factual_correctness

RECORD = {"answer": "A.", "reference": "B."}


def judge(answer: list[str], reference: list[str], **options: object) -> rm.ScriptedJudge:
    script = {
        "response_claims": [f"a{i}" for i in range(len(answer))],
        "reference_claims": [f"r{i}" for i in range(len(reference))],
        "response_verdicts": answer,
        "reference_verdicts": reference,
    }
    return rm.ScriptedJudge(**{**script, **options})


def test_both_directions_are_in_details_and_items() -> None:
    spy = judge(["supported", "Contradicted"], ["SUPPORTED", "neutral", "neutral"])
    score = rm.score("factual_correctness", RECORD, judge=spy)
    assert (score.details["precision"], score.details["recall"]) == (0.5, pytest.approx(1 / 3))
    assert score.value == pytest.approx(0.4)
    assert score.details["answer_contradicted"] == 1
    assert score.details["reference_neutral"] == 2
    assert [item.reason for item in score.items] == ["Claim of the answer."] * 2 + ["Claim of the reference."] * 3
    assert "1 of 2 claims of the answer (1 contradicted)" in score.reason
    assert [question.kind for question in spy.asked] == ["claims", "claims", "verify", "verify"]


@settings(max_examples=60, deadline=None)
@given(*[st.lists(st.sampled_from(["SUPPORTED", "CONTRADICTED", "NEUTRAL", "what?"]), max_size=6)] * 2)
def test_shares_and_their_harmonic_mean(answer: list[str], reference: list[str]) -> None:
    details = rm.score("factual_correctness", RECORD, judge=judge(answer, reference)).details
    supported, covered = answer.count("SUPPORTED"), reference.count("SUPPORTED")
    assert details["precision"] == (supported / len(answer) if answer else 0.0)
    assert details["recall"] == (covered / len(reference) if reference else 0.0)
    total = details["precision"] + details["recall"]
    assert details["f1"] == pytest.approx(2 * details["precision"] * details["recall"] / total if total else 0.0)


def test_missing_unknown_and_extra_verdicts() -> None:
    short = judge(["SUPPORTED", "maybe"], ["SUPPORTED"] * 3, response_claims=["a", "b", "c"], reference_claims=["r"])
    score = rm.score("factual_correctness", RECORD, judge=short)
    assert (score.details["precision"], score.details["recall"]) == (pytest.approx(1 / 3), 1.0)
    assert [code for code, _ in score.warnings] == ["verdict_missing", "verdict_unknown"]


def test_modes_and_keys() -> None:
    scripted = judge(["SUPPORTED"], ["SUPPORTED", "NEUTRAL"])
    expected = {"F1": 2 / 3, "precision": 1.0, "Recall": 0.5}
    for mode, value in expected.items():
        assert rm.score("factual_correctness", RECORD, judge=scripted, mode=mode).value == pytest.approx(value)
    assert factual_correctness(mode="F1").key == "factual_correctness"
    assert factual_correctness(mode="precision").key == "factual_correctness_precision"
    assert rm.score("factual_correctness_recall", RECORD, judge=scripted).value == 0.5
    with pytest.raises(InvalidOptionError) as caught:
        factual_correctness(mode="F2")
    assert caught.value.param == "mode"


@pytest.mark.parametrize("record", [{"answer": " ", "reference": "B."}, {"answer": "A.", "reference": "\n"}])
def test_a_blank_side_costs_no_call(record: dict[str, str]) -> None:
    silent = rm.ScriptedJudge()
    score = rm.score("factual_correctness", record, judge=silent)
    assert (score.value, silent.asked) == (0.0, [])
    assert score.details["answer_total"] == 0
    assert score.reason == "The answer or the reference is blank."
