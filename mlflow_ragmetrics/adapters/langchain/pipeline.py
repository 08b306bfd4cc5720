"""From an exchange to its scores and on to the sinks: what a scoring thread does."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, TypeVar

from mlflow_ragmetrics.adapters.langchain.capture import Exchange
from mlflow_ragmetrics.adapters.langchain.reading import Reading
from mlflow_ragmetrics.adapters.langchain.scoring import ChainSuite
from mlflow_ragmetrics.adapters.langchain.sinks import Scored, Sink
from mlflow_ragmetrics.core.coercion import kind_of
from mlflow_ragmetrics.core.run import Row
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.secrets import redact

__all__ = ["Counts", "Pipeline"]

T = TypeVar("T")
_FAILED = "an answer could not be scored"
_logger = logging.getLogger(__name__)


class Counts:
    """What became of the calls, by name; safe to add to from many threads."""

    def __init__(self) -> None:
        self._counter: Counter[str] = Counter()
        self._lock = Lock()

    def add(self, name: str) -> None:
        """One more of ``name``."""
        with self._lock:
            self._counter[name] += 1

    def of(self, names: Sequence[str]) -> dict[str, int]:
        """The counts of these names."""
        with self._lock:
            return {name: self._counter[name] for name in names}


class Pipeline:
    """Reads, scores and delivers exchanges; whatever fails is counted and said once, and never raised."""

    def __init__(self, reading: Reading, suite: ChainSuite, sinks: Sequence[Sink], counts: Counts) -> None:
        self._reading = reading
        self._suite = suite
        self._sinks = sinks
        self._counts = counts
        self._said: set[str] = set()

    def work(self, exchanges: Sequence[Exchange]) -> None:
        """Score a batch of exchanges."""
        pairs = [(exchange, self._read(exchange)) for exchange in exchanges]
        readable = [(exchange, sample) for exchange, sample in pairs if sample is not None]
        rows = self._scored([sample for _, sample in readable])
        for (exchange, _), row in zip(readable, rows, strict=True):
            if row is not None:
                self._deliver(Scored(row, exchange))

    def _read(self, exchange: Exchange) -> Sample | None:
        sample = self._attempt("an answer could not be read", self._reading.sample, exchange)
        if sample is None:
            self._counts.add("failed")
            return None
        if sample.answer is None and "answer" not in sample.invalid:
            self._counts.add("skipped")
            kind = kind_of(exchange.outputs)
            self._say_once(f"no answer was found in the chain's outputs ({kind}); name it with output_key= or answer=")
            return None
        if sample.question is None:
            kind = kind_of(exchange.inputs)
            self._say_once(
                f"no question was found in the chain's inputs ({kind}); name it with input_key= or question="
            )
        return sample

    def _scored(self, samples: Sequence[Sample]) -> Sequence[Row | None]:
        rows = self._attempt(_FAILED, self._suite.score, samples)
        if rows is not None:
            return rows
        if len(samples) > 1:
            return [row for sample in samples for row in self._scored([sample])]
        self._counts.add("failed")
        return [None]

    def _deliver(self, scored: Scored) -> None:
        for key, score in scored.row.scores.items():
            if score.status == "skipped":
                self._say_once(f"{key} is skipped: {score.reason}", key)
        taken = [self._attempt("a sink failed", _given, sink, scored) for sink in self._sinks]
        self._counts.add("scored" if all(taken) else "failed")

    def _attempt(self, failure: str, action: Callable[..., T], *arguments: Any) -> T | None:
        try:
            return action(*arguments)
        except Exception as error:  # functions of the application run here: whatever they raise, the others go on
            self._say_once(redact(f"{failure}: {type(error).__name__}: {error}"), failure + type(error).__name__)
            return None

    def _say_once(self, message: str, subject: str | None = None) -> None:
        if (subject or message) not in self._said:
            self._said.add(subject or message)
            _logger.warning(message)


def _given(sink: Sink, scored: Scored) -> bool:
    sink.take(scored)
    return True
