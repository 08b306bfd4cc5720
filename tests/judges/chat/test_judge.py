from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Claims, Embed, Finding, Grade, Rating, Related, RelatedChunks, Tone, Verify
from mlflow_ragmetrics.errors import JudgeReplyError
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from tests.judges.fake_models import dutiful, scripted
from tests.judges.rows import FULL_SET, ROW

CHUNKS = ("The tower is in Paris.", "It is 330 m tall.")
VERIFY = Verify(("It is tall.", "It is in Rome."), CHUNKS)
GRADES = [Grade("correctness", "a", "q", "r"), Grade("answer_relevance", "a", "q")]


def verdicts(*entries: dict[str, Any]) -> str:
    usual = {"quotes": [{"passage": "p2", "text": "330 m tall"}], "reason": "", "verdict": "SUPPORTED"}
    return json.dumps({"verdicts": [{**usual, **each} for each in entries]})


def grades(**given: Any) -> str:
    return json.dumps({"grades": [{"id": key, "reason": "So.", "grade": value} for key, value in given.items()]})


def test_every_kind_of_question_is_answered() -> None:
    judge = ChatJudge(dutiful())
    asked = [Claims("One. Two."), VERIFY, RelatedChunks("It is tall.", CHUNKS), GRADES[0], Tone("No idea.", "n/a")]
    answers = [judge.answer([question])[0] for question in asked]
    finding = Finding("SUPPORTED", "", 0.9, ((1, CHUNKS[0][:40]),))
    assert answers == [
        ("One.", "Two."),
        (finding, finding),
        (Related(1), Related(2)),
        Rating(4.0, "Fair."),
        Rating(0.5, "Fair."),
    ]
    (failure,) = judge.answer([Embed(("text",))])
    assert "'embed'" in str(failure)


def test_a_quote_that_no_passage_holds_is_dropped_and_its_passage_kept() -> None:
    quotes = [
        {"passage": "p2", "text": "“330 m  tall…”"},
        {"passage": "p1", "text": "in Rome"},
        {"passage": "p9", "text": "x"},
    ]
    model = scripted(verdicts({"id": "c1", "quotes": quotes}, {"id": "c2", "verdict": "contradicted."}))
    ((first, second),) = ChatJudge(model).answer([VERIFY])
    assert first.quotes == ((2, "330 m tall"), (1, ""))
    assert second.verdict == "CONTRADICTED"


@pytest.mark.parametrize(
    "bad",
    [
        verdicts({"id": "c1"}),
        verdicts({"id": "c1"}, {"id": "c2"}, {"id": "c3"}),
        verdicts({"id": "c1"}, {"id": "c1"}),
        verdicts({"id": "c1"}, {"id": "c2", "verdict": "MAYBE"}),
        "I think both hold.",
        '{"verdicts": "all"}',
    ],
)
def test_a_reply_with_other_ids_is_repaired_once_or_fails(bad: str) -> None:
    good = verdicts({"id": "c1"}, {"id": "c2", "verdict": "NEUTRAL"})
    model = scripted(bad, good)
    judge = ChatJudge(model)
    ((_, second),) = judge.answer([VERIFY])
    assert second.verdict == "NEUTRAL"
    assert [message.type for message in model.sent[1]] == ["system", "human", "ai", "human"]
    assert judge.usage.snapshot()["repairs"] == 1

    model = scripted(bad, bad)
    (failure,) = ChatJudge(model).answer([VERIFY])
    assert isinstance(failure, JudgeReplyError)
    assert failure.code == "unusable"
    assert len(model.sent) == 2


def test_a_grade_outside_the_scale_is_asked_again_and_never_clamped() -> None:
    judge = ChatJudge(
        scripted(grades(correctness=6, answer_relevance=4), grades(correctness="4/5", answer_relevance=1))
    )
    assert judge.answer(GRADES) == [Rating(4.0, "So."), Rating(4.0, "So.")]
    first, second = ChatJudge(scripted(*[grades(correctness=0, answer_relevance=3.5)] * 2)).answer(GRADES)
    assert isinstance(first, JudgeReplyError)
    assert second == Rating(3.5, "So.")


