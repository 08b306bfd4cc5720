"""Each example creates its own store in the folder where it runs."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def mlflow_store() -> None:
    """No SQLite store for these tests."""
