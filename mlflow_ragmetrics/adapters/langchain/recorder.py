"""Records what a running chain does: its inputs, outputs and documents, from LangChain's callback events."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config

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
    ``value``; ``"model"``, with its prompt as ``value`` and its answer as ``reply``. ``name``: the tool's name, or the
    retriever's query. ``known``: the position in the order in which values and replies became available.
    """

    kind: Kind
    run_id: UUID
    value: Any = None
    name: str = ""
    reply: Any = None
    known: int = 0


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
    order: Iterator[int] = field(default_factory=count)

    def is_within(self, run_id: UUID | None, runs: Container[UUID]) -> bool:
        """Whether ``run_id`` is one of ``runs`` or inside one."""
        while run_id is not None:
            if run_id in runs:
                return True
            run_id = self.parents.get(run_id)
        return False


_REMEMBERED = 1000


@dataclass(frozen=True)
class _Open:
    """A run that has not ended, its exchange (a discarded one for a stray run), and whether a retriever called it."""

    exchange: Exchange
    inside_retriever: bool = False
    step: Step | None = None


class Capture:
    """Follows all runs below a handler by their ids; safe to use from many threads.

    The outermost chain that the handler sees is an exchange. If a retriever calls other retrievers or models, only the
    outermost retriever's documents count.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[UUID, _Open] = {}
        self._closed: OrderedDict[UUID, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def begin_chain(
        self, run_id: UUID, parent: UUID | None, inputs: Any, metadata: Mapping[str, Any] | None
    ) -> Exchange | None:
        """Record the start of a chain; return the exchange if it is an outermost one."""
        with self._lock:
            above = self._above(parent)
            if above is None:
                exchange = Exchange(run_id, inputs, metadata or {})
                self._put(run_id, None, _Open(exchange))
                return exchange
            self._put(run_id, parent, _Open(above.exchange, above.inside_retriever))
            if above.exchange.thread is None:
                above.exchange.thread = _thread()
            value = _copied(inputs)
            if not above.inside_retriever and isinstance(value, dict):
                above.exchange.steps.append(Step("input", run_id, value, known=next(above.exchange.order)))
            return None

    def begin_step(self, run_id: UUID, parent: UUID | None, kind: Kind, value: Any = None, name: str = "") -> bool:
        """Record the start of a tool, retriever or model; return whether it belongs to a chain."""
        with self._lock:
            above = self._above(parent) or _stray(run_id)
            step = Step(kind, run_id, value, name)
            self._put(run_id, parent, _Open(above.exchange, above.inside_retriever or kind == "retriever", step))
            if not above.inside_retriever:
                above.exchange.steps.append(step)
            return parent is not None

    def end_step(self, run_id: UUID, value: Any = None) -> None:
        """Record the result of an inner run."""
        with self._lock:
            run = self._take(run_id)
            if run is None:
                return
            known = next(run.exchange.order)
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

    def fail_step(self, run_id: UUID, error: BaseException) -> None:
        """Record the failure of an inner run; nothing inside it counts."""
        with self._lock:
            run = self._take(run_id)
            if run is None:
                return
            kinds = {kind.__name__ for kind in type(error).__mro__}
            if "GraphBubbleUp" not in kinds:  # LangGraph raises it for control flow, such as a handoff
                run.exchange.failed.add(run_id)
            elif "GraphInterrupt" in kinds:
                run.exchange.left = True

    def note_interrupt(self, run_id: UUID) -> None:
        """Record that a graph stopped early, to be resumed by another call."""
        if run_id in self._open:
            self._open[run_id].exchange.left = True

    def exchange_of(self, run_id: UUID) -> Exchange | None:
        """Return the exchange if this run is its outermost chain."""
        run = self._open.get(run_id)
        return run.exchange if run is not None and run.exchange.run_id == run_id else None

    def end_exchange(self, exchange: Exchange) -> None:
        """Drop all runs of an exchange, even those that have not ended."""
        exchange.seconds = time.perf_counter() - exchange.began
        with self._lock:
            for run_id in exchange.open_runs:
                del self._open[run_id]
                self._closed[run_id] = None
            exchange.open_runs.clear()
            while len(self._closed) > _REMEMBERED:
                self._closed.popitem(last=False)

    def _put(self, run_id: UUID, parent: UUID | None, run: _Open) -> None:
        self._closed.pop(run_id, None)  # a caller may use the id of an earlier call again
        self._open[run_id] = run
        run.exchange.open_runs.add(run_id)
        run.exchange.parents[run_id] = parent

    def _take(self, run_id: UUID) -> _Open | None:
        run = self._open.pop(run_id, None)
        if run is not None:
            run.exchange.open_runs.discard(run_id)
        return run

    def _above(self, parent: UUID | None) -> _Open | None:
        """Return the parent's run; ``None`` if there is no parent, or if it began above the handler."""
        if parent is None:
            return None
        if parent in self._closed:  # a step that outlived its chain, as in an abandoned stream
            return _stray(parent)
        return self._open.get(parent)


def _stray(run_id: UUID) -> _Open:
    return _Open(Exchange(run_id, None, {}))


