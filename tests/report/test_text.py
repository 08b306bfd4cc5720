"""Text tables: aligned by rich, narrowed by whole columns, never cut."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from mlflow_ragmetrics.report.text import number, signed, text_table

COLUMNS = {
    "metric": ["faithfulness", "語彙"],
    "mean": ["0.912", "–"],
    "rows": ["60", "7"],
    "verdict": ["improved", "too few rows to tell"],
}


def _table(width: int | None) -> list[str]:
    return text_table(COLUMNS, width, left=("metric", "verdict"), droppable=("rows", "mean")).splitlines()


def test_figures_are_aligned_right_and_texts_left_also_where_characters_are_wide() -> None:
    assert _table(None) == [
        "metric         mean  rows  verdict",
        "─" * 47,
        "faithfulness  0.912    60  improved",
        "語彙              –     7  too few rows to tell",
    ]


@pytest.mark.parametrize(
    ("width", "heads"),
    [
        (47, ["metric", "mean", "rows", "verdict"]),
        (46, ["metric", "mean", "verdict"]),
        (41, ["metric", "mean", "verdict"]),
        (40, ["metric", "verdict"]),
        (10, ["metric", "verdict"]),
    ],
)
def test_columns_go_one_by_one_until_the_rest_fits(width: int, heads: list[str]) -> None:
    lines = _table(width)
    assert lines[0].split() == heads
    assert max(map(cell_len, lines)) <= max(width, 34)
    assert lines[-1].endswith("too few rows to tell")


def test_text_of_others_is_neither_markup_nor_emoji() -> None:
    assert "[red]:smile:[/red]" in text_table({"a": ["[red]:smile:[/red]"]}, left=("a",), droppable=())


def test_figures_and_dashes() -> None:
    assert (number(0.12345), number(0.5, 1), number(None)) == ("0.123", "0.5", "–")
    assert (signed(0.1), signed(-0.1), signed(None)) == ("+0.100", "-0.100", "–")
