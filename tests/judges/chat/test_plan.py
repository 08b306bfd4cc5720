from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge, PlanJudge
from tests.judges.fake_models import FakeChatModel, dutiful
from tests.judges.rows import FULL_SET, ROW

PRICES = {"input": 0.15, "output": 0.6}


@pytest.mark.parametrize("calls", ["full", "compact", "single"])
def test_a_plan_counts_what_the_judge_then_needs(calls: str) -> None:
    unreachable = FakeChatModel(reply=lambda messages: AssertionError("a plan sends nothing"))
    planned = PlanJudge(ChatJudge(unreachable, calls=calls, prices=PRICES))
    rm.Suite(FULL_SET, judge=planned).evaluate([ROW])
    judge = ChatJudge(dutiful(), calls=calls)
    rm.Suite(FULL_SET, judge=judge).evaluate([ROW])
    spent = judge.usage.snapshot()
    assert not unreachable.sent
    assert planned.plan.calls == spent["calls"]
    assert planned.plan.prompt_tokens == pytest.approx(spent["prompt_tokens"], rel=0.05)
    assert 0.5 * spent["completion_tokens"] < planned.plan.completion_tokens < spent["completion_tokens"]
    cost = planned.plan.prompt_tokens * 0.15e-6 + planned.plan.completion_tokens * 0.6e-6
    assert planned.plan.cost == pytest.approx(cost)


def test_a_plan_without_prices_has_no_cost() -> None:
    planned = PlanJudge(ChatJudge(dutiful()))
    rm.Suite(["correctness"], judge=planned).evaluate([ROW])
    assert planned.plan.cost is None
    assert planned.plan.calls == 1
