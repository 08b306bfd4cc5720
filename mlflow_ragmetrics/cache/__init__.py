"""Where judges' answers are kept between runs."""

from __future__ import annotations

from pathlib import Path

from mlflow_ragmetrics.engine.questions import Store

__all__ = ["open_store"]


def open_store(path: str | Path | None) -> Store | None:
    """The SQLite store at ``path``, made where it is not there yet; ``None`` stores nothing."""
    if path is None:
        return None
    from mlflow_ragmetrics.cache.sqlite import SQLiteStore

    return SQLiteStore(path)
