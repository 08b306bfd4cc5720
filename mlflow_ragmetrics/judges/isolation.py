"""A model call that nobody else sees and that cannot hang: own thread, own context, own deadline."""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from mlflow_ragmetrics.errors import JudgeError

__all__ = ["run_apart", "untraced"]

T = TypeVar("T")


def run_apart(action: Callable[[], T], timeout: float | None, *, trace: bool = False) -> T:
    """What ``action`` returns or raises, run in a daemon thread with an empty context.

    A chain's callbacks and an open trace live in context variables, so that the call inherits neither; unless
    ``trace``, MLflow's autologging and LangSmith record none of it. After ``timeout`` seconds a ``JudgeError`` with the
    code ``"timeout"`` is raised, whatever the client does with its own timeout; its thread is left to itself.
    """
    outcome: list[Callable[[], T]] = []
    done = threading.Event()

    def work() -> None:
        try:
            result = contextvars.Context().run(_untraced if not trace else _called, action)
            outcome.append(lambda: result)
        except BaseException as error:  # raised again below, in the thread that waits
            outcome.append(_raiser(error))
        finally:
            done.set()

    threading.Thread(target=work, daemon=True, name="ragmetrics-call").start()
    if not done.wait(timeout):
        raise JudgeError(f"no reply within {timeout:g} s", code="timeout")
    return outcome[0]()


def _raiser(error: BaseException) -> Callable[[], Any]:
    def raise_it() -> Any:
        raise error

    return raise_it


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


def _beneath_unsampled() -> Callable[[], None]:
    """Make an unsampled span the current one: OpenTelemetry records nothing beneath it. Returns what undoes it."""
    from opentelemetry import context, trace

    parent = trace.SpanContext(trace_id=1, span_id=1, is_remote=False, trace_flags=trace.TraceFlags(0))
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(parent)))
    return lambda: context.detach(token)
