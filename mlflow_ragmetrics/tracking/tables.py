"""The tables of a run, which MLflow shows: frames written whole, and tables that grow on disk while rows come.

A large frame has a readable head, and is whole as Parquet parts. A growing table holds the rows of all processes that
write into a live run. One that writes into it alone writes the tables itself. Each registers by a tag
``ragmetrics.part.<id>``, whose value says where its rows are: ``0`` nowhere yet, ``main:n`` in the tables, ``part:n``
in the folder ``ragmetrics_parts/<id>``. Before the tables are written anew, rows that are nowhere else are copied into
a part; after that the tags are read again, and where they have changed the tables are made once more. So whoever
writes last has seen all parts.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from mlflow_ragmetrics.core.json_text import as_json
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.tracking.writer import Content, RunWriter

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "LOST_TAG",
    "RECEIVED_TAG",
    "GrowingTable",
    "Parts",
    "Place",
    "left_unwritten",
    "storable",
    "table_json",
    "table_rows",
    "write_tables",
]

_LARGEST = 40 * 2**20  # bytes: MLflow shows files up to 50 MB
_HEAD = 1000
_ROWS_PER_CHUNK = 500
_ROWS_PER_PART = 50_000


def table_rows(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    """The rows of a frame, with ``None`` in empty cells."""
    return list(zip(*(_cells(frame[name]) for name in frame.columns), strict=True))


def table_json(frame: pd.DataFrame) -> str:
    """A frame in the form of MLflow's ``log_table`` artifacts: columns, and data row by row."""
    return as_json({"columns": list(frame.columns), "data": table_rows(frame)})


def write_tables(writer: RunWriter, frames: Mapping[str, pd.DataFrame]) -> dict[str, int]:
    """Write frames as tables by their file names; returns how many Parquet parts those have that are too large.

    Of a table of more than 40 MB, MLflow gets the first 1,000 rows; the whole is in the folder of its name,
    ``rag_rows/part-00000.parquet`` and so on. At no time is more than a part of it in memory as text.
    """
    parts: dict[str, int] = {}
    files: dict[str, Content] = {name: partial(_write, frame, parts) for name, frame in frames.items()}
    writer.files(files, tables=list(frames))
    return parts


def _write(frame: pd.DataFrame, parts: dict[str, int], path: Path) -> None:
    if _write_json(frame, path):
        return
    _write_json(frame.head(_HEAD), path)
    folder = path.with_suffix("")
    folder.mkdir()
    for number, part in enumerate(_chunks(frame, _ROWS_PER_PART)):
        storable(part).to_parquet(folder / f"part-{number:05}.parquet", index=False)
        parts[path.name] = number + 1


def _write_json(frame: pd.DataFrame, path: Path) -> bool:
    """Write the table; ``False`` where it grows too large on the way."""
    with path.open("w", encoding="utf-8", newline="\n") as target:
        target.write('{"columns": ' + as_json(list(frame.columns)) + ', "data": [')
        between = ""
        for chunk in _chunks(frame, _ROWS_PER_CHUNK):
            lines = as_json(table_rows(chunk))[1:-1]
            target.write(between + lines if lines else "")
            between = ",\n" if lines else between
            if target.tell() > _LARGEST and len(frame) > _HEAD:
                return False
        target.write("]}")
    return True


def _chunks(frame: pd.DataFrame, size: int) -> Iterator[pd.DataFrame]:
    return (frame.iloc[start : start + size] for start in range(0, len(frame), size))


