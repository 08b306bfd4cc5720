"""Records the calls of a running chain from LangChain's callback events, and reads each call as a sample."""

from __future__ import annotations

import inspect
import logging
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from traceback import walk_stack
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config

from mlflow_ragmetrics.adapters.langchain.exchange import Exchange, Found, Kind, Step, found_in, messages_among
from mlflow_ragmetrics.core.score import Message, Sample
from mlflow_ragmetrics.engine.memory import Recent
from mlflow_ragmetrics.rows.aliases import ALIASES, ALIASES_BY_NATURE, FIELD_OF
from mlflow_ragmetrics.rows.chat_messages import (
    answer_in,
    attribute_of,
    citations_in,
    closing_answer,
    fields_of,
    is_turn,
    messages_in,
    messages_of,
    question_in,
    role_and_content,
)
from mlflow_ragmetrics.rows.passages import document_ids_of
from mlflow_ragmetrics.rows.record import to_sample
from mlflow_ragmetrics.rows.values import mapping_of

if TYPE_CHECKING:
    _Listener = BaseCallbackHandler
else:
    try:  # LangGraph reports interrupts only to handlers of its own class
        from langgraph.callbacks import GraphCallbackHandler as _Listener
    except ImportError:
        _Listener = BaseCallbackHandler

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Run:
    """A run that has not ended, its exchange (a discarded one for a stray run), and whether a retriever called it."""

    exchange: Exchange
    inside_retriever: bool = False
    step: Step | None = None


