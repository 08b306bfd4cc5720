"""Long inputs: a hundred claims and chunks, wordy verdicts, small windows. Nothing is truncated silently."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import Field

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import (
    Claims,
    Extraction,
    Finding,
    Grade,
    Question,
    Rating,
    Related,
    RelatedChunks,
    Verify,
)
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from mlflow_ragmetrics.judges.chat.tasks import TASKS, Room
from tests.judges.fake_models import FakeChatModel, dutiful_reply
from tests.judges.rows import FULL_SET, ROW

LIMIT = 1000
CLAIMS = tuple(f"Fact number {number} holds." for number in range(100))
CHUNKS = tuple(f"Passage number {number} says that it holds." for number in range(100))


class Writer(FakeChatModel):
    """A model with limits on tokens, claims per sentence and characters per reason."""

    max_tokens: int | None = LIMIT
    words: int = 60
    claims_a_sentence: int = 1
    reply: Any = None

    def _generate(self, messages: list[BaseMessage], *given: Any, **kwargs: Any) -> Any:
        limit = kwargs.get("max_tokens") or self.max_tokens or 100_000
        self.reply = lambda said: self._cut(json.dumps(self._written(said)), limit)
        return super()._generate(messages, *given, **kwargs)

    def _written(self, said: list[BaseMessage]) -> dict[str, Any]:
        reply = dutiful_reply(said[0].content, said[1].content)
        for text in reply.get("texts", ()):
            text["claims"] = [
                {**claim, "claim": f"{claim['claim']} ({n})"}
                for claim in text["claims"]
                for n in range(self.claims_a_sentence)
            ]
        judged = [claim for text in reply.get("texts", ()) for claim in text["claims"] if "support" in claim]
        for each in (*judged, *reply.get("verdicts", ()), *reply.get("related", ()), *reply.get("grades", ())):
            each["reason"] = "x" * self.words
        return reply

    def _cut(self, text: str, limit: int) -> AIMessage:
        cut = len(text) > 4 * limit
        return AIMessage(text[: 4 * limit], response_metadata={"finish_reason": "length" if cut else "stop"})


def asked_tokens(model: Writer) -> list[int | None]:
    return [arguments.get("max_tokens") for arguments in model.arguments]


@pytest.mark.parametrize(("claims", "calls"), [(13, 1), (30, 1), (60, 2), (100, 4)])
def test_many_claims_are_judged_without_paying_twice(claims: int, calls: int) -> None:
    model = Writer(words=200)
    (found,) = ChatJudge(model).answer([Verify(CLAIMS[:claims], CHUNKS[:5])])
    assert isinstance(found, tuple)
    assert [finding.verdict for finding in found] == ["SUPPORTED"] * claims
    assert len(model.sent) == calls
    assert all(tokens is None or LIMIT < tokens <= 4 * LIMIT for tokens in asked_tokens(model))


def test_few_claims_are_asked_about_with_the_models_own_limit() -> None:
    model = Writer()
    ChatJudge(model).answer([Verify(CLAIMS[:3], CHUNKS[:5])])
    assert asked_tokens(model) == [None]
    ChatJudge(model, max_tokens=300).answer([Verify(CLAIMS[:3], CHUNKS[:5])])
    assert asked_tokens(model)[1:] == [780]
    endless = Writer(max_tokens=None)
    ChatJudge(endless).answer([Verify(CLAIMS[:30], CHUNKS[:5])])
    assert asked_tokens(endless) == [None]


def test_wordy_verdicts_are_split_until_they_fit_and_that_is_remembered() -> None:
    model = Writer(words=1200)
    judge = ChatJudge(model)
    (found,) = judge.answer([Verify(CLAIMS, CHUNKS[:5])])
    assert isinstance(found, tuple)
    assert len(found) == 100
    model.sent.clear()
    (again,) = judge.answer([Verify(CLAIMS[::-1], CHUNKS[:5])])
    assert isinstance(again, tuple)
    assert sum(len(re.findall(r"^c\d+: ", sent[1].content, re.MULTILINE)) for sent in model.sent) == 100  # none twice


class Small(Exception):
    status_code = 400


def test_a_model_that_refuses_long_replies_is_asked_for_short_ones() -> None:
    class Modest(Writer):
        refused: list[int] = Field(default_factory=list)

        def _generate(self, messages: list[BaseMessage], *given: Any, **kwargs: Any) -> Any:
            if (kwargs.get("max_tokens") or 0) > LIMIT:
                self.refused.append(kwargs["max_tokens"])
                raise Small("max_tokens is too large: this model's maximum context length is 2048 tokens")
            return super()._generate(messages, *given, **kwargs)

    model = Modest(words=200)
    judge = ChatJudge(model)
    for question in (Verify(CLAIMS, CHUNKS[:5]), Verify(CLAIMS[::-1], CHUNKS[:5])):
        (found,) = judge.answer([question])
        assert [finding.verdict for finding in found] == ["SUPPORTED"] * 100
    assert len(model.refused) <= 2  # with structured output, then without, and never again


def test_one_verdict_that_never_fits_is_an_error_and_no_score() -> None:
    model = Writer(words=100_000)
    (failure,) = ChatJudge(model).answer([Verify(CLAIMS, CHUNKS[:1])])
    assert failure.code == "cut_short"
    assert len(model.sent) < 12
    assert "raise max_tokens" in str(failure)


def test_grades_that_do_not_fit_one_reply_are_asked_one_by_one() -> None:
    grades = [Grade("correctness", "a", "q", f"reference {number}") for number in range(8)]
    model = Writer(words=8000)
    assert all(isinstance(each, Rating) for each in ChatJudge(model).answer(grades))
    assert len(model.sent) == 2 + 2 * 8  # each with its own limit, then with four times as much


@pytest.mark.parametrize("calls", ["full", "compact", "single"])
@pytest.mark.parametrize(("words", "claims"), [(60, 1), (200, 3), (900, 1)])
def test_a_row_of_a_hundred_sentences_and_chunks_is_scored_whole(calls: Any, words: int, claims: int) -> None:
    model = Writer(words=words, claims_a_sentence=claims)
    record = {"question": "What?", "answer": " ".join(CLAIMS), "reference": "It holds.", "contexts": list(CHUNKS)}
    suite = rm.Suite(["faithfulness", "weakest_claim", "chunk_precision"], judge=ChatJudge(model, calls=calls))
    scores = suite.evaluate([record], progress=False).rows[0].scores
    assert {key: score.status for key, score in scores.items()} == dict.fromkeys(scores, "ok")
    assert len(scores["faithfulness"].items) == 100 * claims
    assert scores["chunk_precision"].value == 1.0


@pytest.mark.parametrize("calls", ["full", "compact", "single"])
def test_passages_beyond_the_window_are_read_in_groups(calls: Any) -> None:
    chunks = [f"{each} {'word ' * 100}" for each in CHUNKS[:40]]
    model = Writer(profile={"max_input_tokens": 4000})
    judge = ChatJudge(model, calls=calls)
    record = {"question": "What?", "answer": " ".join(CLAIMS[:5]), "contexts": chunks}
    suite = rm.Suite(["faithfulness", "chunk_precision"], judge=judge)
    scores = suite.evaluate([record], progress=False).rows[0].scores
    assert (scores["faithfulness"].value, len(scores["faithfulness"].items)) == (1.0, 5)
    assert scores["chunk_precision"].value == 1.0
    assert all(sum(len(each.content) for each in sent) / 4 < 4000 for sent in model.sent)
    assert all(any(chunk in sent[1].content for sent in model.sent) for chunk in chunks)


@pytest.mark.parametrize(("longest_reply", "room"), [(None, 9001), (1500, 8501), (9000, 5000)])
def test_a_prompt_leaves_room_in_the_window_for_a_reply_but_takes_half(longest_reply: int | None, room: int) -> None:
    model = Writer(max_tokens=longest_reply, profile={"max_input_tokens": 10_001})
    assert ChatJudge(model).new_room().prompt == room


def test_a_window_that_nobody_told_is_learnt_from_its_refusal() -> None:
    class Short(Writer):
        refused: list[int] = Field(default_factory=list)

        def _generate(self, messages: list[BaseMessage], *given: Any, **kwargs: Any) -> Any:
            if (size := sum(len(each.content) for each in messages) // 4) > 4000:
                self.refused.append(size)
                raise Small("This model's maximum context length is 4000 tokens")
            return super()._generate(messages, *given, **kwargs)

    chunks = tuple(f"{each} {'word ' * 100}" for each in CHUNKS)
    model = Short()
    judge = ChatJudge(model)
    for claims in (CLAIMS[:5], CLAIMS[5:10]):
        (found,) = judge.answer([Verify(claims, chunks)])
        assert [finding.verdict for finding in found] == ["SUPPORTED"] * 5
    assert len(model.refused) < 20
    (failure,) = ChatJudge(model).answer([Verify(CLAIMS[:1], ("word " * 9000,))])
    assert failure.code == "too_long"


def test_one_passage_beyond_the_window_is_an_error_before_anything_is_sent() -> None:
    model = Writer(profile={"max_input_tokens": 2000})
    (failure,) = ChatJudge(model).answer([Verify(CLAIMS[:1], ("word " * 3000,))])
    assert failure.code == "too_long"
    assert not model.sent


@given(st.integers(1, 40), st.integers(1, 9))
def test_pieces_hold_all_of_a_question_in_order(size: int, parts: int) -> None:
    verify, related = Verify(CLAIMS[:size], CHUNKS[:2]), RelatedChunks("It.", CHUNKS[:size])
    claims = Claims(" ".join(CLAIMS[:size]))
    for question in (verify, related, claims):
        task = TASKS[type(question)]
        pieces = task.divide(question, parts)
        assert len(pieces) == min(parts, size)
        assert task.join(question, pieces, [answer_to(piece) for piece in pieces]) == answer_to(question)


def answer_to(question: Question[Any]) -> Any:
    if isinstance(question, Verify):
        return tuple(Finding("SUPPORTED", claim) for claim in question.claims)
    if isinstance(question, RelatedChunks):
        return tuple(Related(number, text) for number, text in enumerate(question.chunks, 1) if "7" in text)
    return tuple(re.findall(r"Fact number \d+ holds\.", question.text))


@pytest.mark.parametrize(("claims", "parts"), [(1, 1), (60, 1), (61, 2), (120, 2), (121, 3)])
def test_sixty_claims_are_judged_at_once(claims: int, parts: int) -> None:
    question = Verify(tuple(map(str, range(claims))), CHUNKS[:1])
    wanted = TASKS[type(question)].parts(question)
    sizes = [len(piece.claims) for piece in TASKS[type(question)].divide(question, wanted)]
    assert (wanted, len(sizes), sum(sizes), max(sizes) - min(sizes) <= 1) == (parts, parts, claims, True)


def test_findings_by_groups_of_passages_are_weighed() -> None:
    question = Verify(("a", "b", "c"), CHUNKS[:4])
    pieces = TASKS[type(question)].spread(question)
    assert [piece.passages for piece in pieces] == [CHUNKS[:2], CHUNKS[2:4]]
    first = (Finding("NEUTRAL", "", 0.2), Finding("CONTRADICTED", "no", 0.05), Finding("SUPPORTED", "", 0.6))
    second = (Finding("SUPPORTED", "", 0.9, ((2, "x"),)), Finding("NEUTRAL", "", 0.3), Finding("SUPPORTED", "", 0.7))
    joined = TASKS[type(question)].join(question, pieces, [first, second])
    assert joined == (Finding("SUPPORTED", "", 0.9, ((4, "x"),)), first[1], second[2])


@pytest.mark.parametrize(("better", "worse"), pairwise(("SUPPORTED", "CONTRADICTED", "NEUTRAL")))
@pytest.mark.parametrize("supports", [(0.1, 0.9), (0.9, 0.1), (0.5, 0.5), (None, None)])
def test_a_verdict_of_a_group_outweighs_a_lesser_one_with_any_support(
    better: str, worse: str, supports: tuple[float | None, float | None]
) -> None:
    question = Verify(("a", "b"), CHUNKS[:2])
    pieces = TASKS[type(question)].spread(question)
    high, low = Finding(better, "", supports[0]), Finding(worse, "", supports[1])
    assert TASKS[type(question)].join(question, pieces, [(high, low), (low, high)]) == (high, high)


@pytest.mark.parametrize("supports", [(0.6, 0.5, None), (0.5, None, 0.6), (None, 0.0, 0.6), (None, 0.0, 0.0)])
def test_of_equal_verdicts_of_groups_the_best_supported_is_taken(supports: tuple[float | None, ...]) -> None:
    question = Verify(("a",), CHUNKS[:3])
    pieces = [replace(question, passages=(chunk,)) for chunk in question.passages]
    given = [(Finding("SUPPORTED", "", support),) for support in supports]
    best = max(supports, key=lambda support: support or 0.0)
    assert TASKS[type(question)].join(question, pieces, given) == (Finding("SUPPORTED", "", best),)


def test_claims_in_pieces_keep_what_was_left_out() -> None:
    question = Claims(" ".join(CLAIMS[:2]))
    answers = [("A.",), Extraction(("A.", "B."), ("Left out.",))]
    joined = TASKS[type(question)].join(question, TASKS[type(question)].divide(question, 2), answers)
    assert joined == Extraction(("A.", "B."), ("Left out.",))


ROWS = [ROW, {**ROW, "answer": " ".join(CLAIMS[:30])}]


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["full", "compact", "single"]), st.integers(1, 3), st.integers(0, 300), st.sampled_from(ROWS))
def test_what_a_run_costs_lies_in_its_plan(calls: Any, claims: int, words: int, row: dict[str, Any]) -> None:
    prices = {"input": 0.15, "output": 0.6}
    model = Writer(claims_a_sentence=claims, words=words)
    judge = ChatJudge(model, calls=calls, prices=prices)
    suite = rm.Suite(FULL_SET, judge=judge)
    plan = suite.plan([row])[judge.name]
    assert plan.most is not None
    suite.evaluate([row], progress=False)
    assume(all(len(messages) == 2 for messages in model.sent))  # a second look at a doubtful reply is not planned
    spent = judge.usage.snapshot()
    for name in ("calls", "prompt_tokens", "completion_tokens", "cost"):
        assert getattr(plan, name) <= spent[name] <= getattr(plan.most, name), name


def test_questions_that_share_a_call_do_so_while_their_reply_fits() -> None:
    model = Writer()
    questions = [Verify(CLAIMS[n : n + 12], CHUNKS[:2]) for n in range(0, 60, 12)]
    assert [len(found) for found in ChatJudge(model, calls="compact").answer(questions)] == [12] * 5
    assert len(model.sent) == 3  # each reply has room for about 30 verdicts


def test_replies_that_are_cut_at_the_same_time_teach_no_more_than_one() -> None:
    room = Room("compact", 1000)
    asked = [Claims("One. Two.")]
    for _ in range(3):
        room.was_cut(asked, {})
    assert room.lengths == {Claims: 2.0}
    room.was_cut(asked, room.lengths)
    assert room.lengths == {Claims: 4.0}
