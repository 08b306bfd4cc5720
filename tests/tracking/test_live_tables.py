"""A growing table holds what was added, whatever the columns and the texts."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.tracking.live_tables import GrowingTable

CELLS = st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")) | st.integers(-9, 9)
TABLES = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True).flatmap(
    lambda columns: st.lists(st.lists(CELLS, min_size=len(columns), max_size=len(columns)), max_size=3).map(
        lambda rows: {"columns": columns, "data": rows}
    )
)


@given(st.lists(TABLES, max_size=4))
def test_it_holds_what_was_added(tables: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        grown = GrowingTable(Path(name), "table.json")
        for table in tables:
            grown.extend(table["columns"], table["data"])
        grown.write(Path(name, "table.json"))
        written = json.loads(Path(name, "table.json").read_text(encoding="utf-8"))

    records = [dict(zip(table["columns"], row, strict=True)) for table in tables for row in table["data"]]
    assert [dict(zip(written["columns"], row, strict=True)) for row in written["data"]] == [
        {column: record.get(column) for column in written["columns"]} for record in records
    ]
    assert grown.rows == len(records)
