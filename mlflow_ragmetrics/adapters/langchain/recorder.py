"""Records what a running chain does: its inputs, outputs and documents, from LangChain's callback events."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from traceback import walk_stack
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config

from mlflow_ragmetrics.engine.memory import Recent
from mlflow_ragmetrics.rows.chat_messages import fields_of

if TYPE_CHECKING:
    _Listener = BaseCallbackHandler
else:
    try:  # LangGraph reports interrupts only to handlers of its own class
        from langgraph.callbacks import GraphCallbackHandler as _Listener
    except ImportError:
        _Listener = BaseCallbackHandler

_logger = logging.getLogger(__name__)


Kind = Literal["input", "output", "retriever", "tool", "model"]


@dataclass(eq=False)
class Step:
    """An event within a call, in the order in which events began or, for outputs, ended.

    ``kind``: ``"input"`` and ``"output"`` of an inner chain; ``"retriever"`` and ``"tool"``, with their result as
    ``value``; ``"model"``, with its prompt as ``value`` and its answer as ``reply``. ``name``: the tool's
    name. ``known``: the time at which the value or reply became available.
    """

    kind: Kind
    run_id: UUID
    value: Any = None
    name: str = ""
    reply: Any = None
    known: float = 0.0


@dataclass(eq=False)
class Exchange:
    """One call of a chain: its raw inputs and outputs, and the steps in between.

    ``parents`` maps each inner run to the run around it; ``failed`` lists runs that raised. A ``left`` call has no
    answer: it was interrupted, or nobody read its stream to the end. ``trace_id``: the chain's MLflow trace;
    ``traceable`` is False if there is a trace with an unknown id. ``live``: the MLflow run for its scores.
    """

    run_id: UUID
    inputs: Any
    metadata: Mapping[str, Any]
    outputs: Any = None
    tags: Sequence[str] = ()
    name: str | None = None
    thread: Any = None
    steps: list[Step] = field(default_factory=list)
    parents: dict[UUID, UUID | None] = field(default_factory=dict)
    failed: set[UUID] = field(default_factory=set)
    left: bool = False
    trace_id: str | None = None
    traceable: bool = True
    live: Any = None
    began: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0
    open_runs: set[UUID] = field(default_factory=set)

    def is_within(self, run_id: UUID | None, runs: Container[UUID]) -> bool:
        """Whether ``run_id`` is one of ``runs`` or inside one."""
        while run_id is not None:
            if run_id in runs:
                return True
            run_id = self.parents.get(run_id)
        return False


@dataclass(frozen=True)
class _Run:
    """A run that has not ended, its exchange (a discarded one for a stray run), and whether a retriever called it."""

    exchange: Exchange
    inside_retriever: bool = False
    step: Step | None = None


class Recorder(_Listener):
    """Builds an exchange from the events of each call, and passes it to ``answered`` or ``failed``.

    By default, it stores the first one as ``exchange``. The outermost chain that the handler sees is an exchange; all
    runs below it are followed by their ids. If a retriever calls other retrievers or models, only the outermost
    retriever's documents count.

    It runs in the chain's threads or event loop: each event takes a few microseconds and never waits.
    """

    run_inline = True  # the tracer's open spans are readable only in the thread that dispatches the event
    ignore_retry = True
    ignore_custom_event = True

    def __init__(self) -> None:
        self.exchange: Exchange | None = None
        self._lone_model = False
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._closed = Recent[UUID, None](1000)
        self.open_runs: dict[UUID, _Run] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Recorder:
        return self  # LangChain copies configs, but the handler's counts and threads must not be duplicated

    def answered(self, exchange: Exchange) -> None:
        """Called when an outermost chain has ended or, as ``failed``, has raised."""
        self.exchange = self.exchange or exchange

    failed = answered

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: UUID, **event: Any) -> None:
        """Follow a chain."""
        parent = _parent(event)
        with self._lock:
            above = self._above(parent)
            if above is not None:
                self._open(run_id, parent, _Run(above.exchange, above.inside_retriever))
                if above.exchange.thread is None:
                    above.exchange.thread = _thread()
                value = _copied(inputs)
                if not above.inside_retriever and isinstance(value, dict):
                    above.exchange.steps.append(Step("input", run_id, value, known=time.perf_counter()))
                return
            tags = tuple(event.get("tags") or ())
            exchange = Exchange(run_id, inputs, event.get("metadata") or {}, tags=tags, name=event.get("name"))
            self._open(run_id, None, _Run(exchange))
        find_trace(exchange)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **event: Any) -> None:
        """Record the answer of an outermost chain, or the output of an inner step."""
        exchange = self._closed_exchange(run_id, is_stream="inputs" in event)
        if exchange is None:
            self._end_step(run_id, outputs)
            return
        # a stream's inputs are complete only at its end
        exchange.inputs = _copied(event.get("inputs", exchange.inputs))
        exchange.outputs = _copied(outputs)
        self.answered(exchange)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Record the failure of a chain."""
        exchange = self._closed_exchange(run_id)
        if exchange is None:
            self.on_llm_error(error, run_id=run_id)
        else:
            self.failed(exchange)

    def on_retriever_start(self, serialized: Any, query: str, *, run_id: UUID, **event: Any) -> None:
        """Follow a retriever."""
        self._begin_step(run_id, _parent(event), "retriever", ())

    def on_retriever_end(self, documents: Sequence[Any], *, run_id: UUID, **_: Any) -> None:
        """Record the retrieved documents."""
        self._end_step(run_id, tuple(documents or ()))

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: UUID, **event: Any) -> None:
        """Follow a tool, which may retrieve documents."""
        name = event.get("name") or (serialized or {}).get("name") or ""
        self._begin_step(run_id, _parent(event), "tool", name=str(name))

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Record a tool's result."""
        self._end_step(run_id, output)

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: UUID, **event: Any) -> None:
        """Record a model's prompt."""
        self.on_llm_start(serialized, [message for batch in messages for message in batch], run_id=run_id, **event)

    def on_llm_start(self, serialized: Any, prompts: Sequence[Any], *, run_id: UUID, **event: Any) -> None:
        """Record a model's prompt."""
        parent = _parent(event)
        self._begin_step(run_id, parent, "model", list(prompts))
        if parent is None and not self._lone_model:
            self._lone_model = True
            _logger.warning("a model call outside any chain is not scored: attach the handler to the chain")

    def on_llm_end(self, response: Any, *, run_id: UUID, **_: Any) -> None:
        """Record a model's reply."""
        self._end_step(run_id, response)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Record the failure of an inner run; nothing inside it counts."""
        run = self._take(run_id)
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if run is None:
            return
        if "GraphBubbleUp" not in kinds:  # LangGraph raises it for control flow, such as a handoff
            run.exchange.failed.add(run_id)
        elif "GraphInterrupt" in kinds:
            run.exchange.left = True

    on_retriever_error = on_tool_error = on_llm_error

    def on_interrupt(self, event: Any) -> None:
        """Record that a graph stopped at ``interrupt_before`` or ``interrupt_after``: its state is not an answer."""
        if event.run_id in self.open_runs:
            self.open_runs[event.run_id].exchange.left = True

    def _begin_step(self, run_id: UUID, parent: UUID | None, kind: Kind, value: Any = None, name: str = "") -> None:
        with self._lock:
            above = self._above(parent) or _stray(run_id)
            step = Step(kind, run_id, value, name)
            self._open(run_id, parent, _Run(above.exchange, above.inside_retriever or kind == "retriever", step))
            if not above.inside_retriever:
                above.exchange.steps.append(step)

    def _end_step(self, run_id: UUID, value: Any) -> None:
        run = self._take(run_id)
        if run is None:
            return
        known = time.perf_counter()
        if run.step is None:
            value = _copied(value)
            if not run.inside_retriever and (isinstance(value, (list, tuple)) or hasattr(value, "update")):
                run.exchange.steps.append(Step("output", run_id, value, known=known))
            return
        run.step.known = known
        if run.step.kind == "model":
            run.step.reply = value
        else:
            run.step.value = value

    def _closed_exchange(self, run_id: UUID, *, is_stream: bool = False) -> Exchange | None:
        """If this run is an outermost chain, drop all its runs, even those that have not ended; return its exchange."""
        run = self.open_runs.get(run_id)
        if run is None or run.exchange.run_id != run_id:
            return None
        exchange = run.exchange
        find_trace(exchange)
        exchange.left |= is_stream and len(exchange.open_runs) > 1  # an abandoned stream ends like any other
        exchange.seconds = time.perf_counter() - exchange.began
        with self._lock:
            for inner_id in exchange.open_runs:
                del self.open_runs[inner_id]
                self._closed[inner_id] = None
            exchange.open_runs.clear()
        return exchange

    def _open(self, run_id: UUID, parent: UUID | None, run: _Run) -> None:
        self._closed.pop(run_id, None)  # a caller may use the id of an earlier call again
        self.open_runs[run_id] = run
        run.exchange.open_runs.add(run_id)
        run.exchange.parents[run_id] = parent

    def _take(self, run_id: UUID) -> _Run | None:
        with self._lock:
            run = self.open_runs.pop(run_id, None)
            if run is not None:
                run.exchange.open_runs.discard(run_id)
            return run

    def _above(self, parent: UUID | None) -> _Run | None:
        """Return the parent's run; ``None`` if there is no parent, or if it began above the handler."""
        if parent is None:
            return None
        # else a step that outlived its chain, as in an abandoned stream
        return self.open_runs.get(parent) if parent not in self._closed else _stray(parent)


