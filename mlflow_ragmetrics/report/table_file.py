"""The table of rows as a file that is written while they come: JSON lines or Parquet."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from mlflow_ragmetrics.core.json_text import as_json
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.report.diagnosis import Diagnosis, diagnosis_columns
from mlflow_ragmetrics.report.tables import Layout
from mlflow_ragmetrics.tracking.tables import storable

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["TABLES", "TableFile"]

TABLES = (".jsonl", ".parquet")
"""The endings of files that are written while rows come."""

_ROWS = 1000
_ROW_GROUP = 8 * 2**20  # bytes: the file's footer, which stays in memory to the end, grows with each row group


class TableFile:
    """Rows go into the file a thousand at a time, with the columns of ``report.table``; none is kept.

    The file appears under its name by ``close``; ``discard`` leaves nothing. What the disk refuses is an ``OSError``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.with_name(f"{path.name}.partial")
        self._layout = Layout()
        self._rows: list[Row] = []
        self._diagnoses: list[Diagnosis] = []
        self._format: _Format = _Parquet(self._partial) if path.suffix.lower() == ".parquet" else _Lines(self._partial)

    def add(self, row: Row, diagnosis: Diagnosis | None = None) -> None:
        """Take one more row, with its diagnosis where the report has some."""
        self._rows.append(row)
        if diagnosis is not None:
            self._diagnoses.append(diagnosis)
        if len(self._rows) >= _ROWS:
            self._flush()

    def close(self) -> None:
        """Write what is left, and give the file its name."""
        self._flush()
        self._format.close()
        os.replace(self._partial, self._path)

    def discard(self) -> None:
        """Remove what was written, where the file has no name yet."""
        with suppress(OSError):
            self._format.end()
        with suppress(OSError):
            self._partial.unlink(missing_ok=True)

    def _flush(self) -> None:
        if self._rows:
            self._layout.add(self._rows)
            self._format.write(self._layout.frame(self._rows, diagnosis_columns(self._diagnoses)))
            self._rows, self._diagnoses = [], []


class _Format(Protocol):
    def write(self, frame: pd.DataFrame) -> None: ...
    def close(self) -> None: ...
    def end(self) -> None: ...


class _Lines:
    """A column that comes late is absent from the lines before, which reads as null."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("w", encoding="utf-8", newline="\n")

    def write(self, frame: pd.DataFrame) -> None:
        self._file.write(str(frame.to_json(orient="records", lines=True, force_ascii=False)).rstrip("\n") + "\n")

    def close(self) -> None:
        self._file.close()

    end = close


class _Parquet:
    """All rows have all columns: where one comes late, or of another type, what is there is written anew with it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._schema: pa.Schema | None = None
        self._writer: Any = None
        self._tables: list[pa.Table] = []

    def write(self, frame: pd.DataFrame) -> None:
        import pyarrow as pa

        table = pa.Table.from_pandas(storable(frame), preserve_index=False)
        known = self._schema
        if known is None:
            self._open(self._path, table.schema)
        elif (schema := _united(known, table.schema)) != known:
            self._rewrite(schema, table)
        self._tables.append(_fitted(table, self._schema))
        if sum(each.nbytes for each in self._tables) >= _ROW_GROUP:
            self._write_group()

    def close(self) -> None:
        self._write_group()
        self.end()

    def end(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

    def _open(self, path: Path, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._schema, self._writer = schema, pq.ParquetWriter(path, schema)

    def _write_group(self) -> None:
        import pyarrow as pa

        if self._tables:
            self._writer.write_table(pa.concat_tables(self._tables))
            self._tables = []

    def _rewrite(self, schema: pa.Schema, later: pa.Table) -> None:
        import pyarrow.parquet as pq

        self.close()
        before = self._path.with_name(f"{self._path.name}.before")
        os.replace(self._path, before)
        try:
            self._open(self._path, schema)
            with pq.ParquetFile(before) as written:
                for number in range(written.num_row_groups):
                    self._writer.write_table(_fitted(written.read_row_group(number), schema, later))
        finally:
            before.unlink(missing_ok=True)


def _united(known: pa.Schema, later: pa.Schema) -> pa.Schema:
    """The columns of ``later``, which has all of ``known``, each of the type that takes the values of both."""
    import pyarrow as pa

    types = {field.name: field.type for field in known}
    fields = [(each.name, _common(types.get(each.name, each.type), each.type)) for each in later]
    united = pa.schema(fields, later.metadata)
    return known if united.equals(known) else united


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(_common(one.value_type, other.value_type))
    numbers = (pa.types.is_integer, pa.types.is_floating)
    if all(any(test(each) for test in numbers) for each in (one, other)):
        return pa.float64()
    return pa.string()


def _fitted(table: pa.Table, schema: pa.Schema | None, later: pa.Table | None = None) -> pa.Table:
    """``table`` with the columns and types of ``schema``; what it lacks follows from what rows without it have."""
    import pyarrow as pa

    assert schema is not None
    columns = [
        _cast(table.column(field.name), field.type)
        if field.name in table.column_names
        else _before(field.name, field.type, table, later)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _before(name: str, kind: pa.DataType, table: pa.Table, later: pa.Table | None) -> Any:
    """A column of a score that came late: until then all that was scored was measured."""
    import pyarrow as pa

    key, _, trait = name.rpartition("_")
    if trait == "measured" and f"{key}_status" in table.column_names:
        return pa.array([status == "ok" for status in table.column(f"{key}_status").to_pylist()], kind)
    if trait == "better" and later is not None and f"{key}_status" in table.column_names:
        return pa.array([later.column(name)[0].as_py()] * table.num_rows, kind)
    return pa.nulls(table.num_rows, kind)


def _cast(column: Any, kind: pa.DataType) -> Any:
    import pyarrow as pa

    if column.type == kind:
        return column
    if kind == pa.string() and not pa.types.is_null(column.type):
        return pa.array(
            [each if each is None or isinstance(each, str) else as_json(each) for each in column.to_pylist()]
        )
    return column.cast(kind)
