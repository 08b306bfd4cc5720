"""Facts of a good answer, vital and okay, computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Finding, Judge, Nugget, Nuggets
from mlflow_ragmetrics.errors import JudgeError, MissingFieldError
from tests.judges.fake_models import scripted

RECORD = {"question": "What is it?", "answer": "It is red.", "reference": "It is red and old, and stands in Rome."}


class Graded(Judge):
    """Vital: stated, half stated, not stated. Okay: stated, contradicted with some support."""

    name = "graded"

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def answer(self, questions: Any) -> list[Any]:
        self.asked += questions
        facts = [Nugget("a"), Nugget("b"), Nugget("c"), Nugget("d", False), Nugget("e", False)]
        verdicts = [("SUPPORTED", 0.9), ("NEUTRAL", 0.4), ("NEUTRAL", 0.1), ("SUPPORTED", 0.8), ("CONTRADICTED", 0.4)]
        findings = tuple(Finding(verdict, support=support) for verdict, support in verdicts)
        return [tuple(facts) if isinstance(question, Nuggets) else findings for question in questions]


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({}, 1 / 3),
        ({"counted": "all"}, 2 / 5),
    ],
)
def test_golden_cases_by_hand(options: dict[str, Any], value: float) -> None:
    score = rm.score("nugget_recall", RECORD, judge=Graded(), **options)
    assert score.value == pytest.approx(value)
    assert score.details["vital_strict"] == pytest.approx(1 / 3)
    assert (score.details["vital"], score.details["okay"], len(score.items)) == (3, 2, 5)


def test_without_a_vital_fact_all_count() -> None:
    judge = rm.ScriptedJudge(nuggets={"a": False, "b": False}, reference_verdicts=["SUPPORTED", "NEUTRAL"])
    assert rm.score("nugget_recall", RECORD, judge=judge).value == 0.5


def test_the_facts_are_those_of_the_passages_where_there_is_no_reference() -> None:
    judge = Graded()
    rm.score("nugget_recall", {**RECORD, "reference": " ", "contexts": ["It is red."]}, judge=judge)
    assert judge.asked[0] == Nuggets("What is it?", ("It is red.",), False)
    declining = {**RECORD, "reference": "unknown", "contexts": ["It is red."]}
    assert rm.score("nugget_recall", declining, judge=judge, on_missing="skip").status == "skipped"
    with pytest.raises(MissingFieldError, match="reference"):
        rm.score("nugget_recall", {"question": "What?", "answer": "Red."}, judge=judge)


def test_answers_of_two_systems_share_the_question_for_the_facts() -> None:
    judge = Graded()
    rows = [{**RECORD, "id": "1"}, {**RECORD, "id": "2", "answer": "It is old."}]
    rm.Suite(["nugget_recall"], judge=judge).evaluate(rows)
    assert len({question for question in judge.asked if isinstance(question, Nuggets)}) == 1
    assert len(judge.asked) - sum(isinstance(question, Nuggets) for question in judge.asked) == 2


def test_a_non_answer_states_nothing_and_costs_no_second_call() -> None:
    judge = Graded()
    score = rm.score("nugget_recall", {**RECORD, "answer": "I don't know."}, judge=judge)
    assert (score.value, len(judge.asked), len(score.items)) == (0.0, 1, 5)


def test_no_facts_leave_the_row_unscored() -> None:
    score = rm.score("nugget_recall", RECORD, judge=rm.ScriptedJudge(nuggets={}))
    assert (score.value, score.status) == (None, "skipped")


def test_the_offline_judge_takes_the_claims_of_the_reference_and_says_what_it_cannot() -> None:
    record = {
        "question": "What is it?",
        "answer": "The house is red.",
        "reference": "The house is red. Rome is far away.",
    }
    assert rm.score("nugget_recall", record, judge="lexical").value == 0.5
    with pytest.raises(JudgeError, match="needs a language model"):
        rm.score("nugget_recall", {**record, "reference": None, "contexts": ["It is red."]}, judge="lexical")


def test_a_chat_model_names_facts_and_a_wrong_form_is_asked_for_again() -> None:
    verdicts = (
        '{"verdicts": [{"id": "c1", "quotes": [{"passage": "p1", "text": "red"}], "reason": "Said.", "support": 95, '
        '"verdict": "SUPPORTED"}, {"id": "c2", "quotes": [], "reason": "No.", "support": 0, "verdict": "NEUTRAL"}]}'
    )
    facts = '{"nuggets": [{"fact": "It is red.", "vital": true}, {"fact": "It is old.", "vital": false}]}'
    model = scripted('{"nuggets": [{"fact": "It is red.", "vital": "maybe"}]}', facts, verdicts)
    score = rm.score("nugget_recall", RECORD, judge=model, counted="all")
    assert score.value == 0.5
    assert score.reason == "The answer states 1 of 2 facts of a good answer (1 of 1 vital)."
    assert [item.reason for item in score.items] == ["A vital fact. Said.", "A fact that is good to have. No."]
    assert len(model.sent) == 3
