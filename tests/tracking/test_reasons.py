"""A store's refusal as one sentence."""

from __future__ import annotations

import pytest
from mlflow.exceptions import MlflowException

from mlflow_ragmetrics.tracking.writer import reason_of


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("(sqlite3.OperationalError) database is locked\n[SQL: INSERT INTO runs …]\n[parameters: ('a',)]\n(Background "
         "on this error at: https://x)", "(sqlite3.OperationalError) database is locked"),
        ("API request to http://127.0.0.1:5/api/2.0/mlflow failed with exception HTTPConnectionPool(host='127.0.0.1', "
         "port=5): Max retries exceeded with url: /x (Caused by NewConnectionError('<x at 0x7f>: Failed to establish a "
         "new connection: [Errno 111] Connection refused'))",
         "the MLflow server http://127.0.0.1:5 does not answer ([Errno 111] Connection refused)"),
        ("two\nlines", "two lines"),
        ("", "MlflowException"),
    ],
)  # fmt: skip
def test_reasons(said: str, reason: str) -> None:
    assert reason_of(MlflowException(said)) == reason


def test_a_reason_is_short() -> None:
    assert len(reason_of(ValueError("x" * 5000))) == 500
