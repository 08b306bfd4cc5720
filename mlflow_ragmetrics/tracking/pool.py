"""How many workers an SQLite store bears: more than it has connections, and MLflow loses traces without a word."""

from __future__ import annotations

import os
import warnings

__all__ = ["warn_of_small_pool"]

_SAFE_WORKERS = 14
_WORKERS = "MLFLOW_GENAI_EVAL_MAX_WORKERS"
_POOL = "MLFLOW_SQLALCHEMYSTORE_POOL_SIZE"


def warn_of_small_pool() -> None:
    """Warn, with the two remedies, when the workers of ``mlflow.genai.evaluate`` outnumber a store's connections.

    Each worker that starts a trace holds one connection and waits for a second one: with 15 connections, the default
    of SQLAlchemy, 15 workers can wait for each other until all of them time out.
    """
    import mlflow

    if not mlflow.get_tracking_uri().startswith("sqlite") or os.environ.get(_POOL):
        return
    if int(os.environ.get(_WORKERS) or _default_workers()) > _SAFE_WORKERS:
        message = (
            "mlflow.genai.evaluate starts more workers than a SQLite store has connections, and then loses traces and "
            f"feedback; set {_WORKERS}=10 or {_POOL}=100 in the environment before the first use of the store"
        )
        warnings.warn(message, stacklevel=4)


def _default_workers() -> int:
    try:
        from mlflow.genai.evaluation import harness
    except ImportError:  # before MLflow 3.4 there was no harness of its own
        return 0
    return 40 if hasattr(harness, "_pool_size") else 10
