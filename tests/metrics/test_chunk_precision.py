"""Related chunks over chunks, for every state of both texts."""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Outcome, Question, Related, RelatedChunks
from mlflow_ragmetrics.errors import MissingFieldError

CLEAR, VAGUE = "It is red.", "I don't know."
CHUNKS = ["It is red.", "It rains.", "Red."]


class QuotingJudge:
    """Reports chunk 3 as related twice, and names chunks that do not exist."""

    name = "quoting"
    local = True

    def __init__(self) -> None:
        self.asked: list[RelatedChunks] = []

    def answer(self, questions: list[Question]) -> list[Outcome]:
        self.asked.extend(question for question in questions if isinstance(question, RelatedChunks))
        return [(Related(3, "Red.", "same colour"), Related(3, "again"), Related(0), Related(4))] * len(questions)


def test_items_are_the_chunks_with_quotes() -> None:
    score = rm.score("chunk_precision", {"answer": CLEAR, "contexts": CHUNKS}, judge=QuotingJudge())
    assert score.value == pytest.approx(1 / 3)
    assert [(item.kind, item.text, item.verdict) for item in score.items] == [
        ("chunk", "It is red.", "UNRELATED"),
        ("chunk", "It rains.", "UNRELATED"),
        ("chunk", "Red.", "RELATED"),
    ]
    assert score.items[2].reason == "same colour"
    assert [(e.chunk, e.quote) for e in score.items[2].evidence] == [(3, "Red.")]
    assert {name: score.details[name] for name in ("related", "unrelated", "total")} == {
        "related": 1,
        "unrelated": 2,
        "total": 3,
    }


@pytest.mark.parametrize(
    ("answer", "reference", "compared"),
    [(CLEAR, "It is blue.", CLEAR), (CLEAR, VAGUE, CLEAR), (CLEAR, None, CLEAR), (VAGUE, "It is blue.", "It is blue.")],
)
def test_what_the_chunks_are_compared_with(answer: str, reference: str | None, compared: str) -> None:
    judge = QuotingJudge()
    record = {"question": "Which colour?", "answer": answer, "reference": reference, "contexts": CHUNKS}
    rm.score("chunk_precision", record, judge=judge)
    assert [(question.text, question.question) for question in judge.asked] == [(compared, "Which colour?")]


def test_two_indistinct_texts_have_no_related_chunk() -> None:
    record = {"answer": VAGUE, "reference": "Not specified.", "contexts": CHUNKS}
    score = rm.score("chunk_precision", record, judge=rm.ScriptedJudge())
    assert (score.value, score.details["total"]) == (0.0, 3)


def test_an_indistinct_answer_without_reference_is_missing_its_reference() -> None:
    with pytest.raises(MissingFieldError) as caught:
        rm.score("chunk_precision", {"answer": VAGUE, "contexts": CHUNKS})
    assert (caught.value.field, caught.value.metric) == ("reference", "chunk_precision")
    assert "on_missing='skip'" in str(caught.value)


@pytest.mark.parametrize(("mode", "value"), [("vacuous", None), ("floor", 0.0), ("skip", None)])
def test_without_context_it_is_not_scored(mode: str, value: float | None) -> None:
    score = rm.score("chunk_precision", {"answer": VAGUE, "contexts": [" "]}, no_context=mode)
    assert score.value == value
    assert score.status == ("skipped" if value is None else "ok")
    assert score.details["no_context"] is True
