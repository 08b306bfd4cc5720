"""Imports everything before a run, and reports the number of fuzzed inputs after it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import MissingExtraError
from tests.faults.budget import TRIED


@pytest.fixture(scope="session", autouse=True)
def warm() -> None:
    """Keeps the time of imports out of the first input's time."""
    for name in dir(rm):
        with contextlib.suppress(MissingExtraError):
            getattr(rm, name)
    row = {"question": "Who?", "answer": "A b c.", "reference": "A b.", "contexts": ["A b c."], "gold_doc_ids": ["a"]}
    report = rm.Suite.preset("full").evaluate([row, {**row, "question": "Why?"}])
    rm.compare(report, report, resamples=100)
    rm.calibrate(report, [1, 0], key="coherence")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fuzzing and faults take minutes: they run only with ``-m faults``, as in CI."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.faults)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints one line per fuzz test, and the total."""
    if not TRIED:
        return
    terminalreporter.section("inputs tried")
    for name, count in sorted(TRIED.items()):
        terminalreporter.write_line(f"{count:>9,}  {name}")
    terminalreporter.write_line(f"{sum(TRIED.values()):>9,}  in all")