def _stray(run_id: UUID) -> _Run:
    return _Run(Exchange(run_id, None, {}))


def _parent(event: Mapping[str, Any]) -> UUID | None:
    """Return the run around a new run.

    LangChain does not report it for a fallback, or for a chain called with this handler again, but the context has the
    surrounding config.
    """
    config = var_child_runnable_config.get()
    return event.get("parent_run_id") or (getattr(config.get("callbacks"), "parent_run_id", None) if config else None)


def _thread() -> Any:
    """Return the ``thread_id`` of the call, from the context of its steps."""
    config = var_child_runnable_config.get()
    return (config.get("configurable") or {}).get("thread_id", False) if config else None


def _copied(value: Any) -> Any:
    """Copy a value, because applications may change the dicts and lists that they passed."""
    value = fields_of(value)
    if isinstance(value, Mapping):
        return {key: list(entry) if isinstance(entry, list) else entry for key, entry in value.items()}
    return list(value) if isinstance(value, list) else value


_TRACER_MODULE = "mlflow.langchain.langchain_tracer"
_DISPATCHERS = ("handle_event", "ahandle_event")
_DEEPEST = 6
_NO_TRACE = "MLFLOW_NO_OP_SPAN_TRACE_ID"


def find_trace(exchange: Exchange) -> None:
    """Set the exchange's MLflow trace, at a chain's start and end: MLflow's tracer gets an event before or after us.

    Call this in the thread that dispatches the event. Autologging gives every callback manager its own tracer, and
    MLflow has no public way from a run to its trace. This function therefore searches the stack for the handlers that
    LangChain notifies, and looks up the run's id in the tracer's table of open spans. It never uses the active span of
    a tracer, which in a batch may belong to another row: if the table lacks the run, feedback is withheld and counted.
    Without a tracer, the trace is that of the span that the application itself has open around the call.
    """
    if exchange.trace_id is not None or "mlflow" not in sys.modules:
        return
    tracer = _tracer()
    if tracer is None:
        import mlflow

        span = mlflow.get_current_active_span()
        if span is not None and span.end_time_ns is not None:  # an ended span can remain in a thread's context
            span = None
    else:
        span = getattr(getattr(tracer, "_run_span_mapping", {}).get(str(exchange.run_id)), "span", None)
    exchange.traceable = tracer is None or span is not None
    if span is not None and span.trace_id != _NO_TRACE:
        exchange.trace_id = str(span.trace_id)


def _tracer() -> Any:
    kind = getattr(sys.modules.get(_TRACER_MODULE), "MlflowLangchainTracer", ())
    for frame, _ in islice(walk_stack(sys._getframe(2)), _DEEPEST):
        if frame.f_code.co_name in _DISPATCHERS:
            return next((handler for handler in frame.f_locals.get("handlers", ()) if isinstance(handler, kind)), None)
    return None
