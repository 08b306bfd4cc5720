"""Writes the table of rows to a JSON Lines or Parquet file while they are scored."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.core.safe_text import as_json
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.results.marks import Diagnosis, diagnosis_columns
from mlflow_ragmetrics.results.results import SUITE_METADATA
from mlflow_ragmetrics.results.tables import Layout
from mlflow_ragmetrics.tracking.writer import storable, table_rows

if TYPE_CHECKING:
    import pyarrow as pa


TABLES = (".jsonl", ".parquet")
"""Suffixes of the files that are written row by row."""

_ROWS = 1000
_ROW_GROUP = 8 * 2**20  # bytes: each row group adds to the file's footer, which stays in memory


class TableFile:
    """Writes rows a thousand at a time, with the columns of ``report.table``, and keeps none in memory.

    ``close`` converts the rows of a Parquet file, stored as JSON until then, once all columns and types are known. It
    also gives the file its name; ``discard`` removes the file. A failing disk raises ``OSError``.
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
        """Add a row, with its diagnosis if the report has diagnoses."""
        self._rows.append(row)
        if diagnosis is not None:
            self._diagnoses.append(diagnosis)
        if len(self._rows) >= _ROWS:
            self._flush()

    def close(self, suite: str) -> None:
        """Write the remaining rows and give the file its name; a Parquet file also describes its ``suite`` (JSON)."""
        self._flush()
        self._lines.close()
        if self._path.suffix.lower() == ".parquet":
            self._convert(suite)
        os.replace(self._partial, self._path)

    def discard(self) -> None:
        """Remove the partial file."""
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

    def _convert(self, suite: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pa.schema([]) if self._schema is None else self._schema
        schema = schema.with_metadata({**(schema.metadata or {}), SUITE_METADATA: suite.encode()})
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
    """The columns of ``later``, which include those of ``known``, each with a type that fits both."""
    import pyarrow as pa

    fields = []
    for field in later:
        if pa.types.is_large_string(field.type):  # pandas may use it for texts
            field = field.with_type(pa.string())
        try:
            there = [pa.schema([known.field(field.name)])] if field.name in known.names else []
            fields.append(pa.unify_schemas([*there, pa.schema([field])], promote_options="permissive").field(0))
        except pa.ArrowTypeError:
            fields.append(pa.field(field.name, pa.string()))
    return pa.schema(fields, later.metadata)


def _fitted(record: dict[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """A record with all columns; records without ``_measured`` precede the first unmeasured score."""
    import pyarrow as pa

    for field in schema:
        value = record.get(field.name)
        if field.type == pa.string() and value is not None and not isinstance(value, str):
            record[field.name] = as_json(value)
        elif field.name.endswith("_measured") and field.name not in record:
            record[field.name] = record.get(f"{field.name.removesuffix('_measured')}_status") == "ok"
    return record
