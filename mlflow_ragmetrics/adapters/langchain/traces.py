"""The id of a chain's own MLflow trace."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any
from uuid import UUID

__all__ = ["trace_id_of"]

_TRACER_MODULE = "mlflow.langchain.langchain_tracer"
_DISPATCHERS = ("handle_event", "ahandle_event")
_DEEPEST = 6
_NO_TRACE = "MLFLOW_NO_OP_SPAN_TRACE_ID"


def trace_id_of(run_id: UUID) -> str | None:
    """The id of the MLflow trace that the run belongs to, ``None`` where it is not traced.

    To be called in a handler's ``on_chain_start`` or ``on_chain_end``, in the thread that dispatches the event.
    Autologging gives every callback manager a tracer of its own, and MLflow has no public way from a run to its
    trace. So this looks, one level up, at the handlers that LangChain is telling of the event, and reads the tracer's
    table of open spans, by the run's id: never by what happens to be active, which in batches is another row's trace.
    Without a tracer it is the trace of the span that the application itself has open around the call.

    Raises:
        LookupError: there is a tracer, but the run's trace cannot be told.
    """
    if "mlflow" not in sys.modules:
        return None
    tracer = _tracer(sys._getframe(1))
    if tracer is None:
        return _enclosing_trace()
    try:
        trace_id = str(tracer._run_span_mapping[str(run_id)].span.trace_id)
    except (AttributeError, KeyError, TypeError) as error:
        raise LookupError(f"MLflow's tracer does not know the run {run_id}") from error
    return None if trace_id == _NO_TRACE else trace_id


def _tracer(frame: FrameType | None) -> Any:
    module = sys.modules.get(_TRACER_MODULE)
    if module is None:
        return None
    kind = getattr(module, "MlflowLangchainTracer", ())
    for _ in range(_DEEPEST):
        if frame is None:
            break
        if frame.f_code.co_name in _DISPATCHERS:
            handlers = frame.f_locals.get("handlers", ())
            return next((handler for handler in handlers if isinstance(handler, kind)), None)
        frame = frame.f_back
    return None


def _enclosing_trace() -> str | None:
    import mlflow

    span = mlflow.get_current_active_span()
    if span is None or span.end_time_ns is not None:  # an ended span can linger in a thread's context
        return None
    trace_id = str(span.trace_id)
    return None if trace_id == _NO_TRACE else trace_id
