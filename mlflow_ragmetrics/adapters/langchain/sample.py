"""An exchange as a sample: which of the chain's inputs is the question, which of its outputs the answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from mlflow_ragmetrics.adapters.langchain.recorder import Exchange, documents_in
from mlflow_ragmetrics.core.sample import Chunk, Message, Sample
from mlflow_ragmetrics.records.aliases import ALIASES, ALIASES_BY_NATURE
from mlflow_ragmetrics.records.messages import answer_in, messages_in, messages_of, question_in
from mlflow_ragmetrics.records.record import to_sample
from mlflow_ragmetrics.records.values import chunks_of

__all__ = ["Known", "Reading", "answered_messages", "call_with", "chunks_in", "distinct"]

Known = Union[Mapping[str, Any], Callable[..., Any]]
"""What is known of a question: a mapping by question or id, or a function of the question (and the id)."""

_USER = ("human", "user")
_FROM_CALL = ("id", "reference", "gold_doc_ids")
_FRAMEWORKS = ("ls_", "lc_", "langgraph_", "checkpoint", "thread_id", "__")


@dataclass(frozen=True)
class Reading:
    """How to read an exchange. What is not given is found.

    ``input_key`` and ``output_key`` name the entries of dict inputs and outputs; ``question`` is a function of the
    inputs, ``answer`` and ``contexts`` of the outputs (a second parameter gets the other side).
    """

    input_key: str | None = None
    output_key: str | None = None
    question: Callable[..., Any] | None = None
    answer: Callable[..., Any] | None = None
    contexts: Callable[..., Any] | None = None
    references: Known | None = None
    gold_doc_ids: Known | None = None

    def sample(self, exchange: Exchange) -> Sample:
        """The sample: id, reference and gold ids from the call's metadata where it has them, else as known."""
        given = {name: value for name, value in exchange.metadata.items() if name in _CALL_NAMES}
        found = to_sample(given)
        question = self._question(exchange)
        sample_id = found.id if _has(exchange.metadata, "id") else ""
        record: dict[str, Any] = {
            "id": sample_id or str(exchange.run_id),
            "question": question,
            "answer": self._answer(exchange),
            "contexts": self._contexts(exchange),
            "history": _history_of(exchange),
            "reference": list(found.references or ()) or _looked_up(self.references, question, sample_id),
            "gold_doc_ids": found.gold_doc_ids
            if found.gold_doc_ids is not None
            else _looked_up(self.gold_doc_ids, question, sample_id),
        }
        return to_sample({**_metadata_of(exchange), **record})

    def _question(self, exchange: Exchange) -> str | None:
        if self.question is not None:
            return _text(call_with(self.question, exchange.inputs, exchange.outputs))
        if self.input_key is not None:
            return _text(question_in(_entry(exchange.inputs, self.input_key)))
        asked = _text(question_in(exchange.inputs))
        return asked or _only_text(exchange.inputs) or _text(question_in({"messages": _messages(exchange.outputs)}))

    def _answer(self, exchange: Exchange) -> str | None:
        if self.answer is not None:
            return _text(call_with(self.answer, exchange.outputs, exchange.inputs))
        outputs = _plain(exchange.outputs)
        if self.output_key is not None:
            return _text(answer_in(_plain(_entry(outputs, self.output_key))))
        messages = _messages(outputs)
        if messages:
            return _text(answer_in(answered_messages(messages)))
        return _text(answer_in(outputs)) if outputs is not None else None

    def _contexts(self, exchange: Exchange) -> Any:
        if self.contexts is not None:
            return call_with(self.contexts, exchange.outputs, exchange.inputs)
        return chunks_in(exchange)


def _history_of(exchange: Exchange) -> tuple[Message, ...] | None:
    """The conversation: what the inputs call so, else the messages among the outputs (a graph with a memory gives all
    of them), else those among the inputs. What was said before the question is told apart later.
    """
    inputs = exchange.inputs if isinstance(exchange.inputs, Mapping) else {}
    named = (messages_of(inputs.get(name)) for name in ("history", *ALIASES_BY_NATURE["history"]))
    spoken = next(filter(None, named), None)
    if spoken:
        return spoken
    given, answered = messages_in(exchange.inputs) or (), messages_of(_messages(exchange.outputs)) or ()
    is_whole = len(answered) > len(given) and any(message.role == "user" for message in answered)
    return (answered if is_whole else given) or None


