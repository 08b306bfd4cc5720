from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from .conftest import Run, Write

Rows = list[dict[str, Any]]


def test_gates_are_written_as_junit(ragmetrics: Run, written: Write, rows: Rows, tmp_path: Path) -> None:
    limits = ("--fail-under", "faithfulness=0.99", "--min-scored", "correctness=0.5")
    files = ("--junit", "gates.xml", "--no-log")
    result = ragmetrics("evaluate", written(rows), "-m", "faithfulness", "-m", "correctness", *limits, *files)
    assert result.exit_code == 1
    (gates,) = ElementTree.fromstring((tmp_path / "gates.xml").read_text(encoding="utf-8"))
    assert (gates.get("tests"), gates.get("failures")) == ("2", "1")
    lines = [line for line in result.output.splitlines() if "Gate" in line]
    assert [line[:40] for line in lines] == [
        "Gate failed: faithfulness/mean = 0.7500 ",
        "Gate passed: correctness: 2 of 2 rows we",
    ]


@pytest.mark.parametrize("option", [("--min-scored", "2"), ("--junit", "no/where.xml")])
def test_what_cannot_be_gated_is_refused_before_anything_is_scored(
    ragmetrics: Run, written: Write, rows: Rows, option: tuple[str, str]
) -> None:
    result = ragmetrics("evaluate", written(rows), "-m", "faithfulness", "--no-log", *option)
    assert result.exit_code == 2
    assert "faithfulness  " not in result.output