def storable(frame: pd.DataFrame) -> pd.DataFrame:
    """With one type per column: of mixed ones, as a reference that is a text or a list of texts, all as JSON text."""
    import pyarrow as pa

    mixed: dict[str, Any] = {}
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        try:
            pa.array(column, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            mixed[name] = [value if value is None or isinstance(value, str) else as_json(value) for value in column]
    return frame.assign(**mixed) if mixed else frame


def _cells(column: pd.Series[Any]) -> list[Any]:
    cells: list[Any] = column.astype(object).where(column.notna(), None).tolist()
    return cells


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
        self._before = 0, 0

    def clear(self) -> None:
        """Take all rows out."""
        self.columns, self.rows = [], 0
        self._lines.write_text("")

    def extend_from(self, other: GrowingTable) -> None:
        """Add the rows of another table."""
        with other._lines.open(encoding="utf-8") as lines:
            self.extend(other.columns, map(json.loads, lines))

    def extend(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Add rows that have these columns, all or none; columns that those here or these lack are null there."""
        fresh = [name for name in columns if name not in self.columns]
        if fresh and self.rows:
            self._widen(len(fresh))
        self.columns += fresh
        places = {name: place for place, name in enumerate(columns)}
        self._before = self._lines.stat().st_size, self.rows
        try:
            self._add([row[places[name]] if name in places else None for name in self.columns] for row in rows)
        except BaseException:
            self.take_back()
            raise

    def take_back(self) -> None:
        """Take out again what was added last."""
        size, self.rows = self._before
        os.truncate(self._lines, size)

    def counts(self, column: str) -> Counter[str]:
        """How often each text stands in ``column``."""
        place = self.columns.index(column)
        with self._lines.open(encoding="utf-8") as lines:
            return Counter(value for value in (json.loads(line)[place] for line in lines) if isinstance(value, str))

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


_TAG = "ragmetrics.part."
RECEIVED_TAG = "ragmetrics.received."
LOST_TAG = "ragmetrics.lost."
_FOLDER = "ragmetrics_parts"
_BASE = "base"
_NOWHERE = "0"
_ROUNDS = 12


def left_unwritten(tags: Mapping[str, str]) -> int:
    """How many answers a live run with these tags lacks because their process was killed.

    Exact where a later process found its journal (``ragmetrics.lost.<id>``); where none did, as after the end of a
    container, those that had come when it last wrote (``ragmetrics.received.<id>``) and are not in the tables.
    """
    lost = sum(int(number) for name, number in tags.items() if name.startswith(LOST_TAG))
    received = {name.removeprefix(RECEIVED_TAG): int(n) for name, n in tags.items() if name.startswith(RECEIVED_TAG)}
    return lost + sum(n - int(tags.get(_TAG + part, _NOWHERE).rpartition(":")[2]) for part, n in received.items())


Tables = dict[str, "dict[str, Any] | None"]

Place = tuple[str, int]
"""Of a row: the part that it belongs to, and its number there."""


class Parts:
    """The part of this process among those of the run that ``writer`` writes into."""

    def __init__(self, writer: RunWriter, tables: Sequence[GrowingTable], folder: Path) -> None:
        self._writer = writer
        self._tables = tables
        self._folder = folder
        self.id = uuid4().hex[:8]
        self._others: dict[str, tuple[str, Tables]] = {}
        self._ever_in_main: set[str] = set()

    def register(self) -> Tables:
        """Say that this process writes here too; returns the run's tables as they are.

        Where it is alone, the rows that the run has already are taken over as its own.
        """
        for table in self._tables:  # an attempt that failed may have taken rows over
            table.clear()
        self._set(self.id, _NOWHERE)
        before = self._marks()
        stored = self._stored()
        after = self._marks()
        if stored[self._tables[0].name] is None or {*before.values(), *after.values()} - {_NOWHERE}:
            return stored
        if len(after) > 1:
            self._keep(_BASE, stored)
            return stored
        for table in self._tables:
            content = stored[table.name]
            if content is not None:
                table.extend(content["columns"], content["data"])
        self._set(self.id, f"main:{self._tables[0].rows}")
        if len(self._marks()) > 1:  # another process came in the meantime
            for table in self._tables:
                table.clear()
            self._keep(_BASE, stored)
            self._set(self.id, _NOWHERE)
        return stored

    def publish(self) -> GrowingTable | None:
        """Write the run's tables; returns the table of the rows of all processes where there are several.

        ``RagMetricsError`` where others write so much that it has to be tried again.
        """
        for attempt in range(_ROUNDS):
            marks = self._marks()
            if set(marks) <= {self.id} and not self._ever_in_main:
                self._set(self.id, f"main:{self._tables[0].rows}")
                self._write(self._tables)
                if set(self._marks()) <= {self.id}:
                    return None
                continue
            merged, marks = self._merge(marks)
            self._write(merged)
            if self._marks() == marks:
                return merged[0]
            time.sleep(random.uniform(0, 0.02 * (attempt + 1)))
        raise RagMetricsError("the tables are being written by other processes too")

    def held(self, places: Sequence[Place]) -> set[Place]:
        """Those of ``places`` whose rows are in the run, be it in the tables or in a part."""
        marks = self._marks()
        counts = {name: int(mark.rpartition(":")[2]) for name, mark in marks.items()}
        if any(marks.get(name, "").startswith("main:") for name, _ in places):  # said before the tables are written
            stored = self._stored()[self._tables[0].name]
            in_tables = len(stored["data"]) if stored is not None else 0
            counts |= {name: in_tables for name, mark in marks.items() if mark.startswith("main:")}
        return {(name, number) for name, number in places if number < counts.get(name, 0)}

    @property
    def received_tag(self) -> str:
        """The tag that says how many answers this process has for the run."""
        return f"{RECEIVED_TAG}{self.id}"

    def leave(self, *, is_whole: bool = True) -> None:
        """Take back what this process says of itself, where all answers that it has are written.

        That is how many they are, and, where no other process wrote any, the place of its rows.
        """
        tags = self._writer.present_tags()
        if not is_whole and self.received_tag in tags:
            return
        if self.received_tag in tags:
            self._writer.delete_tag(self.received_tag)
        marks = {name.removeprefix(_TAG): value for name, value in tags.items() if name.startswith(_TAG)}
        if set(marks) == {self.id} and marks[self.id].startswith("main:"):
            self._writer.delete_tag(_TAG + self.id)

    def _merge(self, marks: dict[str, str]) -> tuple[list[GrowingTable], dict[str, str]]:
        """The tables of all parts, each with its rows kept outside the tables, and the marks that they follow."""
        rows = self._tables[0].rows
        if marks.get(self.id) != f"part:{rows}":
            self._writer.files({self._path(self.id, table.name): table.write for table in self._tables})
            self._set(self.id, f"part:{rows}")
        in_main = {name for name, mark in marks.items() if mark.startswith("main:") and name != self.id}
        gone = {name for name in self._ever_in_main if name not in marks and _BASE not in marks}
        self._ever_in_main |= in_main
        for name in in_main | gone:
            stored = self._stored()
            if self._marks().get(name) != marks.get(name):
                continue
            if stored[self._tables[0].name] is not None:
                self._keep(name, stored)
            elif name in in_main:  # it was ended before it wrote them: what stands there from now on is not its own
                self._set(name, _NOWHERE)
        marks = self._marks()
        parts = [self._part(name, mark) for name, mark in sorted(marks.items(), key=_base_first) if name != self.id]
        merged = [GrowingTable(self._folder, f"all-{table.name}") for table in self._tables]
        for target, own in zip(merged, self._tables, strict=True):
            target.clear()
            for part in parts:
                content = part.get(own.name)
                if content is not None:
                    target.extend(content["columns"], content["data"])
            target.extend_from(own)
        return merged, marks

    def _part(self, name: str, mark: str) -> Tables:
        if not mark.startswith("part:"):
            return {}
        known = self._others.get(name)
        if known is None or known[0] != mark:
            content = {table.name: self._writer.table(self._path(name, table.name)) for table in self._tables}
            known = self._others[name] = (mark, content)
        return known[1]

    def _keep(self, name: str, stored: Mapping[str, Any]) -> None:
        """Make the tables as they are the part ``name``."""
        files = {self._path(name, each): as_json(content) for each, content in stored.items() if content is not None}
        self._writer.files(files)
        self._set(name, f"part:{len(stored[self._tables[0].name]['data'])}")

    def _write(self, tables: Sequence[GrowingTable]) -> None:
        names = [table.name for table in self._tables]
        files = {name: table.write for name, table in zip(names, tables, strict=True)}
        self._writer.files(files, tables=names)

    def _stored(self) -> Tables:
        return {table.name: self._writer.table(table.name) for table in self._tables}

    def _set(self, name: str, mark: str) -> None:
        self._writer.tags({_TAG + name: mark})

    def _marks(self) -> dict[str, str]:
        tags = self._writer.present_tags()
        return {name.removeprefix(_TAG): value for name, value in tags.items() if name.startswith(_TAG)}

    @staticmethod
    def _path(part: str, table: str) -> str:
        return f"{_FOLDER}/{part}/{table}"


def _base_first(entry: tuple[str, str]) -> tuple[bool, str]:
    return entry[0] != _BASE, entry[0]
