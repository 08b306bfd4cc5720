"""Writers of the same rows into each container that is read."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

Rows = list[dict[str, Any]]


def json_cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value


def _delimited(delimiter: str, cell: Callable[[Any], Any]) -> Callable[[Rows, Path], Any]:
    def write(rows: Rows, folder: Path) -> Path:
        path = folder / ("rows.csv" if delimiter == "," else "rows.tsv")
        with open(path, "w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]), delimiter=delimiter, quoting=csv.QUOTE_ALL)
            writer.writeheader()
            writer.writerows({name: cell(value) for name, value in row.items()} for row in rows)
        return path

    return write


def _lines(rows: Rows, folder: Path) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _json(rows: Rows, folder: Path) -> Path:
    path = folder / "rows.json"
    path.write_text(json.dumps({"data": rows}), encoding="utf-8")
    return path


def _arrow_table(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(rows)


def _parquet(rows: Rows, folder: Path) -> Path:
    path = folder / "rows.parquet"
    pq.write_table(_arrow_table(rows), path)
    return path


def _arrow(rows: Rows, folder: Path) -> Path:
    path, table = folder / "rows.arrow", _arrow_table(rows)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return path


def _pandas_csv(rows: Rows, folder: Path) -> Path:
    path = folder / "frame.csv"
    # before Python 3.13 "\r" is not quoted if lines end with "\n", and then no reader recovers the rows
    has_returns = any("\r" in value for row in rows for value in row.values() if isinstance(value, str))
    ends = "\r\n" if has_returns else "\n"
    pd.DataFrame(rows).to_csv(path, index=False, lineterminator=ends)  # lists and mappings in Python syntax
    return path


def parquet_to_csv(rows: Rows, folder: Path) -> Path:
    path = folder / "printed.csv"
    pd.read_parquet(_parquet(rows, folder)).to_csv(path, index=False)  # lists as NumPy prints them
    return path


def _mlflow_table(rows: Rows, folder: Path) -> Path:
    with mlflow.start_run() as run:
        mlflow.log_table(pd.DataFrame(rows, dtype=object), "rows.json")
    return Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path="rows.json"))


CONTAINERS: dict[str, Callable[[Rows, Path], Any]] = {
    "frame": lambda rows, folder: pd.DataFrame(rows),
    "object frame": lambda rows, folder: pd.DataFrame(rows, dtype=object),
    "jsonl": _lines,
    "json": _json,
    "csv": _delimited(",", json_cell),
    "tsv": _delimited("\t", json_cell),
    "python csv": _delimited(",", lambda value: value if value is None else str(value)),
    "pandas csv": _pandas_csv,
    "parquet": _parquet,
    "parquet frame": lambda rows, folder: pd.read_parquet(_parquet(rows, folder)),
    "arrow": _arrow,
    "arrow table": lambda rows, folder: _arrow_table(rows),
    "mlflow dataset": lambda rows, folder: mlflow.data.from_pandas(pd.DataFrame(rows)),
    "mlflow table": _mlflow_table,
}
