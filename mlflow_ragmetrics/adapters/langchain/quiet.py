"""Judges whose model calls leave no traces and reach nobody else's callbacks."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from mlflow_ragmetrics.core.judge import Embedding, Judge
from mlflow_ragmetrics.suite import Suite

__all__ = ["quietened", "untraced"]


def quietened(suite: Suite) -> Suite:
    """The suite with judges and embeddings whose calls are not traced; everything else is shared."""
    quiet = copy.copy(suite)
    quiet.judges = [_QuietJudge(judge) for judge in suite.judges]
    quiet.embeddings = [_QuietEmbedding(embedding) for embedding in suite.embeddings]
    return quiet


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


@contextmanager
def untraced() -> Iterator[None]:
    """In this block and thread MLflow and LangSmith, where they are loaded, trace nothing; elsewhere they go on."""
    with ExitStack() as stack:
        if "langsmith" in sys.modules:
            from langsmith import tracing_context

            stack.enter_context(tracing_context(enabled=False))
        if "mlflow" in sys.modules:
            _quieten_mlflow(stack)
        yield


def _quieten_mlflow(stack: ExitStack) -> None:
    import mlflow

    switch: Callable[..., Any] | None = getattr(mlflow.tracing, "context", None)
    try:
        if switch is not None:
            stack.enter_context(switch(enabled=False))
            return
    except TypeError:  # MLflow before it took ``enabled``
        pass
    stack.callback(_beneath_unsampled())


def _beneath_unsampled() -> Callable[[], None]:
    """Make an unsampled span the current one: OpenTelemetry records nothing beneath it. Returns what undoes it."""
    from opentelemetry import context, trace

    parent = trace.SpanContext(trace_id=1, span_id=1, is_remote=False, trace_flags=trace.TraceFlags(0))
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(parent)))
    return lambda: context.detach(token)
