"""Blocks whose model calls MLflow and LangSmith do not record."""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

__all__ = ["untraced"]


@contextmanager
def untraced() -> Iterator[None]:
    """In this block and thread MLflow and LangSmith, where they are loaded, trace nothing; elsewhere they go on."""
    with ExitStack() as stack:
        if "langsmith" in sys.modules:
            from langsmith import tracing_context

            stack.enter_context(tracing_context(enabled=False))
        if "mlflow" in sys.modules:
            _switch_mlflow_off(stack)
        yield


def _switch_mlflow_off(stack: ExitStack) -> None:
    import mlflow

    switch: Callable[..., Any] | None = getattr(mlflow.tracing, "context", None)
    try:
        if switch is not None:
            stack.enter_context(switch(enabled=False))
            return
    except TypeError:  # MLflow before it took ``enabled``
        pass
    stack.callback(_enter_unsampled_span())
    stack.callback(_keep_unsampled_span())


def _enter_unsampled_span() -> Callable[[], None]:
    """Make an unsampled span the current one: OpenTelemetry records nothing beneath it. Returns what undoes it."""
    from opentelemetry import context, trace

    parent = trace.SpanContext(trace_id=1, span_id=1, is_remote=False, trace_flags=trace.TraceFlags(0))
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(parent)))
    return lambda: context.detach(token)


def _keep_unsampled_span() -> Callable[[], None]:
    """Keep the span that LangChain's tracer could not start from taking the place of the unsampled one."""
    tracer = sys.modules.get("mlflow.langchain.langchain_tracer")
    attaches: contextvars.ContextVar[bool] | None = getattr(tracer, "_should_attach_span_to_context", None)
    if attaches is None:
        return lambda: None
    token = attaches.set(False)
    return lambda: attaches.reset(token)
