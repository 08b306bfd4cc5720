"""The committed figures of docs/data/benchmarks.json as tables, with the command and the date of each."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from making import costs
from making.text import table

__all__ = ["TABLES", "filled", "for_metric", "shown"]

DATA = Path(__file__).parents[1] / "data" / "benchmarks.json"
TABLES: dict[str, dict[str, Any]] = json.loads(DATA.read_text(encoding="utf-8"))
_MARK = re.compile(r"^<!-- table: (\w+) -->$", re.MULTILINE)


def filled(text: str) -> str:
    """``text`` with the table that each ``<!-- table: name -->`` names; ``cost`` is counted, others are committed."""
    return _MARK.sub(lambda found: costs.of_presets() if found[1] == "cost" else shown(found[1]), text)


def shown(name: str) -> str:
    """One table: its figures, and below it how it is made and when it was; a sentence where nothing was measured."""
    if name not in TABLES:
        return "No figures are committed yet."
    found = TABLES[name]
    return f"{table(found['columns'], _cells(found, found['rows']))}\n\n{_made(found)}"


def for_metric(metric: str) -> str:
    """The rows of all tables that speak of a metric, under the same headings; empty where there is none."""
    parts = []
    for found in TABLES.values():
        rows = [row for row in found["rows"] if metric in row.get("metrics", ())]
        if rows:
            parts.append(f"{table(found['columns'], _cells(found, rows))}\n\n{_made(found)}")
    return "\n\n".join(parts)


def _cells(found: dict[str, Any], rows: list[dict[str, Any]]) -> list[list[str]]:
    return [[str(row.get(column, "")) for column in found["columns"]] for row in rows]


def _made(found: dict[str, Any]) -> str:
    return f"{found['about']} Made by `{found['command']}`, {found['date']}."
