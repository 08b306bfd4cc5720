from __future__ import annotations

import threading
from typing import Any

import pytest
from langchain_core.messages import AIMessage

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Claims
from mlflow_ragmetrics.errors import BudgetExceededError, InvalidOptionError
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from mlflow_ragmetrics.judges.chat.client import Usage
from mlflow_ragmetrics.judges.chat.judge_options import JudgeOptions, Prices
from mlflow_ragmetrics.judges.chat.reply import Reply, tokens_in
from tests.judges.fake_models import dutiful, scripted
from tests.judges.rows import FULL_SET, ROW


def test_cost_counts_cached_tokens_at_their_own_price() -> None:
    assert Prices(input=2.0, output=8.0).cost(1_000_000, 500_000, 400_000) == 6.0
    assert Prices(input=2.0, output=8.0, cached=0.5).cost(1_000_000, 500_000, 400_000) == pytest.approx(5.4)


@pytest.mark.parametrize(("reported", "prompt"), [(500, 500), (100, 500), (600, 600)])
def test_cached_tokens_that_the_provider_does_not_count_as_input_cost_too(reported: int, prompt: int) -> None:
    usage = Usage("judge", JudgeOptions(prices=Prices(input=1e6, output=1e6, cached=1e5), max_cost=1e9))
    cached = 400
    usage.answered(
        usage.begin_call(500, 10), Reply("yes", tokens={"input": reported, "cached": cached, "output": 1}), 500
    )
    spent = usage.snapshot()
    assert (spent["prompt_tokens"], spent["cached_tokens"]) == (prompt, cached)
    assert spent["cost"] == pytest.approx(prompt - cached + 0.1 * cached + 1)


def test_a_meter_loses_nothing_between_threads() -> None:
    usage = Usage("judge", JudgeOptions())
    threads = [threading.Thread(target=lambda: [usage.add(calls=1) for _ in range(2000)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert usage.snapshot()["calls"] == 16_000
    assert "cost" not in usage.snapshot()


def test_tokens_are_a_quarter_of_the_characters() -> None:
    assert [tokens_in(text) for text in ("", "a", "abcd", "abcde")] == [0, 1, 1, 2]


def test_max_calls_ends_the_judge_and_keeps_what_is_done() -> None:
    model = dutiful()
    judge = ChatJudge(model, max_calls=11)
    rows = [{**ROW, "answer": ROW["answer"] + f" Number {i}."} for i in range(3)]
    with pytest.raises(BudgetExceededError, match="max_calls=11") as raised:
        rm.Suite(FULL_SET, judge=judge, concurrency=1).evaluate(rows)
    assert len(model.sent) == 11
    first, *_, last = raised.value.report.rows
    assert {score.status for score in first.scores.values()} == {"ok"}
    errors = [str(score.error) for score in last.scores.values() if score.status == "error"]
    assert errors
    assert all("max_calls=11" in error for error in errors)


def test_max_cost_needs_prices_and_holds() -> None:
    with pytest.raises(InvalidOptionError, match="prices"):
        ChatJudge(dutiful(), max_cost=1.0)
    with pytest.raises(InvalidOptionError, match="output is missing"):
        ChatJudge(dutiful(), prices={"input": 1.0})
    judge = ChatJudge(dutiful(), max_cost=0.01, prices={"input": 5.0, "output": 5.0})
    outcomes = [judge.answer([Claims(f"Sentence {i}.")])[0] for i in range(20)]
    failures = [outcome for outcome in outcomes if isinstance(outcome, BudgetExceededError)]
    assert failures
    assert all(failure.fatal for failure in failures)
    assert "cost" in judge.usage.snapshot()
    assert 0.0 < judge.usage.snapshot()["cost"] <= 0.0115


def test_a_reply_that_was_lost_counts_at_its_highest_cost() -> None:
    """A dollar is a token here; what is open or lost may have cost ten of prompt and five of reply."""
    usage = Usage("judge", JudgeOptions(prices=Prices(input=1e6, output=1e6), max_cost=45))
    lost = usage.begin_call(10, 5)
    usage.end_call(lost, lost=True)
    free = usage.begin_call(10, 5)
    usage.end_call(free)
    answered = usage.begin_call(10, 5)
    usage.answered(answered, Reply("", tokens={"input": 10, "output": 1}), 10)
    usage.end_call(answered, lost=True)
    assert usage.snapshot()["cost"] == 11
    usage.end_call(usage.begin_call(10, 9))  # 15 lost, 11 spent, and 19 make 45
    with pytest.raises(BudgetExceededError, match="max_cost=45"):
        usage.begin_call(10, 10)
    assert usage.snapshot()["calls"] == 4


def test_a_prompt_that_cost_more_than_estimated_makes_the_next_ones_dearer() -> None:
    usage = Usage("judge", JudgeOptions(prices=Prices(input=1e6, output=1e6), max_cost=50))
    usage.answered(usage.begin_call(10, 0), Reply("", tokens={"input": 20}), 10)
    usage.end_call(usage.begin_call(15, 0))
    with pytest.raises(BudgetExceededError):
        usage.begin_call(16, 0)


@pytest.mark.parametrize("reported", [None, (0, 40), (3, 40)])
def test_counts_that_cannot_be_true_are_estimated(reported: tuple[int, int] | None) -> None:
    usage: Any = reported and {"input_tokens": reported[0], "output_tokens": reported[1], "total_tokens": sum(reported)}
    judge = ChatJudge(scripted(AIMessage('{"texts": [{"id": "t1", "claims": ["It is red."]}]}', usage_metadata=usage)))
    judge.answer([Claims("It is red.")])
    spent = judge.usage.snapshot()
    assert (spent["estimated_calls"], spent["prompt_tokens"] > 300) == (1, True)