def chunks_in(exchange: Exchange) -> tuple[Chunk, ...] | None:
    """What the chain had to answer from, best first and each once; ``None`` where it retrieved nothing at all.

    In this order: the documents among its outputs (``source_documents``, ``context``: what is left after reranking),
    what its retrievers gave (those that began first come first), what its tools and steps gave back, and texts among
    its outputs under a name for contexts. A retriever that found nothing gives ``()``.
    """
    documents = documents_in(exchange.outputs)
    if not documents and exchange.retrievals:
        documents = [document for found in exchange.retrievals.values() for document in found]
        return distinct(chunks_of(documents) or ())
    documents = documents or exchange.returned
    if documents:
        return distinct(chunks_of(list(documents)) or ())
    outputs = exchange.outputs
    names = ("contexts", *ALIASES["contexts"]) if isinstance(outputs, Mapping) else ()
    named = next((outputs[name] for name in names if outputs.get(name) is not None), None)
    return None if named is None else distinct(chunks_of(named) or ())


def distinct(chunks: Iterable[Chunk]) -> tuple[Chunk, ...]:
    """The chunks without repetitions, each at its first rank; same text under another id is another chunk."""
    first: dict[tuple[str | None, str], Chunk] = {}
    for chunk in chunks:
        first.setdefault((chunk.id, chunk.text), chunk)
    return tuple(first.values())


_CALL_NAMES = frozenset(name for each in _FROM_CALL for name in (each, *ALIASES[each]))


def call_with(function: Callable[..., Any], *values: Any) -> Any:
    """Call with as many of ``values`` as the function has parameters without default, at least one."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have no signature
        return function(values[0])
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = sum(each.kind in positional and each.default is each.empty for each in parameters)
    return function(*values[: max(1, needed)])


def answered_messages(messages: Sequence[Any]) -> Sequence[Any]:
    """The messages after the last question: an earlier turn's answer is not an answer to this one."""
    for position in range(len(messages) - 1, -1, -1):
        if _role(messages[position]) in _USER:
            return messages[position + 1 :]
    return messages


def _role(message: Any) -> Any:
    if isinstance(message, Mapping):
        return message.get("role", message.get("type"))
    return getattr(message, "type", None)


def _looked_up(known: Known | None, question: str | None, sample_id: str) -> Any:
    if known is None:
        return None
    if isinstance(known, Mapping):
        return next((known[key] for key in (question, sample_id) if key is not None and key in known), None)
    return call_with(known, question, sample_id or None)


def _has(metadata: Mapping[str, Any], name: str) -> bool:
    return any(metadata.get(each) is not None for each in (name, *ALIASES[name]))


def _metadata_of(exchange: Exchange) -> dict[str, Any]:
    """The call's own metadata, and what leads back to the call."""
    own = {
        name: value
        for name, value in exchange.metadata.items()
        if name not in _CALL_NAMES and name not in _RECORD_NAMES and not name.startswith(_FRAMEWORKS)
    }
    back = {"chain_run": str(exchange.run_id), "seconds": round(exchange.seconds, 6)}
    return {**own, **back, **({"trace_id": exchange.trace_id} if exchange.trace_id else {})}


_RECORD_NAMES = frozenset(name for field_, names in ALIASES.items() for name in (field_, *names))


def _entry(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)


def _plain(value: Any) -> Any:
    """A structured output (a pydantic model that is not a message) as a mapping."""
    if hasattr(value, "model_dump") and not hasattr(value, "content"):
        return value.model_dump()
    return value


def _messages(value: Any) -> Sequence[Any]:
    found = value.get("messages") if isinstance(value, Mapping) else value
    return found if isinstance(found, (list, tuple)) else ()


def _only_text(value: Any) -> str | None:
    texts = [each for each in value.values() if isinstance(each, str)] if isinstance(value, Mapping) else []
    return texts[0] if len(texts) == 1 else None


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
