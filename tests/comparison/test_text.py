from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Item, Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.results.results import results_of, stored

from .reports import ALIKE, report_of


@pytest.fixture(scope="module")
def comparison() -> rm.Comparison:
    suite = rm.Suite(["coherence", "lexical_relevance"])
    older = [{"id": str(n), "question": "red cats", "answer": f"Cats {n}."} for n in range(12)]
    newer = [{**row, "answer": "Red cats sleep."} for row in older]
    return rm.compare(suite.evaluate(older, progress=False), suite.evaluate(newer, progress=False))


def _heads(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("metric"))


def test_a_narrow_table_keeps_what_decides(comparison: rm.Comparison) -> None:
    text = comparison.to_text(80)
    assert all(len(line) <= 80 for line in text.splitlines() if line.startswith(("metric ", "coherence ")))
    assert {"A", "B", "B−A", "interval", "verdict"} <= set(_heads(text).split())
    assert "needed" not in _heads(text)


def test_the_heading_says_which_side_is_which() -> None:
    values = [0.5] * 12
    a, b = results_of(report_of(values)), results_of(report_of(values))
    named = rm.compare(a.named("baseline"), b.named("candidate"), resamples=100)
    assert str(named).splitlines()[0] == "candidate (B) against baseline (A): 12 rows paired by id, tolerance 0.05"
    assert rm.compare(report_of(values), report_of(values), resamples=100).title == "B against A"
    assert rm.compare(a.named("run"), b.named("run"), resamples=100).title == "run (B) against run (A)"


def changed(items: int, **fields: Any) -> rm.Comparison:
    """One row that changed, with ``items`` claims and a chunk whose verdicts changed; eleven that did not."""
    claims = [tuple(Item("claim", f"c{n}", verdict) for n in range(items)) for verdict in ("SUPPORTED", "NEUTRAL")]
    chunks = [(Item("chunk", "p", "RELATED"),), (Item("chunk", "p", "UNRELATED"),)]
    a, b = (
        report_of([value, *[0.5] * 11], items=[claims[side] + chunks[side], *[()] * 11], answer=answer)
        for side, (value, answer) in enumerate(((0.9, "old"), (0.4, "new")))
    )
    return replace(rm.compare(a, b, resamples=200), **fields)


CHANGED = """\
The row that changed most
Beside an id stands the row’s mean change over all metrics (above 0: better).
A → B; “not in B” is a claim that only A makes. The page and Markdown also show answers and passages.

0 -0.500  question 0
    faithfulness 0.900 → 0.400
    supported → not in the passages (claim): “c0”
    supported → not in the passages (claim): “c1”
    supported → not in the passages (claim): “c2”
    … and 2 more"""


def test_a_changed_row_shows_few_items_in_a_terminal_and_more_elsewhere() -> None:
    text = changed(5).to_text()
    assert text[text.index("The row that") :] == CHANGED
    assert " more" not in changed(3).to_text()
    lines = changed(8).to_markdown().split("<details>")[1].splitlines()
    assert [line.strip() for line in lines if "old" in line or "new" in line] == ["- **A**: old 0", "- **B**: new 0"]
    assert sum("(claim)" in line for line in lines) + sum("(chunk)" in line for line in lines) == 8
    assert any("… and 1 more" in line for line in lines)
    assert not any("more" in line for line in changed(7).to_markdown().splitlines())
    assert lines[0] == "<summary>1 row that changed most</summary>"


def test_notes_name_the_metrics_whose_lower_values_are_better_and_rows_may_lack_a_score_on_one_side() -> None:
    def report(value: float | None, other: float) -> Report:
        scores = {
            "m": Score(value),
            "low": Score(other, higher_is_better=False),
            "free": Score(other, higher_is_better=None),
        }
        same = {"m": Score(0.5), "low": Score(0.5, higher_is_better=False), "free": Score(0.5, higher_is_better=None)}
        rows = [Row(Sample(id=str(n), question="q"), same if n else scores, n) for n in range(7)]
        return Report(rows, description={**ALIKE, "metrics": ["free", "low", "m"]})

    found = rm.compare(report(None, 0.9), report(0.5, 0.4), resamples=200)
    assert {"lower is better: low", "neither direction is better: free"} <= set(found.notes)
    text = found.to_text()
    assert "m – → 0.500, low 0.900 → 0.400, free 0.900 → 0.400" in text
    marked = found.to_html()
    assert '<span class="good">low 0.900 → 0.400</span>' in marked
    assert '<span class="good">m –' not in marked
    assert '<span class="bad">m –' not in marked


def test_a_slice_has_the_difference_of_its_own_rows() -> None:
    kinds = ["few"] * 6 + ["many"] * 18
    a, b = (results_of(report_of(values)) for values in ([0.5] * 24, [0.9] * 6 + [0.6] * 18))
    table = a.table.assign(kind=kinds)
    found = rm.compare(stored("A", table, a.items), stored("B", b.table.assign(kind=kinds), b.items), resamples=200)
    figures = found.by("kind").set_index("slice")
    assert figures["paired_mean_b"].round(9).to_dict() == {"few": 0.9, "many": 0.6}
    assert (figures["rows"].to_dict(), figures["mark"].to_dict()) == (
        {"few": 6, "many": 18},
        {"few": "few rows", "many": ""},
    )


def test_a_table_of_slices_marks_few_rows_and_cuts_no_name() -> None:
    name = "a slice with a long name"
    sides = [report_of(values) for values in ([0.5] * 12, [0.6] * 12)]
    a, b = (stored("side", each.table.assign(kind=name), each.items) for each in sides)
    text = rm.compare(a, b, resamples=200).slices_text("kind")
    assert text.splitlines()[2].startswith(name)
