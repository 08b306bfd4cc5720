"""Replies of chat models, and of their servers, of the kinds that public reports name."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage

import mlflow_ragmetrics as rm
from tests.judges.fake_models import FakeChatModel
from tests.judges.misbehaving_server import misbehaving_server

Reply = Any


def judge_of(reply: Reply | Callable[[str], Reply]) -> tuple[rm.ChatJudge, FakeChatModel]:
    """A judge that asks singly, and its model, which gives this reply (text, JSON, or a function of the prompt)."""

    def text_of(messages: Any) -> str:
        prompt = "\n".join(str(message.content) for message in messages)
        content = reply(prompt) if callable(reply) else reply
        return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)

    model = FakeChatModel(reply=text_of)
    return rm.ChatJudge(model, structured=False, calls="single"), model


def claim(text: str, sentence: int, quote: str | None = None, support: int = 99, reason: str = "stated") -> Reply:
    quotes = [] if quote is None else [{"passage": "p1", "text": quote}]
    return {
        "claim": text, "sentences": [sentence], "quotes": quotes, "reason": reason, "support": support,
        "verdict": "SUPPORTED",
    }  # fmt: skip


def claims(*listed: Reply, none: tuple[int, ...] = ()) -> Reply:
    return {"texts": [{"id": "t1", "claims": list(listed), "none": list(none)}]}


def grade(metric: str, number: str, reason: str = "stated") -> str:
    return f'{{"grades":[{{"id":"{metric}","reason":"{reason}","grade":{number}}}]}}'


def sample_of(answer: str, *contexts: str, question: str = "How tall is the mast?") -> dict[str, Any]:
    return {"id": "a", "question": question, "answer": answer, "contexts": contexts}


def scores_of(judge: Any, sample: Any, *metrics: str) -> dict[str, rm.Score]:
    return dict(rm.Suite(list(metrics), judge=judge).evaluate([sample], progress=False).rows[0].scores)


MAST = "The mast is 40 m tall."
GOOD = json.dumps(claims(claim(MAST, 1, MAST[:-1])))
FENCE = "`" * 3
SHAPES = {
    "plain_control": GOOD,
    "fence_control": f"{FENCE}json\n{GOOD}\n{FENCE}",
    "think_control": f'<think>maybe {{"texts": []}}</think>{GOOD}',
    "stop_s": GOOD + "</s>",
    "stop_im_end": GOOD + "<|im_end|>",
    "stop_eot": GOOD + "<|eot_id|>",
    "stop_end_of_turn": GOOD + "<end_of_turn>",
    "schema_echo": f'{{"properties": {GOOD}}}',
    "wrapped_output": f'{{"output": {GOOD}}}',
    "tool_call": f'<tool_call>\n{{"name": "reply", "arguments": {GOOD}}}\n</tool_call>',
    "answer_tag": f"<answer>{GOOD}</answer>",
    "prose_around": f"Here is it:\n{GOOD}\nThat is all.",
    "prose_behind": GOOD + " Done.",
    "think_brackets": '[THINK]maybe {"texts": []}[/THINK]' + GOOD,
    "thought_tag": '<thought>maybe {"texts": []}</thought>' + GOOD,
    "tildes": f"~~~json\n{GOOD}\n~~~",
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_reply_shapes(shape: str) -> None:
    """Wrappers, fences and stop tokens around a reply cost neither a row nor a call (confident-ai/deepeval#2332)."""
    judge, model = judge_of(shape)
    score = scores_of(judge, sample_of(MAST, MAST), "faithfulness")["faithfulness"]
    assert (score.status, score.value, len(model.sent)) == ("ok", 1.0, 1)


def test_reply_shapes_echo_of_the_request_control() -> None:
    judge, _ = judge_of('Your data holds {"texts": []} and nothing more.')
    sample = sample_of('The reply is {"texts": []} here.', MAST)
    assert scores_of(judge, sample, "faithfulness")["faithfulness"].status == "error"


DESK = "The information desk is open on Monday."


@pytest.mark.parametrize(
    "passage",
    [
        "The infor\u00admation desk is open on Mon\u00adday.",
        "The infor-\nmation desk is open on Mon-\nday.",
        "The\u200b infor\u200bmation desk is open on Monday.",
        DESK,
    ],
    ids=["soft_hyphens", "line_ends", "zero_width", "clean_control"],
)
def test_pdf_quotes(passage: str) -> None:
    """A clean quote is found in a passage with invisible signs and broken words (yfedoseev/pdf_oxide#1412)."""
    judge, model = judge_of(claims(claim(DESK, 1, DESK)))
    score = scores_of(judge, sample_of(DESK, passage), "faithfulness")["faithfulness"]
    assert (score.value, score.warnings, len(model.sent)) == (1.0, (), 1)


def test_pdf_quotes_other_words_control() -> None:
    judge, _ = judge_of(claims(claim(DESK, 1, DESK)))
    score = scores_of(judge, sample_of(DESK, "The library is closed."), "faithfulness")["faithfulness"]
    assert score.warnings or score.value != 1.0


UNQUOTED = pytest.mark.xfail(reason="SUPPORTED without a quote is allowed: an absence cannot be quoted", strict=True)
NONE = pytest.mark.xfail(reason="the judge decides which sentences state nothing", strict=True)


def scores_without_quote(text: str) -> dict[str, rm.Score]:
    opened = claim("The bridge opened in 1894.", 1, "opened in 1894")
    judge, _ = judge_of(claims(opened, claim(text, 2, None, 100, reason="no passage says it")))
    sample = sample_of(f"The bridge opened in 1894. {text}", "The bridge opened in 1894.", "It has nine arches.")
    return scores_of(judge, sample, "faithfulness", "weakest_claim")


@pytest.mark.parametrize(
    "text",
    [
        "The passages do not mention the price.",
        "Passage 2 does not provide any information about the price.",
        "The provided passages do not contain information about the cost of the bridge.",
        "No passage says why it was closed.",
    ],
)
def test_silent_quotes(text: str) -> None:
    """What no passage says cannot be quoted: SUPPORTED without quotes is right for such a claim."""
    scores = scores_without_quote(text)
    assert (scores["faithfulness"].value, scores["weakest_claim"].status) == (1.0, "ok")
    assert "reply_at_odds" not in [code for code, _ in scores["faithfulness"].warnings]


@UNQUOTED
def test_silent_quotes_real_claim_control() -> None:
    assert scores_without_quote("The bridge cost nine thousand pounds.")["faithfulness"].value != 1.0


def obedient(prompt: str) -> Reply:
    """The mast's height is the only claim; all other sentences state nothing."""
    text = prompt.rsplit(" t1]", 1)[-1].split(" end]")[0]
    sentences = re.findall(r"^(\d+): (.*)$", text, re.MULTILINE)
    stating = [int(number) for number, sentence in sentences if "40 m" in sentence][:1]
    silent = tuple(int(number) for number, _ in sentences if int(number) not in stating)
    return claims(*(claim(MAST, number, MAST[:-1]) for number in stating), none=silent)


@pytest.mark.parametrize(
    "answer",
    [
        "Great question! The mast is 40 m tall.",
        "The mast is 40 m tall. Have a nice day.",
        "I'm sorry to hear that. The mast is 40 m tall.",
        "Summary\nThe mast is 40 m tall.",
        "The mast is 40 m tall.\nSource: mast.pdf",
        "The mast is 40 m tall.\nBest regards,\nAnna",
        "| Name | Height |\n|---|---|\n| Mast | 40 m |",
        "Let me explain. The mast is 40 m tall.",
        "The mast is 40 m tall. Хорошего дня!",
        "The mast is 40 m tall.\n(Passage 1)",
        "The mast is 40 m tall.\nUnable to answer based on given passages:\n"
        "* Whether it has been painted\n* Any plans for a second mast",
        "The mast is 40 m tall.\nTherefore, I cannot provide guidance on this matter based on this passage.",
    ],
)
def test_under_none(answer: str) -> None:
    """A judge that obeys puts what states nothing under none, and the row keeps its score (truera/trulens#1365)."""
    judge, model = judge_of(obedient)
    scores = scores_of(judge, sample_of(answer, f"{MAST} It was put up in 1921."), "faithfulness", "weakest_claim")
    assert [score.status for score in scores.values()] == ["ok", "ok"]
    assert all(score.value is not None and score.value > 0.9 for score in scores.values())
    assert len(model.sent) == 1


@NONE
def test_under_none_claim_under_none_control() -> None:
    judge, _ = judge_of(obedient)
    sample = sample_of(f"{MAST} It was painted blue by nine sailors.", MAST)
    score = scores_of(judge, sample, "faithfulness")["faithfulness"]
    assert score.value != 1.0 or score.warnings


def test_under_none_abstention_only() -> None:
    judge, _ = judge_of(obedient)
    sample = sample_of("I'm unable to find the price in the given documents.", MAST, question="Price?")
    score = scores_of(judge, sample, "faithfulness")["faithfulness"]
    assert (score.status, score.value) == ("ok", 1.0)


@pytest.mark.parametrize(
    ("grades", "values"),
    [(["1.0"], [0.0]), (["5.0", "2.5", "1"], [1.0, 0.375, 0.0]), (["1.0", "5.0", "1"], [0.0, 1.0, 0.0])],
    ids=["one_point_zero", "others_control", "one_among_others"],
)
def test_grade_one(grades: list[str], values: list[float]) -> None:
    """Halves are allowed, so a judge may write 1.0: it is the lowest grade."""
    judge, _ = judge_of(lambda prompt: grade("correctness", re.findall(r"mark (\S+) ends", prompt)[-1]))
    rows = [{"question": "q?", "answer": f"Paris, mark {text} ends.", "reference": "It is Lyon."} for text in grades]
    report = rm.Suite(["correctness"], judge=judge).evaluate(rows, progress=False)
    assert [row.scores["correctness"].value for row in report.rows] == values


def test_long_reason() -> None:
    """Of a reason of millions of characters, the score and the page keep little."""
    reason = "z" * 5_000_000
    judge, _ = judge_of(claims(claim(MAST, 1, MAST[:-1], reason=reason)))
    report = rm.Suite(["faithfulness"], judge=judge).evaluate([sample_of(MAST, MAST)], progress=False)
    assert all(len(item.reason or "") < 100_000 for item in report.rows[0].scores["faithfulness"].items)
    assert len(report._repr_html_()) < 1_000_000
    judge, _ = judge_of(grade("correctness", "4", reason))
    graded = scores_of(judge, {"question": "How tall?", "answer": "40 m", "reference": "40 m tall"}, "correctness")
    assert len(graded["correctness"].reason or "") < 100_000


BUDGET: dict[str, Any] = {"max_cost": 0.004, "prices": {"input": 1, "output": 2}}  # for about 10 calls
ROWS = [{"id": str(n), "question": f"How high is {n}?", "answer": f"It is {n} m."} for n in range(40)]


def spend(judge: Any, **options: Any) -> None:
    with contextlib.suppress(rm.RagMetricsError):
        rm.Suite(["answer_relevance"], judge=judge, **BUDGET, **options).evaluate(ROWS, progress=False)


@pytest.mark.parametrize(
    "message",
    [
        {"usage_metadata": {"input_tokens": 300, "output_tokens": 20, "total_tokens": 320}},
        {},
        {"usage_metadata": {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}},
        {"usage_metadata": {"input_tokens": -9, "output_tokens": -9, "total_tokens": -18}},
        {"response_metadata": {"token_usage": {"total_tokens": 320}}},
        {"response_metadata": {"token_usage": {"input_tokens": 300, "output_tokens": 20}}},
    ],
    ids=["reported_usage_control", "no_usage", "zeros", "negative", "total_only", "other_names"],
)
def test_max_cost(message: dict[str, Any]) -> None:
    """A budget holds also where no usage, zeros, negative numbers or other names of the counts are reported."""
    model = FakeChatModel(reply=lambda _: AIMessage(grade("answer_relevance", "4"), **message))
    spend(model)
    assert 0 < len(model.sent) < len(ROWS) / 2


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 300, "completion_tokens": 20, "total_tokens": 320},
        None,
        {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        {"prompt_tokens": -9, "completion_tokens": -9, "total_tokens": -18},
        {"input_tokens": 300, "output_tokens": 20},
        {"total_tokens": 320},
    ],
    ids=["reported_control", "none", "zeros", "negative", "other_names", "total_only"],
)
def test_max_cost_served(usage: dict[str, int] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with misbehaving_server(usage=usage) as server:
        spend("openai:/m", base_url=server.url)
    assert 0 < len(server.requests) < len(ROWS) / 2
