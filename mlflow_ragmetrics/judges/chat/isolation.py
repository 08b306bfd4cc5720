"""A model call that nobody else sees and that cannot hang: own thread, own context, own deadline."""

from __future__ import annotations

import contextvars
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar

from mlflow_ragmetrics.errors import JudgeError

__all__ = ["run_apart", "untraced"]

T = TypeVar("T")


class _Companion:
    """A daemon thread that makes the calls of one other thread, and ends with it."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._replies: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        work = partial(_serve, self._asked, self._replies)
        self.thread = threading.Thread(target=work, daemon=True, name="ragmetrics-call")
        self.thread.start()

    def reply(self, action: Callable[[], Any], timeout: float | None) -> Callable[[], Any]:
        """What gives or raises the outcome of ``action``; ``queue.Empty`` after ``timeout`` seconds."""
        self._asked.put(action)
        return self._replies.get(timeout=timeout)

    def __del__(self) -> None:
        self._asked.put(None)


_own = threading.local()


def run_apart(action: Callable[[], T], timeout: float | None, *, trace: bool = False) -> T:
    """What ``action`` returns or raises, run in a daemon thread with an empty context.

    A chain's callbacks and an open trace live in context variables, so that the call inherits neither; unless
    ``trace``, MLflow's autologging and LangSmith record none of it. After ``timeout`` seconds a ``JudgeError`` with the
    code ``"timeout"`` is raised, whatever the client does with its own timeout; its thread is left to itself.
    """
    companion: _Companion | None = getattr(_own, "companion", None)
    if companion is None or not companion.thread.is_alive():  # it is not in a forked process
        companion = _Companion()
    _own.companion = None  # until it has replied: after a timeout or Ctrl-C its late reply is nobody's
    try:
        outcome = companion.reply(partial(_called if trace else _untraced, action), timeout)
    except queue.Empty:
        raise JudgeError(f"no reply within {timeout:g} s", code="timeout") from None
    _own.companion = companion
    result: T = outcome()
    return result


def _serve(asked: queue.SimpleQueue[Callable[[], Any] | None], replies: queue.SimpleQueue[Callable[[], Any]]) -> None:
    while (action := asked.get()) is not None:
        try:
            outcome = partial(_given, contextvars.Context().run(action))
        except BaseException as error:  # raised again in the thread that waits
            outcome = partial(_raised, error)
        replies.put(outcome)
        del action, outcome


def _given(result: T) -> T:
    return result


def _raised(error: BaseException) -> Any:
    raise error


def _called(action: Callable[[], T]) -> T:
    return action()


def _untraced(action: Callable[[], T]) -> T:
    with untraced():
        return action()


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
    stack.callback(_unattached())


def _beneath_unsampled() -> Callable[[], None]:
    """Make an unsampled span the current one: OpenTelemetry records nothing beneath it. Returns what undoes it."""
    from opentelemetry import context, trace

    parent = trace.SpanContext(trace_id=1, span_id=1, is_remote=False, trace_flags=trace.TraceFlags(0))
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(parent)))
    return lambda: context.detach(token)


def _unattached() -> Callable[[], None]:
    """Keep the span that LangChain's tracer could not start from taking the place of the unsampled one."""
    tracer = sys.modules.get("mlflow.langchain.langchain_tracer")
    attaches: contextvars.ContextVar[bool] | None = getattr(tracer, "_should_attach_span_to_context", None)
    if attaches is None:
        return lambda: None
    token = attaches.set(False)
    return lambda: attaches.reset(token)
