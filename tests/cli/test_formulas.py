"""Cells that a spreadsheet would compute are quoted in CSV."""

from __future__ import annotations

import csv
from pathlib import Path

_ANSWERS = ['=HYPERLINK("http://x")', "+1", "-2+3", "@SUM(A1)", "\t=1", "plain = 1"]


def test_cells_that_begin_a_formula(ragmetrics, written, tmp_path: Path) -> None:
    rows = [{"question": "q", "answer": answer, "reference": "r"} for answer in _ANSWERS]
    done = ragmetrics("evaluate", written(rows), "-m", "rouge", "--no-log", "-o", "out.csv")
    assert done.exit_code == 0, done.output
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        found = [row["answer"] for row in csv.DictReader(file)]
    assert found == [*(f"'{answer}" for answer in _ANSWERS[:5]), _ANSWERS[5]]