class Recorder(_Listener):
    """Builds an exchange from the events of each call, and passes it to ``ended``.

    By default, it stores the first one as ``exchange``. The outermost chain that the handler sees is an exchange; all
    runs below it are followed by their ids. If a retriever calls other retrievers or models, only the outermost
    retriever's documents count.

    It runs in the chain's threads or event loop: each event takes a few microseconds and never waits.
    """

    run_inline = True  # the tracer's open spans are readable only in the thread that dispatches the event

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

    def ended(self, exchange: Exchange, *, failed: bool = False) -> None:
        """Called when an outermost chain has ended or, if ``failed``, has raised."""
        self.exchange = self.exchange or exchange

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: UUID, **event: Any) -> None:
        """Follow a chain."""
        parent = _parent(event)
        with self._lock:
            above = self._above(parent)
            if above is not None:
                self._open(run_id, parent, _Run(above.exchange, above.inside_retriever))
                config = var_child_runnable_config.get()
                if above.exchange.thread is None and config:
                    above.exchange.thread = (config.get("configurable") or {}).get("thread_id", False)
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
        self.ended(exchange)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Record the failure of a chain."""
        exchange = self._closed_exchange(run_id)
        if exchange is None:
            self.on_llm_error(error, run_id=run_id)
        else:
            self.ended(exchange, failed=True)

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
        run = self.open_runs.pop(run_id, None)
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
        run = self.open_runs.pop(run_id, None)
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
        exchange.seconds = time.perf_counter() - exchange.began
        with self._lock:
            runs = ((inner_id, self.open_runs.get(inner_id)) for inner_id in exchange.parents)
            unended = [inner_id for inner_id, run in runs if run is not None and run.exchange is exchange]
            for inner_id in unended:
                self.open_runs.pop(inner_id, None)
                self._closed[inner_id] = None
        exchange.left |= is_stream and len(unended) > 1  # an abandoned stream ends like any other
        return exchange

    def _open(self, run_id: UUID, parent: UUID | None, run: _Run) -> None:
        self._closed.pop(run_id, None)  # a caller may use the id of an earlier call again
        self.open_runs[run_id] = run
        run.exchange.parents[run_id] = parent

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


def _copied(value: Any) -> Any:
    """Copy a value, because applications may change the dicts and lists that they passed."""
    value = fields_of(value)
    if isinstance(value, Mapping):
        return {key: list(entry) if isinstance(entry, list) else entry for key, entry in value.items()}
    return list(value) if isinstance(value, list) else value


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
    if span is not None and span.trace_id != "MLFLOW_NO_OP_SPAN_TRACE_ID":
        exchange.trace_id = str(span.trace_id)


def _tracer() -> Any:
    """Return the MLflow tracer that gets the same event; the function that dispatches it is a few frames above."""
    kind = getattr(sys.modules.get("mlflow.langchain.langchain_tracer"), "MlflowLangchainTracer", ())
    for frame, _ in islice(walk_stack(sys._getframe(2)), 6):
        if frame.f_code.co_name in ("handle_event", "ahandle_event"):
            return next((handler for handler in frame.f_locals.get("handlers", ()) if isinstance(handler, kind)), None)
    return None


WHY = "contexts_unknown"
"""The metadata entry of a sample that explains why its contexts are unknown."""

_OUTRIGHT = ("answer", "output", "response", "generation", "result", "output_text", "final_answer")
_CALL_NAMES = frozenset(name for field in ("id", "reference", "gold_doc_ids") for name in (field, *ALIASES[field]))
_FRAMEWORKS = ("ls_", "lc_", "langgraph_", "checkpoint", "__")


@dataclass(frozen=True)
class Reading:
    """How to read an exchange; whatever is not set is detected.

    ``question`` and ``answer`` name entries of dict inputs and outputs, or are functions of these. ``contexts`` is a
    function of the outputs, or names the tools that return contexts (default: all). Each function may take a second
    argument: the outputs after the inputs, or the inputs after the outputs.
    """

    question: str | Callable[..., Any] | None = None
    answer: str | Callable[..., Any] | None = None
    contexts: Callable[..., Any] | Collection[str] | None = None

    def sample(self, exchange: Exchange) -> Sample:
        """Return the sample; id, reference and gold ids come from the call's metadata.

        ``contexts``: the passages that the model saw. If these are unknown, all retrieved passages are used, and
        ``contexts_assumed`` in the metadata says why. ``retrieved_doc_ids``: the ids of the retrieved documents.
        ``citations``: those in the outputs or in the blocks of the answer's message.
        """
        answer = None if exchange.left else _answer_in(_picked(self.answer, exchange.outputs, exchange.inputs))
        record = {**_metadata_of(exchange), "question": self._question(exchange), "answer": answer}
        record["history"] = _history_of(exchange)
        if citations := citations_in(exchange.outputs):
            record["citations"] = citations
        if callable(self.contexts):
            return to_sample({**record, "contexts": call_with(self.contexts, exchange.outputs, exchange.inputs)})
        named = replace(exchange, outputs=_with_names(exchange.outputs))
        chunks = found_in(named, answer, self.contexts) if answer is not None else Found()
        record["contexts"] = chunks.contexts
        if chunks.retrieved is not None:
            record["retrieved_doc_ids"] = document_ids_of(chunks.retrieved) or (None if chunks.retrieved else ())
        if chunks.contexts is None:
            record[WHY] = chunks.why
        if chunks.assumed is not None:
            record["contexts_assumed"] = chunks.assumed
        return to_sample(record)

    def _question(self, exchange: Exchange) -> str | None:
        question = _text(question_in(_picked(self.question, exchange.inputs, exchange.outputs)))
        if question or self.question is not None:
            return question
        if exchange.inputs is None or hasattr(exchange.inputs, "resume"):  # a graph resumed after an interrupt
            states = (exchange.outputs, *(step.value for step in exchange.steps if step.kind == "input"))
            questions = (_text(question_in(state)) for state in states if isinstance(state, Mapping))
            return next(filter(None, questions), None)
        return _only_text(exchange.inputs) or _text(question_in({"messages": messages_among(exchange.outputs)}))


def _picked(way: str | Callable[..., Any] | None, value: Any, other: Any) -> Any:
    """Return the entry of ``value`` with this name, or the result of a function of ``value`` (and ``other``)."""
    if callable(way):
        return call_with(way, value, other)
    return value if way is None else attribute_of(value, way)


def _with_names(outputs: Any) -> Any:
    """Return outputs of the form (answer, [passage, …], …) as a mapping, and others unchanged."""
    if isinstance(outputs, (list, tuple)) and len(outputs) > 1 and not is_turn(outputs[0]) and not is_turn(outputs):
        passages = next((output for output in outputs[1:] if isinstance(output, (list, tuple))), None)
        if passages is not None and (isinstance(outputs[0], str) or hasattr(outputs[0], "content")):
            return {"answer": outputs[0], "contexts": passages}
    return outputs


def _answer_in(outputs: Any) -> str | None:
    """Return the answer in a chain's outputs; ``None`` for an interrupt or a message that calls tools.

    If the last message is a tool's, the tool gave the answer (``return_direct``).
    """
    outputs = fields_of(_with_names(outputs))
    if isinstance(outputs, Mapping):
        if outputs.get("__interrupt__"):
            return None
        for name in ("structured_response", "parsed"):
            if outputs.get(name) is not None:
                return _answer_in(outputs[name])
    elif getattr(outputs, "tool_calls", None):
        return None
    messages = messages_among(outputs)
    if messages and not any(isinstance(outputs, Mapping) and outputs.get(name) for name in _OUTRIGHT):
        last = messages[-1]
        is_of_tool = role_and_content(last)[0] == "tool" and attribute_of(last, "status") != "error"
        return read_text(answer_in(last) if is_of_tool else closing_answer(messages))
    return read_text(answer_in(outputs))


def read_text(value: Any) -> str | None:
    """Return a text, or the text in a mapping, also if it is written as JSON."""
    text = _text(value)
    inside = mapping_of(fields_of(value))
    if not inside:
        return text
    named = _text(answer_in(inside)) or _text(inside.get("text")) or _only_text(inside)
    return named if named is not None else text


def _history_of(exchange: Exchange) -> tuple[Message, ...] | None:
    """Return the conversation: the named history of the inputs, else the messages among the outputs (a graph with a
    memory returns all of them), else those among the inputs. The question is separated from it later.
    """
    inputs = exchange.inputs if isinstance(exchange.inputs, Mapping) else {}
    named = (messages_of(inputs.get(name)) for name in ("history", *ALIASES_BY_NATURE["history"]))
    if spoken := next(filter(None, named), None):
        return spoken
    in_input, answered = messages_in(exchange.inputs) or (), messages_of(messages_among(exchange.outputs)) or ()
    is_whole = len(answered) > len(in_input) and any(message.role == "user" for message in answered)
    return (answered if is_whole else in_input) or None


def call_with(function: Callable[..., Any], *values: Any) -> Any:
    """Call with one value per required parameter, at least one."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a built-in function without a signature
        return function(values[0])
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = sum(parameter.kind in positional and parameter.default is parameter.empty for parameter in parameters)
    return function(*values[: max(1, needed)])


def _metadata_of(exchange: Exchange) -> dict[str, Any]:
    """Return the call's own metadata, and the ids that identify the call."""
    metadata = {
        name: value
        for name, value in exchange.metadata.items()
        if name in _CALL_NAMES or (name not in FIELD_OF and not name.startswith(_FRAMEWORKS))
    }
    if all(metadata.get(name) is None for name in ("id", *ALIASES["id"])):
        metadata["id"] = str(exchange.run_id)
    metadata["seconds"] = round(exchange.seconds, 6)
    origin = {
        "chain_run": str(exchange.run_id),
        "run_name": exchange.name,
        "thread_id": str(exchange.thread) if exchange.thread else None,
        "tags": list(exchange.tags),
        "trace_id": exchange.trace_id,
    }
    return metadata | {name: entry for name, entry in origin.items() if entry}


def _only_text(value: Any) -> str | None:
    texts = [entry for entry in value.values() if isinstance(entry, str)] if isinstance(value, Mapping) else []
    return texts[0] if len(texts) == 1 else None


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
