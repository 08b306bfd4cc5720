"""Notebook output: words and tables instead of dataclasses, in light and dark themes, with everything escaped."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError
from tests.comparison.reports import noisy, report_of

ROWS = [
    {"id": "one", "question": "<b>Q</b>?", "answer": "It is high. It was <i>new</i>.", "contexts": ["It is high."]},
    {"id": "two", "question": "Q?", "answer": "It is low.", "contexts": ["It is low."]},
]
SCORED = rm.rag_score(weights={"faithfulness": 1.0})
REPORT = rm.Suite(["faithfulness", SCORED]).evaluate(ROWS)
PLANNED = rm.Suite(
    ["faithfulness"], judge="openai:/gpt-4o-mini", api_key="none", prices={"input": 1, "output": 2}
).plan(ROWS)
COMPARISON = rm.compare(report_of(noisy(60), answer="<b>"), report_of(noisy(60, shift=-0.2, seed=1), answer="<b>"))


class _Balanced(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


CELLS = {
    "report": (REPORT, "rag_score"),
    "row": (REPORT.rows[0], "1 not in the passages"),
    "score": (REPORT.rows[0].scores["faithfulness"], "not in the passages"),
    "comparison": (COMPARISON, "regressed"),
    "power": (rm.power(COMPARISON, detect=0.03), "What the data can show"),
    "calibration": (rm.calibrate(report_of(noisy(40)), [n % 2 for n in range(40)], key="faithfulness"), "AUROC"),
    "plan": (PLANNED, "Nothing was sent"),
    "no plan": (rm.Suite(["rouge"]).plan([{"answer": "a", "reference": "a"}]), "is free"),
}


@pytest.mark.parametrize("name", CELLS)
def test_cells_are_whole_escaped_and_styled_for_both_themes(name: str) -> None:
    result, said = CELLS[name]
    shown = result._repr_html_()
    assert said in shown
    assert "<b>" not in shown
    assert "<i>new" not in shown
    assert "prefers-color-scheme: dark" in shown
    assert 'data-jp-theme-light="false"' in shown
    parser = _Balanced()
    parser.feed(shown)
    assert parser.open == []


def test_the_answer_of_a_row_is_marked_claim_by_claim() -> None:
    shown = REPORT.rows[0]._repr_html_()
    assert '<mark class="good" title="supported' in shown
    assert "It was &lt;i&gt;new&lt;/i&gt;.</mark>" in shown


def test_a_report_and_a_comparison_are_indexed_by_metric() -> None:
    assert REPORT["faithfulness"]["mean"] == REPORT.metrics["faithfulness/mean"]
    assert rm.compare(REPORT, REPORT)["faithfulness"].key == "faithfulness"
    with pytest.raises(InvalidOptionError, match="'two' is not a metric here; use one of faithfulness"):
        REPORT["two"]
