"""The tables of a run, which MLflow shows. A large frame has a readable head, and is whole as Parquet parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.core.safe_text import as_json
from mlflow_ragmetrics.tracking.writer import Content, RunWriter

if TYPE_CHECKING:
    import pandas as pd

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
