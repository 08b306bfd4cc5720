"""MLflow in tests: stores open, write and flush quickly, since each test has a store of its own."""

from __future__ import annotations

import queue
import sqlite3
from functools import lru_cache
from typing import Any

_engines: list[Any] = []


def quicken_mlflow() -> None:
    """Remove the waits and repeated work of MLflow's SQLite stores and of its queue of traces in this process."""
    import sqlalchemy
    from mlflow.store.db import utils
    from mlflow.tracing.export import async_export_queue

    async_export_queue.Queue = _EagerQueue  # type: ignore[misc]
    # each store that is opened would read all of MLflow's migrations again
    utils._get_latest_schema_revision = lru_cache(utils._get_latest_schema_revision)
    first = sqlalchemy.create_engine("sqlite://", query_cache_size=5_000)
    first.connect().close()
    create = sqlalchemy.create_engine

    def create_engine(*given: Any, **options: Any) -> sqlalchemy.Engine:
        """Create an engine that shares its compiled statements with all others: they depend on the dialect only."""
        engine = create(*given, **options)
        if engine.dialect.name == "sqlite":
            engine.dialect, engine._compiled_cache = first.dialect, first._compiled_cache
            _engines.append(engine)
            sqlalchemy.event.listen(engine, "connect", _without_waiting_for_the_disk)
        return engine

    sqlalchemy.create_engine = create_engine


def close_stores() -> None:
    """Close the connections that MLflow keeps open for the rest of the process, which run out of file descriptors."""
    while _engines:
        _engines.pop().dispose()


def _without_waiting_for_the_disk(connection: sqlite3.Connection, _: object) -> None:
    connection.execute("PRAGMA synchronous=OFF")


class _EagerQueue(queue.Queue[Any]):
    """MLflow's queue of traces. Each flush waits until its reader's ``get`` times out, by default after a second."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        return super().get(block, timeout and min(timeout, 0.02))
