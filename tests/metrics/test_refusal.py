"""Answering or declining, judged by the record's answerability or by its passages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Finding
from mlflow_ragmetrics.errors import InvalidFieldError, JudgeReplyError, MissingFieldError
from tests.judges.fake_models import scripted

ANSWER, DECLINE = "It is 330 metres high.", "I don't have that information."
BOTH, ASK = "It is in Paris, but I don't know its height.", "Which tower are you referring to?"
GOLDEN = [
    (True, ANSWER, 1.0, "right_answer"),
    (True, DECLINE, 0.0, "over_refusal"),
    (True, BOTH, 0.5, "partly"),
    (True, ASK, 0.5, "clarification"),
    (True, "", 0.0, "over_refusal"),
    (False, ANSWER, 0.0, "false_confidence"),
    (False, DECLINE, 1.0, "right_refusal"),
    (False, BOTH, 0.5, "partly"),
    (False, ASK, 1.0, "clarification"),
    ("partial", ANSWER, 0.5, "partly"),
    ("partial", DECLINE, 0.0, "over_refusal"),
    ("partial", BOTH, 1.0, "partly"),
    ("partial", ASK, 0.5, "clarification"),
    ("underspecified", ANSWER, 0.0, "false_confidence"),
    ("underspecified", DECLINE, 1.0, "right_refusal"),
    ("underspecified", BOTH, 0.5, "partly"),
    ("underspecified", ASK, 1.0, "clarification"),
]


def record(answer: str, **fields: Any) -> dict[str, Any]:
    return {"question": "How high is the tower?", "answer": answer, **fields}


@pytest.mark.parametrize(("answerable", "answer", "value", "kind"), GOLDEN)
def test_the_class_follows_from_reply_and_question(answerable: Any, answer: str, value: float, kind: str) -> None:
    score = rm.score("refusal", record(answer, answerable=answerable), judge=rm.ScriptedJudge())
    assert (score.value, score.details["class"], score.details["judged"]) == (value, kind, 0)


@pytest.mark.parametrize(
    ("fields", "measured"),
    [
        ({"answer": DECLINE, "answerable": False, "contexts": []}, True),
        ({"answer": DECLINE, "contexts": []}, False),
        ({"answer": ANSWER, "contexts": ["  "]}, False),
        ({"answer": " ", "answerable": False}, False),
        ({"answer": "…", "answerable": False}, False),
    ],
)
def test_what_nothing_was_said_or_retrieved_for_is_no_measured_row(fields: dict[str, Any], measured: bool) -> None:
    score = rm.score("refusal", {"question": "How high is it?", **fields}, judge=rm.ScriptedJudge())
    assert score.value is not None
    assert score.measured is measured


@pytest.mark.parametrize(
    ("fields", "answerable"),
    [
        ({"answerable": "yes"}, "answerable"),
        ({"answerable": 0}, "unanswerable"),
        ({"answerable": 1.0}, "answerable"),
        ({"Answerability": ["PARTIAL"]}, "partial"),
        ({"is_impossible": True}, "unanswerable"),
        ({"is_impossible": "False"}, "answerable"),
        ({"expectations": {"answerable": False}}, "unanswerable"),
        ({"metadata": {"answerable": "нет"}}, "unanswerable"),
        ({"answerable": None, "is_answerable": True}, "answerable"),
    ],
)
def test_the_record_says_whether_there_is_an_answer(fields: dict[str, Any], answerable: str) -> None:
    assert rm.score("refusal", record(ANSWER, **fields)).details["answerable"] == answerable


def test_a_value_that_says_neither_is_refused() -> None:
    with pytest.raises(InvalidFieldError, match="must be true or false"):
        rm.score("refusal", record(ANSWER, answerable="perhaps"))


def test_without_the_field_the_passages_are_judged_and_without_both_nothing_is() -> None:
    judge = rm.ScriptedJudge(sufficiency=0.2)
    score = rm.score("refusal", record(ANSWER, contexts=["It is in Paris."]), judge=judge)
    assert (score.value, score.details["class"], score.details["sufficiency"]) == (0.0, "false_confidence", 0.2)
    assert rm.score("refusal", record(DECLINE, contexts=[])).details["class"] == "right_refusal"
    with pytest.raises(MissingFieldError, match="answerable"):
        rm.score("refusal", record(ANSWER))


def test_one_question_serves_both_metrics() -> None:
    judge = rm.ScriptedJudge(sufficiency=0.5)
    report = rm.Suite(["refusal", "context_sufficiency"], judge=judge).evaluate([record(ANSWER, contexts=["330 m"])])
    assert report.metrics["refusal/mean"] == 1.0
    assert report.metrics["context_sufficiency/mean"] == 0.5
    assert len(judge.asked) == 1


def test_the_offline_judge_looks_for_the_question_in_the_passages() -> None:
    question = {"question": "How high is the Eiffel tower in Paris?"}
    there = rm.score("context_sufficiency", {**question, "contexts": ["The Eiffel tower in Paris is 330 m high."]})
    elsewhere = rm.score("context_sufficiency", {**question, "contexts": ["Bread is baked early in the morning."]})
    assert there.value > 0.5 > elsewhere.value
    assert there.items[0].evidence[0].chunk == 1
    assert rm.score("context_sufficiency", {**question, "contexts": []}).value == 0.0


def test_a_chat_model_is_shown_history_question_and_passages_in_one_call() -> None:
    reply = (
        '{"sufficiency": [{"id": "question", "quotes": [{"passage": "p2", "text": "330 m"}, '
        '{"passage": "p1", "text": "no"}], "reason": "It is stated.", "sufficient": 95}]}'
    )
    model = scripted(reply)
    given = {
        "question": "How high is it?",
        "contexts": ["Bread.", "It is 330 m high."],
        "history": [("user", "Tell me of the tower."), ("assistant", "It stands in Paris.")],
    }
    score = rm.score("context_sufficiency", given, judge=model)
    assert (score.value, score.items[0].evidence) == (0.95, (rm.Evidence(2, None, "330 m"),))
    shown = model.sent[0][-1].content
    assert "user: Tell me of the tower." in shown
    assert len(model.sent) == 1


@pytest.mark.parametrize(
    ("support", "sufficient"), [(0.0, 0), (0.49, 0), (0.5, 1), (1.0, 1), (-0.01, None), (1.01, None), (None, None)]
)
def test_a_support_is_a_number_from_0_to_1_and_a_half_is_enough(support: float | None, sufficient: int | None) -> None:
    class Supports:
        name, local = "supports", True

        def answer(self, questions: Sequence[object]) -> list[Finding]:
            return [Finding("", "So.", support, ((1, "red"), (2, "none"), (0, "none")))] * len(questions)

    record = {"question": "Which?", "contexts": ["It is red."]}
    if sufficient is None:
        with pytest.raises(JudgeReplyError, match="not a number from 0 to 1"):
            rm.score("context_sufficiency", record, judge=Supports())
    else:
        score = rm.score("context_sufficiency", record, judge=Supports())
        assert (score.value, score.details["sufficient"]) == (support, sufficient)
        assert [each.chunk for each in score.items[0].evidence] == [1]
