"""The services here have a store of their own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def mlflow_store() -> None:
    """No SQLite store for these tests."""
