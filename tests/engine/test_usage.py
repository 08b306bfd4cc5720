"""What one evaluation cost is its own, also where several threads use one suite."""

from __future__ import annotations

import threading

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.report.report import Report
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
    assert suite.spent["calls"] == 16
    assert sum(report.usage["cost"] for report in reports.values()) == pytest.approx(suite.spent["cost"])
