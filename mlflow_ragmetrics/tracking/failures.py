"""What MLflow raises when a store does not take something, and what to say of it in one sentence."""

from __future__ import annotations

import re

from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.tracking.plain import plain_text

__all__ = ["reason_of", "write_errors"]

_LONGEST = 500
_STATEMENT = re.compile(r"\s*(?:\[SQL:|\(Background on this error).*", re.DOTALL)
_UNREACHED = re.compile(
    r"API request to (?P<server>\w+://[^/\s]+)\S* failed with.*?"
    r"(?P<why>\[Errno \d+\] [\w ]+|Read timed out|Connection aborted)",
    re.DOTALL,
)


def write_errors() -> tuple[type[Exception], ...]:
    """The kinds of exception with which a store says no."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return (MlflowException, SQLAlchemyError, OSError, ValueError, TypeError, RuntimeError)


def reason_of(error: BaseException) -> str:
    """Why, on one line without secrets; of a failed SQL statement not the statement, of an address not the path."""
    text = _STATEMENT.sub("", str(error)).strip()
    unreached = _UNREACHED.search(text)
    if unreached is not None:
        text = f"the MLflow server {unreached['server']} does not answer ({unreached['why']})"
    return redact(plain_text(" ".join(text.split()) or type(error).__name__))[:_LONGEST]
