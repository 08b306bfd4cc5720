"""LangChain documents: found in what chains give back, and as a sample's chunks without repetitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mlflow_ragmetrics.adapters.langchain.capture import Exchange
from mlflow_ragmetrics.core.aliases import ALIASES
from mlflow_ragmetrics.core.chunks import chunks_of
from mlflow_ragmetrics.core.sample import Chunk

__all__ = ["chunks_in", "distinct", "documents_in", "is_documents"]


def is_documents(value: Any) -> bool:
    """Whether ``value`` is a list of LangChain documents with at least one in it."""
    return isinstance(value, (list, tuple)) and bool(value) and all(hasattr(each, "page_content") for each in value)


def documents_in(value: Any) -> Sequence[Any]:
    """The documents in ``value``: itself, or the entries of a mapping, at most two levels deep."""
    if is_documents(value):
        return list(value)
    if not isinstance(value, dict):
        return ()
    found: list[Any] = []
    for each in value.values():
        if isinstance(each, (list, tuple, dict)):
            inner = each.values() if isinstance(each, dict) else (each,)
            found.extend(document for documents in inner if is_documents(documents) for document in documents)
    return found


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
