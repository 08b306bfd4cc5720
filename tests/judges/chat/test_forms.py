"""Forms of calls: the default, the cost of each, and a warning if two runs used different ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlflow_ragmetrics as rm
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


def test_the_default_costs_least_on_the_example_rows() -> None:
    file = Path(__file__).parents[3] / "examples" / "data" / "ragtruth_llama-2-13b.jsonl"
    data = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()[:30]]
    sent = {}
    for calls in ("auto", *FORMS):
        plan = rm.Suite(["faithfulness"], judge=ChatJudge(dutiful(), calls=calls)).plan(data)["fake"]
        sent[calls] = plan.prompt_tokens + 4 * plan.completion_tokens
    assert sent["auto"] == sent["single"] == min(sent.values())


def test_a_row_by_itself_is_asked_in_the_form_that_agrees_best_with_people() -> None:
    model = dutiful()
    rm.score("faithfulness", rows(40)[0], judge=model)
    assert all("For each text list all claims" in sent[0].content for sent in model.sent)


def test_stored_answers_are_those_of_their_form() -> None:
    assert len({ChatJudge(dutiful(), calls=calls).fingerprint for calls in ("auto", *FORMS)}) == 3


def test_compare_warns_where_two_runs_were_asked_in_other_forms() -> None:
    data = rows(3)
    reports = [
        rm.Suite(METRICS, judge=ChatJudge(dutiful(), calls=calls)).evaluate(data) for calls in ("full", "single")
    ]
    warnings = rm.compare(*reports).warnings
    assert any("different calls (fake full / fake single)" in each for each in warnings)
    assert not any("other calls" in each for each in rm.compare(reports[0], reports[0]).warnings)
