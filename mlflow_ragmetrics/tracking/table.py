"""Tables that grow on disk, in the form of MLflow's ``log_table``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mlflow_ragmetrics.core.json_text import as_json

__all__ = ["GrowingTable"]


class GrowingTable:
    """Rows on disk, one per line, from which a table in the form of MLflow's ``log_table`` is made.

    Adding rows does not read those before: parsing a long table would hold up the whole interpreter.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.columns: list[str] = []
        self.rows = 0
        self._lines = folder / f"{name}.lines"
        self._lines.touch()

    def clear(self) -> None:
        """Take all rows out."""
        self.columns, self.rows = [], 0
        self._lines.write_text("")

    def extend_from(self, other: GrowingTable) -> None:
        """Add the rows of another table."""
        with other._lines.open(encoding="utf-8") as lines:
            self.extend(other.columns, map(json.loads, lines))

    def extend(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Add rows that have these columns; columns that the rows here or those rows lack are null there."""
        fresh = [name for name in columns if name not in self.columns]
        if fresh and self.rows:
            self._widen(len(fresh))
        self.columns += fresh
        places = {name: place for place, name in enumerate(columns)}
        self._add([row[places[name]] if name in places else None for name in self.columns] for row in rows)

    def mean(self, column: str) -> float | None:
        """The mean of the numbers in ``column``."""
        place, total, count = self.columns.index(column), 0.0, 0
        with self._lines.open(encoding="utf-8") as lines:
            for value in (json.loads(line)[place] for line in lines):
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    total, count = total + value, count + 1
        return total / count if count else None

    def write(self, path: Path) -> None:
        """Write the table as the file ``path``."""
        with path.open("w", encoding="utf-8") as target, self._lines.open(encoding="utf-8") as lines:
            target.write('{"columns": ' + as_json(self.columns) + ', "data": [\n')
            target.write(lines.readline())
            for line in lines:
                target.write("," + line)
            target.write("]}")

    def _add(self, rows: Iterable[Sequence[Any]]) -> None:
        with self._lines.open("a", encoding="utf-8") as lines:
            for row in rows:
                lines.write(as_json(row) + "\n")
                self.rows += 1

    def _widen(self, by: int) -> None:
        wider = self._lines.with_suffix(".wider")
        with self._lines.open(encoding="utf-8") as lines, wider.open("w", encoding="utf-8") as target:
            for line in lines:
                target.write(line.rstrip("\n").removesuffix("]") + ", null" * by + "]\n")
        shutil.move(wider, self._lines)
