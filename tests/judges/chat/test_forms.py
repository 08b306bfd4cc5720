"""``calls="auto"``: one form for all rows, the cheapest; ``compare`` warns if two runs used different forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.metric import Steps
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from tests.judges.fake_models import dutiful

PASSAGE = "The tower is tall. " * 20
METRICS = ["faithfulness", "chunk_precision", "fact_recall"]
FORMS = ("full", "compact", "single")


def rows(sentences: int, count: int = 6) -> list[dict[str, Any]]:
    answers = [" ".join(f"Room {n} of house {row} is open." for n in range(sentences)) for row in range(count)]
    return [
        {"id": str(n), "question": "Where?", "answer": each, "contexts": [PASSAGE]} for n, each in enumerate(answers)
    ]


def weight(calls: str, data: list[dict[str, Any]], prices: Any) -> float:
    suite = rm.Suite(METRICS, judge=ChatJudge(dutiful(), calls=calls, prices=prices))
    plan = suite.plan(data)["fake"]
    return plan.prompt_tokens + 4 * plan.completion_tokens if plan.cost is None else plan.cost


@pytest.mark.parametrize("prices", [None, {"input": 0.1, "output": 3.0}, {"input": 3.0, "output": 0.1}])
@pytest.mark.parametrize("sentences", [1, 8, 16, 40])
def test_auto_is_the_form_that_costs_least(sentences: int, prices: Any) -> None:
    data = rows(sentences, 3)
    costs = {calls: weight(calls, data, prices) for calls in FORMS}
    judge = ChatJudge(dutiful(), prices=prices)
    report = rm.Suite(METRICS, judge=judge).evaluate(data)
    form = report.description["calls"]["fake"]
    assert costs[form] == min(costs.values()) == weight("auto", data, prices)


def test_what_auto_sends_for_real_answers_costs_no_more_than_the_cheapest_form() -> None:
    file = Path(__file__).parents[3] / "examples" / "data" / "ragtruth_llama-2-13b.jsonl"
    data = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()[:30]]
    sent = {}
    for calls in ("auto", *FORMS):
        usage = rm.Suite(["faithfulness"], judge=ChatJudge(dutiful(), calls=calls)).evaluate(data).usage
        sent[calls] = usage["prompt_tokens"] + 4 * usage["completion_tokens"]
    assert sent["auto"] <= 1.02 * min(sent[calls] for calls in FORMS)


def test_the_form_is_one_for_short_and_long_answers_and_planning_asks_nobody_else() -> None:
    asked = []

    @rm.metric()
    def own(answer: str) -> Steps[Score]:
        asked.append(answer)
        yield ()
        return Score(value=1.0)

    model = dutiful()
    suite = rm.Suite([*METRICS, own], judge=model)
    suite.evaluate([*rows(1), *[{**each, "id": f"long {each['id']}"} for each in rows(40)]])
    assert len(asked) == 12
    systems = {message[0].content for message in model.sent}
    assert len({"For each text list all claims" in each for each in systems if '"texts"' in each}) == 1


def test_a_row_by_itself_is_asked_in_the_form_that_agrees_best_with_people() -> None:
    model = dutiful()
    rm.score("faithfulness", rows(40)[0], judge=model)
    assert all("For each text list all claims" in sent[0].content for sent in model.sent)


def test_stored_answers_are_those_of_their_form() -> None:
    judge = ChatJudge(dutiful())
    prints = {judge.in_form(form).fingerprint for form in FORMS}
    assert len(prints) == 3
    assert ChatJudge(dutiful(), calls="compact").fingerprint == judge.in_form("compact").fingerprint


def test_compare_warns_where_two_runs_were_asked_in_other_forms() -> None:
    data = rows(3)
    reports = [
        rm.Suite(METRICS, judge=ChatJudge(dutiful(), calls=calls)).evaluate(data) for calls in ("full", "single")
    ]
    warnings = rm.compare(*reports).warnings
    assert any("different calls (fake full / fake single)" in each for each in warnings)
    assert not any("other calls" in each for each in rm.compare(reports[0], reports[0]).warnings)
