"""Each example makes a store of its own, in the folder in which it runs."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def mlflow_store() -> None:
    """No SQLite store for these tests."""
