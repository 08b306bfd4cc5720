"""Converts an exchange to a sample: finds the question in the inputs and the answer in the outputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Union

from mlflow_ragmetrics.adapters.langchain.recorder import Exchange
from mlflow_ragmetrics.adapters.langchain.seen import Found, found_in
from mlflow_ragmetrics.core.score import Message, Sample
from mlflow_ragmetrics.rows.aliases import ALIASES, ALIASES_BY_NATURE, FIELD_OF
from mlflow_ragmetrics.rows.chat_messages import (
    answer_in,
    attribute_of,
    citations_in,
    closing_answer,
    fields_of,
    is_turn,
    mapping_of,
    messages_in,
    messages_of,
    question_in,
    role_and_content,
)
from mlflow_ragmetrics.rows.passages import document_ids_of
from mlflow_ragmetrics.rows.record import to_sample

Known = Union[Mapping[str, Any], Callable[..., Any]]
"""References or gold ids: a mapping by question or id, or a function of the question (and the id)."""

WHY = "contexts_unknown"
"""The metadata entry of a sample that explains why its contexts are unknown."""

_INTERRUPT = "__interrupt__"
_STRUCTURED = ("structured_response", "parsed")
_OUTRIGHT = ("answer", "output", "response", "generation", "result", "output_text", "final_answer")
_FROM_CALL = ("id", "reference", "gold_doc_ids")
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
    references: Known | None = None
    gold_doc_ids: Known | None = None

    def sample(self, exchange: Exchange) -> Sample:
        """Return the sample; id, reference and gold ids in the call's metadata come first.

        ``contexts``: the passages that the model saw. If these are unknown, all retrieved passages are used, and
        ``contexts_assumed`` in the metadata says why. ``retrieved_doc_ids``: the ids of the retrieved documents.
        ``citations``: those in the outputs or in the blocks of the answer's message.
        """
        call_fields = {name: value for name, value in exchange.metadata.items() if name in _CALL_NAMES}
        call_sample = to_sample(call_fields)
        question = self._question(exchange)
        sample_id = call_sample.id if any(call_fields.get(name) is not None for name in ("id", *ALIASES["id"])) else ""
        answer = None if exchange.left else self._answer(exchange)
        gold = call_sample.gold_doc_ids
        record: dict[str, Any] = {
            "id": sample_id or str(exchange.run_id),
            "question": question,
            "answer": answer,
            "history": _history_of(exchange),
            "reference": list(call_sample.references or ()) or _looked_up(self.references, question, sample_id),
            "gold_doc_ids": _looked_up(self.gold_doc_ids, question, sample_id) if gold is None else gold,
        }
        if citations := citations_in(exchange.outputs):
            record["citations"] = citations
        if callable(self.contexts):
            record["contexts"] = call_with(self.contexts, exchange.outputs, exchange.inputs)
            return to_sample({**_metadata_of(exchange), **record})
        named = replace(exchange, outputs=_with_names(exchange.outputs))
        chunks = found_in(named, answer, self.contexts) if answer is not None else Found()
        record["contexts"] = chunks.contexts
        if chunks.retrieved is not None:
            record["retrieved_doc_ids"] = document_ids_of(chunks.retrieved) or (None if chunks.retrieved else ())
        if chunks.contexts is None:
            record[WHY] = chunks.why
        if chunks.assumed is not None:
            record["contexts_assumed"] = chunks.assumed
        return to_sample({**_metadata_of(exchange), **record})

    def _question(self, exchange: Exchange) -> str | None:
        if callable(self.question):
            return _text(call_with(self.question, exchange.inputs, exchange.outputs))
        if self.question is not None:
            return _text(question_in(attribute_of(exchange.inputs, self.question)))
        asked_text = _text(question_in(exchange.inputs))
        if asked_text or exchange.inputs is None or hasattr(exchange.inputs, "resume"):
            return asked_text or _resumed_question(exchange)
        return _only_text(exchange.inputs) or _text(question_in({"messages": _messages(exchange.outputs)}))

    def _answer(self, exchange: Exchange) -> str | None:
        if callable(self.answer):
            return _text(call_with(self.answer, exchange.outputs, exchange.inputs))
        return _answer_in(exchange.outputs if self.answer is None else attribute_of(exchange.outputs, self.answer))


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
        if outputs.get(_INTERRUPT):
            return None
        structured = next((outputs[name] for name in _STRUCTURED if outputs.get(name) is not None), None)
        if structured is not None:
            return _answer_in(structured)
    elif getattr(outputs, "tool_calls", None):
        return None
    messages = _messages(outputs)
    if messages and not any(isinstance(outputs, Mapping) and outputs.get(name) for name in _OUTRIGHT):
        last = messages[-1]
        is_of_tool = role_and_content(last)[0] == "tool" and attribute_of(last, "status") != "error"
        return read_text(answer_in(last) if is_of_tool else closing_answer(messages))
    return read_text(answer_in(outputs))


def _resumed_question(exchange: Exchange) -> str | None:
    """Return the question of a graph resumed after an interrupt, from its state."""
    states = (exchange.outputs, *(step.value for step in exchange.steps if step.kind == "input"))
    return next(filter(None, (_text(question_in(state)) for state in states if isinstance(state, Mapping))), None)


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
    in_input, answered = messages_in(exchange.inputs) or (), messages_of(_messages(exchange.outputs)) or ()
    is_whole = len(answered) > len(in_input) and any(message.role == "user" for message in answered)
    return (answered if is_whole else in_input) or None


_CALL_NAMES = frozenset(name for field in _FROM_CALL for name in (field, *ALIASES[field]))


def call_with(function: Callable[..., Any], *values: Any) -> Any:
    """Call with one value per required parameter, at least one."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a built-in function without a signature
        return function(values[0])
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = sum(parameter.kind in positional and parameter.default is parameter.empty for parameter in parameters)
    return function(*values[: max(1, needed)])


def _looked_up(known: Known | None, question: str | None, sample_id: str) -> Any:
    if known is None:
        return None
    if isinstance(known, Mapping):
        return next((known[key] for key in (question, sample_id) if key is not None and key in known), None)
    return call_with(known, question, sample_id or None)


def _metadata_of(exchange: Exchange) -> dict[str, Any]:
    """Return the call's own metadata, and the ids that identify the call."""
    own = {
        name: value
        for name, value in exchange.metadata.items()
        if name not in FIELD_OF and not name.startswith(_FRAMEWORKS)
    }
    back = {
        "chain_run": str(exchange.run_id),
        "run_name": exchange.name,
        "thread_id": str(exchange.thread) if exchange.thread else None,
        "tags": list(exchange.tags),
        "trace_id": exchange.trace_id,
    }
    return {**own, **{name: entry for name, entry in back.items() if entry}, "seconds": round(exchange.seconds, 6)}


def _messages(value: Any) -> Sequence[Any]:
    messages = value.get("messages") if isinstance(value, Mapping) else value
    return messages if isinstance(messages, (list, tuple)) else ()


def _only_text(value: Any) -> str | None:
    texts = [entry for entry in value.values() if isinstance(entry, str)] if isinstance(value, Mapping) else []
    return texts[0] if len(texts) == 1 else None


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
