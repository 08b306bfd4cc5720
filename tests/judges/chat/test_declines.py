"""A judge says in every reply whether the answer declines; all metrics of the row read the same state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from tests.judges.fake_models import FakeChatModel, dutiful_reply

KEYS = ["faithfulness", "weakest_claim", "correctness", "answer_relevance", "fact_recall", "hallucination_rate"]
ANSWER = "That would be a matter for the harbour office."  # known to no list of phrases
RECORD = {
    "question": "What is the toll?",
    "answer": ANSWER,
    "reference": "The toll is 5 euros.",
    "contexts": ["The toll is 5 euros."],
    "answerable": True,
}


def model(claims: str | None, grades: str | None = None) -> FakeChatModel:
    """A model that says ``claims`` of the answer in lists of claims, and ``grades`` in replies with grades."""

    def reply(messages: list[Any]) -> str:
        found = dutiful_reply(messages[0].content, messages[1].content)
        about_answer = ANSWER in messages[1].content.split("t1]")[-1]
        for entry in found.get("texts", []) if about_answer else []:
            entry.update(declines=claims, **({"claims": [], "none": [1]} if claims == "yes" else {}))
        for entry in found.get("grades", []):
            entry["declines"] = grades
        return json.dumps(found)

    return FakeChatModel(reply=reply)


def scores(judge: Any, keys: Sequence[str] = (*KEYS, "refusal"), **options: Any) -> dict[str, rm.Score]:
    return rm.Suite(keys, judge=judge, **options).evaluate([RECORD], progress=False).rows[0].scores


@pytest.mark.parametrize("calls", ["full", "compact", "single"])
def test_what_declines_is_indistinct_for_all_metrics(calls: Any) -> None:
    found = scores(ChatJudge(model("yes", "no"), calls=calls))
    assert {found[key].details["answer_state"] for key in KEYS} == {"indistinct"}
    values = {key: found[key].value for key in KEYS}
    assert values == {**dict.fromkeys(KEYS, 0.0), "fact_recall": 1.0, "hallucination_rate": None}
    assert (found["refusal"].value, found["refusal"].details["class"]) == (0.0, "over_refusal")


@pytest.mark.parametrize(("word", "kind"), [("partly", "partly"), ("no", "answer"), (None, "answer"), ("?", "answer")])
def test_what_declines_in_part_is_distinct(word: str | None, kind: str) -> None:
    found = scores(ChatJudge(model(word), calls="single"))
    assert {found[key].details["answer_state"] for key in KEYS} == {"clear"}
    assert found["refusal"].details["reply"] == kind


def test_a_grade_says_it_too_and_costs_no_call() -> None:
    judge = model(None, "yes")
    found = scores(judge, ["correctness", "refusal"])
    assert (found["correctness"].value, found["refusal"].details["reply"]) == (0.0, "refusal")
    assert len(judge.sent) == 1
    judge = model("yes")
    assert scores(judge, ["refusal"])["refusal"].details["reply"] == "answer"
    assert judge.sent == []


@pytest.mark.parametrize("option", ["off", lambda text: False])
def test_the_users_option_decides_over_the_judge(option: Any) -> None:
    score = rm.score("faithfulness", RECORD, judge=ChatJudge(model("yes"), calls="single"), indistinct=option)
    assert score.details["answer_state"] == "clear"


def test_a_stored_word_is_read_again(tmp_path: Path) -> None:
    first, second = (scores(model("yes"), cache=tmp_path / "cache.db") for _ in range(2))
    assert {key: score.value for key, score in first.items()} == {key: score.value for key, score in second.items()}
    assert second["refusal"].details["reply"] == "refusal"
