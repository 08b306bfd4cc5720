"""Two metrics that are equal in every row are one finding; every output with figures reports this once."""

from __future__ import annotations

from typing import Any

import mlflow
import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.display.document import to_markdown, to_text
from mlflow_ragmetrics.display.text import report_blocks

SAID = "Equal in every row, so they count as one finding: faithfulness, fact_recall"


def rows(count: int = 6) -> list[dict[str, Any]]:
    return [
        {
            "id": f"r{n}",
            "question": f"How high is tower {n}?",
            "answer": f"Tower {n} is {n}1 metres high." + " Its lake freezes in winter." * (n % 2),
            "contexts": [f"Tower {n} is {n}1 metres high."],
        }
        for n in range(count)
    ]


METRICS = ["faithfulness", "fact_recall", "answer_relevance"]


def test_terminal_markdown_page_and_run_say_so_once() -> None:
    report = rm.evaluate(rows(), METRICS)
    for text in (to_text(report_blocks(report), 200), to_markdown(report_blocks(report)), report.to_html()):
        assert text.count(SAID) == 1
    run = mlflow.get_run(report.log())
    assert SAID in run.data.tags["mlflow.note.content"]


@pytest.mark.parametrize("change", ["one row differs", "one row", "nothing measured"])
def test_it_is_not_said_where_it_is_not_known(change: str) -> None:
    data = rows(1 if change == "one row" else 6)
    if change == "one row differs":  # a non-answer: faithfulness is 0.0, fact_recall is not measured
        data[0] = {**data[0], "answer": "I don't know.", "reference": "It is red."}
    if change == "nothing measured":
        data = [{**each, "contexts": []} for each in data]
    report = rm.evaluate(data, METRICS)
    assert not any("Equal" in line for line in report.banner)
