from __future__ import annotations

from dataclasses import replace

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.rows.results import results_of

from .reports import report_of


@pytest.fixture(scope="module")
def comparison() -> rm.Comparison:
    suite = rm.Suite(["coherence", "lexical_relevance"])
    older = [{"id": str(n), "question": "red cats", "answer": f"Cats {n}."} for n in range(8)]
    newer = [{**row, "answer": "Red cats sleep."} for row in older]
    return rm.compare(suite.evaluate(older, progress=False), suite.evaluate(newer, progress=False))


def _heads(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("metric"))


def test_without_a_width_every_figure_is_there(comparison: rm.Comparison) -> None:
    assert str(comparison) == comparison.to_text()
    assert {"won/tied/lost", "needed", "d_z", "verdict"} <= set(_heads(str(comparison)).split())


def test_a_narrow_table_keeps_what_decides(comparison: rm.Comparison) -> None:
    text = comparison.to_text(80)
    assert all(len(line) <= 80 for line in text.splitlines() if line.startswith(("metric ", "coherence ")))
    assert {"A", "B", "B−A", "interval", "verdict"} <= set(_heads(text).split())
    assert "d_z" not in _heads(text)


def test_a_wide_terminal_loses_nothing(comparison: rm.Comparison) -> None:
    assert comparison.to_text(200) == comparison.to_text()


def test_the_heading_says_which_side_is_which() -> None:
    values = [0.5] * 8
    a, b = results_of(report_of(values)), results_of(report_of(values))
    named = rm.compare(replace(a, name="baseline"), replace(b, name="candidate"), resamples=100)
    assert str(named).splitlines()[0] == "candidate (B) against baseline (A): 8 rows paired by id, tolerance 0.05"
    assert rm.compare(report_of(values), report_of(values), resamples=100).title == "B against A"
    assert rm.compare(replace(a, name="run"), replace(b, name="run"), resamples=100).title == "run (B) against run (A)"
