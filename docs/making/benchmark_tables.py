"""The committed figures of docs/data/benchmarks.json as tables, with the command and the date of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from making import costs
from making.text import table

__all__ = ["TABLES", "for_metric", "shown"]

DATA = Path(__file__).parents[1] / "data" / "benchmarks.json"
LINKS = {
    "judged": "agreement-with-people-a-strong-language-model",
    "agreement": "agreement-with-people-the-offline-judge",
}
TABLES: dict[str, dict[str, Any]] = json.loads(DATA.read_text(encoding="utf-8"))


def shown(name: str) -> str:
    """A table of figures, followed by how and when they were measured; ``cost`` is counted now."""
    if name == "cost":
        return costs.of_presets()
    found = TABLES[name]
    made = f"{found['about']} Made by `{found['command']}`, {found['date']}."
    return f"{table(found['columns'], _cells(found['columns'], found['rows']))}\n\n{made}"


def for_metric(metric: str) -> str:
    """The rows about a metric in the two tables of agreement with people; empty if there are none."""
    parts = []
    for name, judge in (("judged", "With a strong language model as judge"), ("agreement", "With the offline judge")):
        columns = TABLES[name]["columns"]
        rows = [row for row in TABLES[name]["rows"] if metric in row.get("metrics", ())]
        if rows:
            link = f"../benchmarks/index.md#{LINKS[name]}"
            parts += [f"{judge} ([how it was measured]({link})):", table(columns, _cells(columns, rows))]
    return "\n\n".join(parts)


def _cells(columns: list[str], rows: list[dict[str, Any]]) -> list[list[str]]:
    return [[str(row.get(column, "")) for column in columns] for row in rows]
