"""Graded support, the resulting verdicts, and the check of quotes."""

from __future__ import annotations

import json
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Related, RelatedChunks, Verify
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeReplyError
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from mlflow_ragmetrics.judges.chat.reply import found_in
from tests.judges.fake_models import dutiful, scripted

PASSAGE = 'The “park” opens at 9 – except on Mondays – and  closes\nat 5. Entry\'s free, "of course".'
VERIFY = Verify(("It opens at 9.",), (PASSAGE,))
FORGED, HONEST = [{"passage": "p1", "text": "closes at 6"}], [{"passage": "p1", "text": "opens at 9…"}]


def verdict(**given: Any) -> str:
    entry = {"id": "c1", "quotes": HONEST, "reason": "So.", "support": 90, "verdict": "SUPPORTED", **given}
    return json.dumps({"verdicts": [{key: value for key, value in entry.items() if value is not None}]})


@pytest.mark.parametrize(
    ("support", "said", "read", "graded"),
    [
        (50, "SUPPORTED", "SUPPORTED", 0.5),
        (49, "SUPPORTED", "NEUTRAL", 0.0),
        (60, "NEUTRAL", "NEUTRAL", 0.0),
        ("0.9", "SUPPORTED", "SUPPORTED", 0.9),
        (3, "CONTRADICTED", "CONTRADICTED", 0.03),
        ("85%", "supported.", "SUPPORTED", 0.85),
        (0.9, "SUPPORTED", "SUPPORTED", 0.9),
        (1, "SUPPORTED", "SUPPORTED", 1.0),
        (1, "NEUTRAL", "NEUTRAL", 0.01),
        (12.344, "NEUTRAL", "NEUTRAL", 0.1234),
        (None, "SUPPORTED", "SUPPORTED", None),
    ],
)
def test_support_decides_what_is_supported(support: Any, said: str, read: str, graded: float | None) -> None:
    ((finding,),) = ChatJudge(scripted(*[verdict(support=support, verdict=said)] * 2)).answer([VERIFY])
    assert (finding.verdict, finding.support) == (read, graded)


def test_the_threshold_is_an_option_and_part_of_the_identity() -> None:
    strict = ChatJudge(scripted(verdict(support=70)), support_threshold=0.8)
    ((finding,),) = strict.answer([VERIFY])
    assert finding.verdict == "NEUTRAL"
    assert ChatJudge(dutiful(), support_threshold=0.8).fingerprint != ChatJudge(dutiful()).fingerprint
    with pytest.raises(InvalidOptionError, match="support_threshold"):
        ChatJudge(dutiful(), support_threshold=1.5)


def test_a_contradiction_that_is_supported_is_asked_about_once_more() -> None:
    odd = verdict(support=95, verdict="CONTRADICTED")
    model = scripted(odd, verdict(support=5, verdict="CONTRADICTED"))
    ((finding,),) = ChatJudge(model).answer([VERIFY])
    assert "is CONTRADICTED and yet has a support of 95 of 100" in model.sent[1][-1].content
    assert (finding.verdict, finding.support) == ("CONTRADICTED", 0.05)


@pytest.mark.parametrize("support", [-1, 101, "high", True, float("inf")])
def test_a_support_off_the_scale_is_never_clamped(support: Any) -> None:
    (failure,) = ChatJudge(scripted(*[verdict(support=support)] * 2)).answer([VERIFY])
    assert isinstance(failure, JudgeReplyError)


@pytest.mark.parametrize(
    "quote",
    [
        'The "park" opens at 9',
        "the ‘PARK’ opens",
        "opens at 9 - except on Mondays — and closes at 5",
        "opens at 9 … closes at 5.",
        "The park ... at 9 [...] Entry’s free",
        "…closes at 5",
        "Entry's free, of course.",
    ],
)
def test_honest_quotes_are_found(quote: str) -> None:
    assert found_in(PASSAGE, quote)


@pytest.mark.parametrize("quote", ["closes at 6", "closes at 5 … opens at 9", "", "…", "opens on Mondays"])
def test_quotes_that_nobody_wrote_are_not(quote: str) -> None:
    assert not found_in(PASSAGE, quote)


def test_a_quote_that_is_not_found_is_asked_for_once_more_then_the_claim_is_not_supported() -> None:
    model = scripted(verdict(quotes=FORGED), verdict(quotes=HONEST))
    judge = ChatJudge(model)
    ((finding,),) = judge.answer([VERIFY])
    assert (finding.quotes, finding.unquoted) == (((1, "opens at 9"),), False)
    assert "c1" in model.sent[1][-1].content
    assert judge.usage.snapshot()["repairs"] == 0

    texts = json.dumps({"texts": [{"id": "t1", "claims": [{"claim": "It opens at 9.", "sentences": [1]}], "none": []}]})
    model = scripted(texts, verdict(quotes=FORGED), verdict(quotes=FORGED))
    judge = ChatJudge(model, calls="full")
    record = {"answer": "It opens at 9.", "contexts": [PASSAGE]}
    score = rm.score("faithfulness", record, judge=judge, on_missing="skip")
    assert [code for code, _ in score.warnings] == ["judge_reply_at_odds"]


@pytest.mark.parametrize("given", [{"quotes": [*FORGED, *HONEST]}, {"quotes": FORGED, "support": 10}])
def test_what_is_not_supported_by_forged_quotes_alone_is_final(given: dict[str, Any]) -> None:
    model = scripted(verdict(**{"verdict": "NEUTRAL" if "support" in given else "SUPPORTED", **given}))
    ((finding,),) = ChatJudge(model).answer([VERIFY])
    assert not finding.at_odds


@pytest.mark.parametrize("text", ["at", "The", "on", "…", ""])
def test_a_quote_of_function_words_is_no_quote(text: str) -> None:
    model = scripted(verdict(quotes=[{"passage": "p1", "text": text}]))
    ((finding,),) = ChatJudge(model).answer([VERIFY])
    assert (finding.verdict, finding.quotes, finding.unquoted) == ("SUPPORTED", (), True)


def related(*entries: tuple[str, object]) -> str:
    return json.dumps({"related": [{"passage": p, "quote": "", "reason": "", "related": said} for p, said in entries]})


def test_there_is_a_verdict_on_every_passage() -> None:
    question = RelatedChunks("It is tall.", ("It is tall.", "It rains."))
    model = scripted(related(("p1", True)), related(("p1", "true"), ("p2", False)))
    assert ChatJudge(model).answer([question]) == [(Related(1),)]
    old = json.dumps({"related": [{"passage": "p2", "quote": "rains", "reason": ""}]})  # from a custom prompt
    assert ChatJudge(scripted(old)).answer([question]) == [(Related(2, "rains"),)]
