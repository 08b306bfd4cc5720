"""From an exchange to its scores and on to the sinks: what a scoring thread does."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, TypeVar

from mlflow_ragmetrics.adapters.langchain.capture import Exchange
from mlflow_ragmetrics.adapters.langchain.sample import Reading
from mlflow_ragmetrics.adapters.langchain.sink import Scored, Sink
from mlflow_ragmetrics.core.judge import Embedding, Judge
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.judges.chat.isolation import untraced
from mlflow_ragmetrics.suite import Suite

__all__ = ["quietened", "ChainSuite", "Counts", "Pipeline"]


def quietened(suite: Suite) -> Suite:
    """The suite with judges and embeddings whose calls are not traced; everything else is shared."""
    judges = [_QuietJudge(judge) for judge in suite.judges]
    embeddings = [_QuietEmbedding(embedding) for embedding in suite.embeddings]
    return suite.replace(judge=judges if suite.several else judges[0], embeddings=embeddings)


class _QuietJudge:
    """A judge that answers without being traced; it has every attribute of the other."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def __getattr__(self, name: str) -> Any:
        return getattr(self._judge, name)

    @property
    def name(self) -> str:
        return self._judge.name

    def answer(self, questions: Sequence[Any]) -> Sequence[Any]:
        with untraced():
            return self._judge.answer(questions)


class _QuietEmbedding:
    """An embedding model that embeds without being traced."""

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedding, name)

    @property
    def name(self) -> str:
        return self._embedding.name

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        with untraced():
            return self._embedding.embed(texts)


def _without_retrieval(suite: Suite) -> Suite:
    """The suite for answers of a chain without retriever: metrics on contexts are skipped, not given a vacuous 1.0.

    A metric whose ``no_context`` was given keeps it.
    """
    selection = replace(suite.selection, metrics=tuple(map(_skipping, suite.selection.metrics)))
    return suite.replace(metrics=selection)


def _skipping(metric: Metric) -> Metric:
    takes = "no_context" in metric.definition.options.model_fields
    return metric(no_context="skip") if takes and "no_context" not in metric.given else metric


class ChainSuite:
    """A suite together with its variant for answers without retrieval."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self._unretrieved = _without_retrieval(suite)

    def score(self, samples: Sequence[Sample]) -> list[Row]:
        """One row a sample, in order; questions that several of them ask are asked once."""
        groups = {True: self.suite, False: self._unretrieved}
        rows: dict[int, Row] = {}
        for retrieved, suite in groups.items():
            chosen = [i for i, sample in enumerate(samples) if _retrieved(sample) is retrieved]
            scored = suite.score_samples([samples[i] for i in chosen])
            rows.update(zip(chosen, scored, strict=True))
        return [replace(rows[i], index=i) for i in range(len(samples))]


def _retrieved(sample: Sample) -> bool:
    return sample.contexts is not None or "contexts" in sample.invalid


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
