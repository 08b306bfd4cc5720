"""The LangChain callback handler that follows runs; what becomes of an exchange is up to who derives from it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config

from mlflow_ragmetrics.adapters.langchain.capture import Capture, Exchange, documents_in

__all__ = ["trace_id_of", "Recorder"]

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


class Recorder(BaseCallbackHandler):
    """Gathers an exchange from the events of each call, and hands it to ``answered`` or ``broken``.

    It runs in the thread, or the event loop, of the chain: its work is a few microseconds and never waits.
    """

    run_inline = True  # the tracer's open spans can be read only where the event is dispatched
    ignore_llm = True
    ignore_chat_model = True
    ignore_retry = True
    ignore_custom_event = True

    def __init__(self) -> None:
        self.capture = Capture()

    def __deepcopy__(self, memo: dict[int, Any]) -> Recorder:
        return self  # configs are copied, but a handler with its counts and threads is one

    def answered(self, exchange: Exchange) -> None:
        """An outermost chain has ended."""

    def broken(self, exchange: Exchange) -> None:
        """An outermost chain has raised ``exchange.error``."""

    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Follow a chain."""
        exchange = self.capture.begin_chain(run_id, parent_run_id or _surrounding_run(), inputs, metadata)
        if exchange is not None:
            _find_trace(exchange)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any) -> None:
        """An outermost chain gives its answer; a step inside it may give documents."""
        exchange = self.capture.exchange_of(run_id)
        if exchange is None:
            self.capture.end_step(run_id, documents_in(outputs))
            return
        _find_trace(exchange)
        self.capture.end_exchange(exchange)
        exchange.inputs = _kept(more.get("inputs", exchange.inputs))  # a stream tells its inputs only at the end
        exchange.outputs = _kept(outputs)
        self.answered(exchange)

    def on_chain_error(
        self, error: BaseException, *, run_id: UUID, parent_run_id: UUID | None = None, **_: Any
    ) -> None:
        """An outermost chain fails: counted, not scored."""
        exchange = self.capture.exchange_of(run_id)
        if exchange is None:
            self.capture.end_step(run_id)
            return
        _find_trace(exchange)
        self.capture.end_exchange(exchange)
        exchange.error = error
        self.broken(exchange)

    def on_retriever_start(
        self,
        serialized: dict[str, Any] | None,
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **_: Any,
    ) -> None:
        """Follow a retriever."""
        self.capture.begin_step(run_id, parent_run_id or _surrounding_run(), retriever=True)

    def on_retriever_end(
        self, documents: Sequence[Any], *, run_id: UUID, parent_run_id: UUID | None = None, **_: Any
    ) -> None:
        """Note what was retrieved."""
        self.capture.end_retriever(run_id, tuple(documents or ()))

    def on_retriever_error(
        self, error: BaseException, *, run_id: UUID, parent_run_id: UUID | None = None, **_: Any
    ) -> None:
        """A retriever gave nothing."""
        self.capture.fail_step(run_id)

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **_: Any,
    ) -> None:
        """Follow a tool, which may retrieve."""
        self.capture.begin_step(run_id, parent_run_id or _surrounding_run())

    def on_tool_end(self, output: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **_: Any) -> None:
        """Note the documents that a tool gave as its artifact."""
        self.capture.end_step(run_id, documents_in(getattr(output, "artifact", None)) or documents_in(output))

    def on_tool_error(self, error: BaseException, *, run_id: UUID, parent_run_id: UUID | None = None, **_: Any) -> None:
        """A tool gave nothing."""
        self.capture.fail_step(run_id)


def _surrounding_run() -> UUID | None:
    """The run inside which a run without parent begins, such as a fallback, or a chain called with this handler again.

    LangChain does not report it, but keeps the surrounding config in the context.
    """
    config = var_child_runnable_config.get()
    return getattr(config.get("callbacks"), "parent_run_id", None) if config else None


def _find_trace(exchange: Exchange) -> None:
    """Look at a chain's start and at its end: MLflow's tracer may have been told of the event before us, or not yet.

    Where neither shows it, feedback is kept back and counted; it never goes to a guessed trace.
    """
    if exchange.trace_id is None:
        try:
            exchange.trace_id, exchange.traceable = trace_id_of(exchange.run_id), True
        except LookupError:
            exchange.traceable = False


def _kept(value: Any) -> Any:
    """``value`` as it is now: applications go on to change the dicts and message lists that they passed."""
    if isinstance(value, Mapping):
        return {key: list(each) if isinstance(each, list) else each for key, each in value.items()}
    return list(value) if isinstance(value, list) else value
