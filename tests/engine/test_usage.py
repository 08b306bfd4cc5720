"""The usage of an evaluation is its own, even if several threads share a suite."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.question import Outcome, Question, Rating
from mlflow_ragmetrics.core.score import Sample
from mlflow_ragmetrics.engine.program import Expenses, charged_to
from mlflow_ragmetrics.report import Report
from tests.judges.fake_models import dutiful
from tests.judges.rows import ROW


def test_threads_that_use_one_suite_each_see_their_own_calls() -> None:
    suite = rm.Suite(["correctness"], judge=rm.ChatJudge(dutiful(latency=0.02), prices={"input": 5.0, "output": 5.0}))
    reports: dict[int, Report] = {}

    def evaluate(rows: int) -> None:
        reports[rows] = suite.evaluate([{**ROW, "id": f"{rows}/{i}", "answer": f"{rows} {i}"} for i in range(rows)])

    threads = [threading.Thread(target=evaluate, args=(rows,)) for rows in (2, 5, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {rows: report.usage["calls"] for rows, report in reports.items()} == {2: 2, 5: 5, 9: 9}
    (judge,) = suite.judges
    spent = judge.usage.snapshot()
    assert spent["calls"] == 16
    assert sum(report.usage["cost"] for report in reports.values()) == pytest.approx(spent["cost"])


def test_a_caller_pays_for_its_own_rows_only() -> None:
    suite = rm.Suite(["correctness"], judge=rm.ChatJudge(dutiful()))
    expenses = Expenses()
    with charged_to(expenses):
        rows = suite.score_samples([Sample(id="1", answer="A.", references=("B.",))])
        next(rows)
    suite.evaluate([ROW])
    assert expenses.usage(0.0)["calls"] == 1
    assert Expenses().usage(1.5) == {"cached": 0.0, "wall_seconds": 1.5}


class Metered(rm.Judge):
    """A custom judge with a meter that does not separate callers."""

    name = "metered"

    def __init__(self) -> None:
        self.usage = self
        self.asked = 0

    def snapshot(self) -> dict[str, float]:
        return {"calls": float(self.asked)}

    def answer(self, questions: Sequence[Question[Any]]) -> list[Outcome]:
        self.asked += len(questions)
        return [Rating(4) for _ in questions]


def test_a_meter_that_knows_no_callers_is_read_before_and_after() -> None:
    suite = rm.Suite(["correctness"], judge=Metered())
    assert [suite.evaluate([{**ROW, "answer": text}] * 2).usage["calls"] for text in ("A.", "B.")] == [1, 1]