class Recorder(_Listener):
    """Builds an exchange from the events of each call, and passes it to ``answered`` or ``failed``.

    By default, it stores the first one as ``exchange``.

    It runs in the chain's thread or event loop: each event takes a few microseconds and never waits.
    """

    run_inline = True  # the tracer's open spans are readable only in the thread that dispatches the event
    ignore_retry = True
    ignore_custom_event = True

    def __init__(self) -> None:
        self.capture = Capture()
        self.exchange: Exchange | None = None
        self._lone_model = False

    def __deepcopy__(self, memo: dict[int, Any]) -> Recorder:
        return self  # LangChain copies configs, but the handler's counts and threads must not be duplicated

    def answered(self, exchange: Exchange) -> None:
        """Called when an outermost chain has ended or, as ``failed``, has raised."""
        self.exchange = self.exchange or exchange

    failed = answered

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: UUID, **more: Any) -> None:
        """Follow a chain."""
        exchange = self.capture.begin_chain(run_id, _parent(more), inputs, more.get("metadata"))
        if exchange is not None:
            exchange.tags, exchange.name = tuple(more.get("tags") or ()), more.get("name")
            _find_trace(exchange)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **more: Any) -> None:
        """Record the answer of an outermost chain, or the output of an inner step."""
        exchange = self.capture.exchange_of(run_id)
        if exchange is None:
            self.capture.end_step(run_id, outputs)
            return
        _find_trace(exchange)
        exchange.left |= "inputs" in more and len(exchange.open_runs) > 1  # an abandoned stream ends like any other
        self.capture.end_exchange(exchange)
        exchange.inputs = _copied(more.get("inputs", exchange.inputs))  # a stream's inputs are complete only at its end
        exchange.outputs = _copied(outputs)
        self.answered(exchange)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Record the failure of a chain."""
        exchange = self.capture.exchange_of(run_id)
        if exchange is None:
            self.capture.fail_step(run_id, error)
            return
        _find_trace(exchange)
        self.capture.end_exchange(exchange)
        self.failed(exchange)

    def on_retriever_start(self, serialized: Any, query: str, *, run_id: UUID, **more: Any) -> None:
        """Follow a retriever."""
        self.capture.begin_step(run_id, _parent(more), "retriever", (), query)

    def on_retriever_end(self, documents: Sequence[Any], *, run_id: UUID, **_: Any) -> None:
        """Record the retrieved documents."""
        self.capture.end_step(run_id, tuple(documents or ()))

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: UUID, **more: Any) -> None:
        """Follow a tool, which may retrieve documents."""
        name = more.get("name") or (serialized or {}).get("name") or ""
        self.capture.begin_step(run_id, _parent(more), "tool", name=str(name))

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Record a tool's result."""
        self.capture.end_step(run_id, output)

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: UUID, **more: Any) -> None:
        """Record a model's prompt."""
        self.on_llm_start(serialized, [message for batch in messages for message in batch], run_id=run_id, **more)

    def on_llm_start(self, serialized: Any, prompts: Sequence[Any], *, run_id: UUID, **more: Any) -> None:
        """Record a model's prompt."""
        belongs = self.capture.begin_step(run_id, _parent(more), "model", list(prompts))
        if not belongs and not self._lone_model:
            self._lone_model = True
            _logger.warning("a model call outside any chain is not scored: attach the handler to the chain")

    def on_llm_end(self, response: Any, *, run_id: UUID, **_: Any) -> None:
        """Record a model's reply."""
        self.capture.end_step(run_id, response)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Record the failure of a retriever, a tool or a model."""
        self.capture.fail_step(run_id, error)

    on_retriever_error = on_tool_error = on_llm_error

    def on_interrupt(self, event: Any) -> None:
        """Record that a graph stopped at ``interrupt_before`` or ``interrupt_after``: its state is not an answer."""
        self.capture.note_interrupt(event.run_id)


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


def _find_trace(exchange: Exchange) -> None:
    """Look up the trace at a chain's start and end, because MLflow's tracer may get the event before or after us.

    If neither finds it, feedback is withheld and counted; it never goes to a guessed trace.
    """
    if exchange.trace_id is None:
        try:
            exchange.trace_id, exchange.traceable = trace_id_of(exchange.run_id), True
        except LookupError:
            exchange.traceable = False


def trace_id_of(run_id: UUID) -> str | None:
    """Return the id of the MLflow trace of a run; ``None`` if it is not traced.

    Call this in a handler's ``on_chain_start`` or ``on_chain_end``, in the thread that dispatches the event.
    Autologging gives every callback manager its own tracer, and MLflow has no public way from a run to its trace.
    This function therefore searches the stack for the handlers that LangChain notifies, and looks up the run's id in
    the tracer's table of open spans. It never uses the active span of a tracer, which in a batch may belong to another
    row. Without a tracer, it returns the trace of the span that the application itself has open around the call.

    Raises:
        LookupError: there is a tracer, but it has no span for the run.
    """
    if "mlflow" not in sys.modules:
        return None
    tracer = _tracer(sys._getframe(1))
    if tracer is None:
        import mlflow

        span = mlflow.get_current_active_span()
        if span is not None and span.end_time_ns is not None:  # an ended span can remain in a thread's context
            span = None
    else:
        try:
            span = tracer._run_span_mapping[str(run_id)].span
        except (AttributeError, KeyError, TypeError) as error:
            raise LookupError(f"MLflow's tracer has no span for the run {run_id}") from error
    return None if span is None or span.trace_id == _NO_TRACE else str(span.trace_id)


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
