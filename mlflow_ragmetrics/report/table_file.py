"""The table of rows as a file that is written while they come: JSON lines or Parquet."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.core.safe_text import as_json
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.report.marks import Diagnosis, diagnosis_columns
from mlflow_ragmetrics.rows.tables import Layout
from mlflow_ragmetrics.tracking.writer import storable, table_rows

if TYPE_CHECKING:
    import pyarrow as pa


TABLES = (".jsonl", ".parquet")
"""The endings of files that are written while rows come."""

_ROWS = 1000
_ROW_GROUP = 8 * 2**20  # bytes: the file's footer, which stays in memory to the end, grows with each row group


class TableFile:
    """Rows go into the file a thousand at a time, with the columns of ``report.table``; none is kept.

    The lines of a Parquet file are JSON until ``close``, when all columns and their types are known. The file appears
    under its name by ``close``; ``discard`` leaves nothing. What the disk refuses is an ``OSError``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.with_name(f"{path.name}.partial")
        self._lines = self._partial.open("w", encoding="utf-8", newline="\n")
        self._layout = Layout()
        self._schema: pa.Schema | None = None
        self._rows: list[Row] = []
        self._diagnoses: list[Diagnosis] = []

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
        self._lines.close()
        if self._path.suffix.lower() == ".parquet":
            self._convert()
        os.replace(self._partial, self._path)

    def discard(self) -> None:
        """Remove what was written, where the file has no name yet."""
        with suppress(OSError):
            self._lines.close()
        for name in (self._partial, self._columnar):
            with suppress(OSError):
                name.unlink(missing_ok=True)

    @property
    def _columnar(self) -> Path:
        return self._path.with_name(f"{self._path.name}.partial.parquet")

    def _flush(self) -> None:
        if not self._rows:
            return
        self._layout.add(self._rows)
        frame = self._layout.frame(self._rows, diagnosis_columns(self._diagnoses))
        names = list(frame.columns)
        self._lines.writelines(as_json(dict(zip(names, row, strict=True))) + "\n" for row in table_rows(frame))
        if self._path.suffix.lower() == ".parquet":
            import pyarrow as pa

            schema = pa.Schema.from_pandas(storable(frame), preserve_index=False)
            self._schema = _united(self._schema or pa.schema([]), schema)
        self._rows, self._diagnoses = [], []

    def _convert(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pa.schema([]) if self._schema is None else self._schema
        with pq.ParquetWriter(self._columnar, schema) as writer, self._partial.open(encoding="utf-8") as lines:
            gathered: list[pa.Table] = []
            while records := [_fitted(json.loads(line), schema) for line in islice(lines, _ROWS)]:
                gathered.append(pa.Table.from_pylist(records, schema))
                if sum(table.nbytes for table in gathered) >= _ROW_GROUP:
                    writer.write_table(pa.concat_tables(gathered))
                    gathered = []
            if gathered:
                writer.write_table(pa.concat_tables(gathered))
        os.replace(self._columnar, self._partial)


def _united(known: pa.Schema, later: pa.Schema) -> pa.Schema:
    """The columns of ``later``, which has all of ``known``, each of the type that takes the values of both."""
    import pyarrow as pa

    fields = []
    for field in later:
        if pa.types.is_large_string(field.type):  # as pandas may have texts
            field = field.with_type(pa.string())
        try:
            there = [pa.schema([known.field(field.name)])] if field.name in known.names else []
            fields.append(pa.unify_schemas([*there, pa.schema([field])], promote_options="permissive").field(0))
        except pa.ArrowTypeError:
            fields.append(pa.field(field.name, pa.string()))
    return pa.schema(fields, later.metadata)


def _fitted(record: dict[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """A line with all columns: until the first score that was not measured, all that was scored was measured."""
    import pyarrow as pa

    for field in schema:
        value = record.get(field.name)
        if field.type == pa.string() and value is not None and not isinstance(value, str):
            record[field.name] = as_json(value)
        elif field.name.endswith("_measured") and field.name not in record:
            record[field.name] = record.get(f"{field.name.removesuffix('_measured')}_status") == "ok"
    return record