@pytest.mark.parametrize(
    "message",
    [
        "I'm sorry, but I can't help with that.",
        AIMessage("", additional_kwargs={"refusal": "No."}),
        AIMessage("", response_metadata={"finish_reason": "content_filter"}),
        AIMessage([{"type": "refusal", "refusal": "No."}]),
    ],
)
def test_a_refusal_is_an_outcome_of_its_own(message: Any) -> None:
    model = scripted(message)
    (failure,) = ChatJudge(model).answer([VERIFY])
    assert isinstance(failure, JudgeReplyError)
    assert failure.code == "refused"
    score = rm.score("correctness", ROW, judge=ChatJudge(scripted(message)), on_missing="skip")
    assert score.value is None
    assert [code for code, _ in score.warnings] == ["judge_refused"]


def test_a_reply_cut_short_is_asked_once_more_with_more_tokens() -> None:
    cut = AIMessage('{"verdicts": [{"id": "c1", "verd', response_metadata={"finish_reason": "length"})
    model = scripted(cut, verdicts({"id": "c1"}, {"id": "c2"}))
    ((first, _),) = ChatJudge(model, max_tokens=600).answer([VERIFY])
    assert first.verdict == "SUPPORTED"
    assert [arguments["max_tokens"] for arguments in model.arguments] == [600, 2400]
    (failure,) = ChatJudge(scripted(*[cut] * 4)).answer([VERIFY])  # as a whole, then the first claim
    assert failure.code == "cut_short"
    assert "max_tokens" in str(failure)


@pytest.mark.parametrize(
    ("calls", "most_calls", "most_tokens"), [("full", 9, 7000), ("compact", 5, 3900), ("single", 4, 3600)]
)
def test_the_full_set_costs_no_more_than_promised(calls: str, most_calls: int, most_tokens: int) -> None:
    model = dutiful()
    report = rm.Suite(FULL_SET, judge=ChatJudge(model, calls=calls)).evaluate([ROW])
    assert {score.status for score in report.rows[0].scores.values()} == {"ok"}
    assert len(model.sent) <= most_calls
    assert sum(len(message.content) for messages in model.sent for message in messages) / 4 <= most_tokens
    assert sum(map(len, ROW["contexts"])) / 4 >= 660


@pytest.mark.parametrize(("calls", "times"), [("full", 3), ("compact", 1), ("single", 1)])
def test_contexts_are_sent_as_rarely_as_promised(calls: str, times: int) -> None:
    model = dutiful()
    rm.Suite(FULL_SET, judge=ChatJudge(model, calls=calls)).evaluate([ROW])
    assert sum(ROW["contexts"][0] in messages[1].content for messages in model.sent) == times


def test_identity_tells_models_prompts_and_modes_apart(tmp_path: Any) -> None:
    (tmp_path / "claims.txt").write_text("Split.", encoding="utf-8")
    judges = [
        ChatJudge(dutiful(model="a")),
        ChatJudge(dutiful(model="b")),
        ChatJudge(dutiful(model="a"), temperature=0.5),
        ChatJudge(dutiful(model="a"), calls="compact"),
        ChatJudge(dutiful(model="a"), language="ru"),
        ChatJudge(dutiful(model="a"), prompts=tmp_path),
    ]
    assert len({judge.fingerprint for judge in judges}) == len(judges)
    assert judges[0].fingerprint == ChatJudge(dutiful(model="a"), attempts=2, timeout=5).fingerprint


def test_several_references_are_one_call_and_the_best_counts() -> None:
    grades = [{"id": f"correctness_{number}", "reason": "So.", "grade": 2 * number} for number in (1, 2)]
    model = scripted(json.dumps({"grades": grades}))
    record = {"question": "Who?", "answer": "Anna.", "reference": ["Bob", "Anna"]}
    score = rm.score("correctness", record, judge=rm.ChatJudge(model))
    assert (score.value, score.details["matched_reference"]) == (0.75, "Anna")
    assert "reference 2]\nAnna\n" in model.sent[0][1].content
