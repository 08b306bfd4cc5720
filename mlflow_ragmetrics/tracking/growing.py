"""A table that rows are added to for as long as an application runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlflow_ragmetrics.tracking.plain import as_json

__all__ = ["GrowingTable"]


class GrowingTable:
    """Rows on disk, one a line, from which a table in the form of MLflow's ``log_table`` is made.

    Adding rows does not read those before: parsing a long table would hold up the whole interpreter.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.columns: list[str] = []
        self.rows = 0
        self._lines = folder / f"{name}.lines"
        self._lines.touch()

    def extend(self, table: Mapping[str, Any]) -> None:
        """Add the rows of ``table`` (``columns`` and ``data``); columns that one of the sides lacks are null there."""
        fresh = [name for name in table["columns"] if name not in self.columns]
        if fresh and self.rows:
            self._widen(len(fresh))
        self.columns += fresh
        places = {name: place for place, name in enumerate(table["columns"])}
        self._add([row[places[name]] if name in places else None for name in self.columns] for row in table["data"])

    def write(self, folder: Path) -> None:
        """Write the table as the file ``name`` in ``folder``."""
        with (folder / self.name).open("w", encoding="utf-8") as target, self._lines.open(encoding="utf-8") as lines:
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
