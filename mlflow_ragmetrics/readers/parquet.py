"""Parquet, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mlflow_ragmetrics.errors import InvalidDataError, MissingExtraError

__all__ = ["read_parquet"]

_BATCH_ROWS = 1024


def read_parquet(file: Path) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file; nulls are missing values.

    Raises:
        InvalidDataError: where the file is no Parquet.
        MissingExtraError: without pyarrow.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(f"{file} needs pyarrow to be read: pip install pyarrow.") from error
    try:
        with pyarrow.parquet.ParquetFile(file) as table:
            for batch in table.iter_batches(batch_size=_BATCH_ROWS):
                yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:  # also texts that are not UTF-8
        raise InvalidDataError(f"{file} cannot be read as Parquet: {error}.") from error
