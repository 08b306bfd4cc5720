"""Cells that a spreadsheet would compute are quoted in CSV."""

from __future__ import annotations

import csv
from pathlib import Path

_ANSWERS = ['=HYPERLINK("http://x")', "+1", "-2+3", "@SUM(A1)", "\t=1", "\n=1", "＝1+1", "＠SUM(A1)", "plain = 1"]


def test_cells_that_begin_a_formula(ragmetrics, written, tmp_path: Path) -> None:
    rows = [{"question": "q", "answer": answer, "reference": "r"} for answer in _ANSWERS]
    done = ragmetrics("evaluate", written(rows), "-m", "rouge", "--no-log", "-o", "out.csv")
    assert done.exit_code == 0, done.output
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        found = [row["answer"] for row in csv.DictReader(file)]
    assert found == [*(f"'{answer}" for answer in _ANSWERS[:-1]), _ANSWERS[-1]]


def test_a_file_to_label_has_no_formula_and_its_ids_are_found_again(ragmetrics, written, tmp_path: Path) -> None:
    rows = [{"id": f"-{n}", "question": "q", "answer": each, "reference": "r"} for n, each in enumerate(_ANSWERS)]
    ragmetrics("evaluate", written(rows), "-m", "rouge", "--no-log", "-o", "out.parquet")
    done = ragmetrics("label", "out.parquet", "-o", "labels.csv")
    assert done.exit_code == 0, done.output
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert {row["answer"] for row in found} == {*(f"'{answer}" for answer in _ANSWERS[:-1]), _ANSWERS[-1]}
    with (tmp_path / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, found[0])
        writer.writeheader()
        writer.writerows({**row, "label": str(number % 2)} for number, row in enumerate(found))
    done = ragmetrics("calibrate", "out.parquet", "labels.csv")
    assert f"{len(_ANSWERS)} rows" in done.output
    assert "not labelled" not in done.output
