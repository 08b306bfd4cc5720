"""Before a run, all that is imported once; after it, how many inputs the fuzzing tried."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from tests.faults.budget import TRIED


@pytest.fixture(scope="session", autouse=True)
def warm() -> None:
    """Let no input's time be that of imports."""
    for name in dir(rm):
        with contextlib.suppress(rm.MissingExtraError):
            getattr(rm, name)
    row = {"question": "Who?", "answer": "A b c.", "reference": "A b.", "contexts": ["A b c."], "gold_doc_ids": ["a"]}
    report = rm.Suite.preset("full").evaluate([row, {**row, "question": "Why?"}])
    rm.compare(report, report, resamples=100)
    rm.calibrate(report, [1, 0], key="coherence")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line a fuzz test, and the sum."""
    if not TRIED:
        return
    terminalreporter.section("inputs tried")
    for name, count in sorted(TRIED.items()):
        terminalreporter.write_line(f"{count:>9,}  {name}")
    terminalreporter.write_line(f"{sum(TRIED.values()):>9,}  in all")
