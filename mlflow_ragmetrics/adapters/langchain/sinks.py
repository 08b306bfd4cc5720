"""Where scored answers go: to a function of the application, into MLflow, or both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from mlflow_ragmetrics.adapters.langchain.capture import Exchange
from mlflow_ragmetrics.core.run import Row
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Score

__all__ = ["FunctionSink", "Scored", "Sink"]


@dataclass(frozen=True)
class Scored:
    """A scored answer with the call that it came from."""

    row: Row
    exchange: Exchange


class Sink(Protocol):
    """Takes each scored answer once; called from the scoring threads."""

    @property
    def counts(self) -> Mapping[str, int]:
        """What it has to say about what it took."""

    def prepare(self, exchange: Exchange) -> None:
        """Note what only the chain's own thread knows; called there, when the chain ends."""

    def take(self, scored: Scored) -> None:
        """Take a scored answer, without waiting for anybody's network."""

    def flush(self, timeout: float) -> bool:
        """Write what is still here; False when something could not be written within ``timeout`` seconds."""

    def close(self) -> None:
        """Let threads end."""


class FunctionSink:
    """Calls ``function(sample, {key: Score})``."""

    counts: Mapping[str, int] = MappingProxyType({})

    def __init__(self, function: Callable[[Sample, Mapping[str, Score]], Any]) -> None:
        self._function = function

    def prepare(self, exchange: Exchange) -> None:
        """There is nothing to note."""

    def take(self, scored: Scored) -> None:
        """Call the function."""
        self._function(scored.row.sample, scored.row.scores)

    def flush(self, timeout: float) -> bool:
        """There is nothing left to write."""
        return True

    def close(self) -> None:
        """There is nothing to end."""
