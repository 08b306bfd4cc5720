from __future__ import annotations

import threading

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Claims
from mlflow_ragmetrics.errors import BudgetExceededError, InvalidOptionError
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from mlflow_ragmetrics.judges.chat.client import Usage
from mlflow_ragmetrics.judges.chat.judge_options import Prices
from mlflow_ragmetrics.judges.chat.reply import tokens_in
from tests.judges.fake_models import dutiful
from tests.judges.rows import FULL_SET, ROW


def test_cost_counts_cached_tokens_at_their_own_price() -> None:
    assert Prices(input=2.0, output=8.0).cost(1_000_000, 500_000, 400_000) == 6.0
    assert Prices(input=2.0, output=8.0, cached=0.5).cost(1_000_000, 500_000, 400_000) == pytest.approx(5.4)


def test_a_meter_loses_nothing_between_threads() -> None:
    usage = Usage()
    threads = [threading.Thread(target=lambda: [usage.add(calls=1) for _ in range(2000)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert usage.calls == 16_000
    assert usage.cost is None
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
    assert "error" in {score.status for score in last.scores.values()}
    assert "max_calls=11" in str(last.scores["faithfulness"].error)


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
    assert judge.usage.cost is not None
    assert 0.0 < judge.usage.cost <= 0.0115


def test_max_cost_holds_though_many_calls_are_in_flight() -> None:
    model = dutiful(latency=0.02)
    judge = ChatJudge(model, max_cost=0.05, prices={"input": 5.0, "output": 5.0})
    rows = [{**ROW, "answer": ROW["answer"] + f" Number {i}."} for i in range(40)]
    with pytest.raises(BudgetExceededError, match=r"max_cost=0\.05"):
        rm.Suite(FULL_SET, judge=judge, concurrency=16).evaluate(rows)
    assert judge.usage.cost is not None
    assert 0.03 < judge.usage.cost <= 0.05
