"""LangChain documents: found in what chains give back, and as a sample's chunks without repetitions."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from mlflow_ragmetrics.core.sample import Chunk
from mlflow_ragmetrics.records.aliases import ALIASES
from mlflow_ragmetrics.records.chunks import chunks_of

__all__ = ["chunks_in", "distinct", "documents_in", "is_documents", "Capture", "Exchange"]


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


_CLOSED = 1000


@dataclass(eq=False)
class Exchange:
    """One call of a chain: raw inputs and outputs, and the documents that came by on the way.

    ``retrievals`` has one entry a retriever that ran, in the order in which they began; ``returned`` the documents
    that tools and other steps gave back. ``trace_id`` is that of the chain's MLflow trace, and ``traceable`` False
    where there is a trace whose id cannot be told. ``tracking_run`` is the MLflow run that was active.
    """

    run_id: UUID
    inputs: Any
    metadata: Mapping[str, Any]
    outputs: Any = None
    error: BaseException | None = None
    retrievals: dict[UUID, Sequence[Any]] = field(default_factory=dict)
    returned: list[Any] = field(default_factory=list)
    trace_id: str | None = None
    traceable: bool = True
    tracking_run: str | None = None
    began: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0
    open_runs: set[UUID] = field(default_factory=set)


@dataclass(frozen=True)
class _Open:
    """A run that has not ended: whose it is (``None``: no chain's) and whether a retriever called it."""

    exchange: Exchange | None
    inside_retriever: bool = False


class Capture:
    """Follows all runs below a handler by their ids; safe to call from many threads at once.

    The outermost chain that the handler sees is an exchange. What a retriever asks of other retrievers is its own
    business: only the outermost retriever's documents count.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[UUID, _Open] = {}
        self._closed: OrderedDict[UUID, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def is_open(self) -> bool:
        """Whether any chain is running."""
        return bool(self._open)

    def begin_chain(
        self, run_id: UUID, parent: UUID | None, inputs: Any, metadata: Mapping[str, Any] | None
    ) -> Exchange | None:
        """A chain begins; returns the exchange when it is an outermost one."""
        with self._lock:
            above = self._above(parent)
            if above is not None:
                self._put(run_id, above)
                return None
            exchange = Exchange(run_id, inputs, metadata or {})
            self._put(run_id, _Open(exchange))
            return exchange

    def begin_step(self, run_id: UUID, parent: UUID | None, *, retriever: bool = False) -> None:
        """A tool or a retriever begins."""
        with self._lock:
            above = self._above(parent) or _Open(None)
            self._put(run_id, _Open(above.exchange, above.inside_retriever or retriever))
            if retriever and above.exchange is not None and not above.inside_retriever:
                above.exchange.retrievals[run_id] = ()

    def end_retriever(self, run_id: UUID, documents: Sequence[Any]) -> None:
        """A retriever ends with these documents, best first."""
        with self._lock:
            run = self._take(run_id)
            if run is not None and run.exchange is not None and run_id in run.exchange.retrievals:
                run.exchange.retrievals[run_id] = documents

    def end_step(self, run_id: UUID, documents: Sequence[Any] = ()) -> None:
        """A tool, or a chain inside another, ends; ``documents`` are what it gave back."""
        with self._lock:
            run = self._take(run_id)
            if documents and run is not None and run.exchange is not None and not run.inside_retriever:
                run.exchange.returned.extend(documents)

    def fail_step(self, run_id: UUID) -> None:
        """A tool or a retriever fails: it gave nothing."""
        with self._lock:
            run = self._take(run_id)
            if run is not None and run.exchange is not None:
                run.exchange.retrievals.pop(run_id, None)

    def exchange_of(self, run_id: UUID) -> Exchange | None:
        """The exchange whose outermost chain this run is, if it is one."""
        run = self._open.get(run_id)
        return run.exchange if run is not None and run.exchange is not None and run.exchange.run_id == run_id else None

    def end_exchange(self, exchange: Exchange) -> None:
        """The outermost chain ends: nothing of it is kept here, whatever of its steps has not ended."""
        exchange.seconds = time.perf_counter() - exchange.began
        with self._lock:
            for run_id in exchange.open_runs:
                del self._open[run_id]
                self._closed[run_id] = None
            exchange.open_runs.clear()
            while len(self._closed) > _CLOSED:
                self._closed.popitem(last=False)

    def _put(self, run_id: UUID, run: _Open) -> None:
        self._open[run_id] = run
        if run.exchange is not None:
            run.exchange.open_runs.add(run_id)

    def _take(self, run_id: UUID) -> _Open | None:
        run = self._open.pop(run_id, None)
        if run is not None and run.exchange is not None:
            run.exchange.open_runs.discard(run_id)
        return run

    def _above(self, parent: UUID | None) -> _Open | None:
        """What the parent belongs to; ``None`` where there is none, or where it began above the handler."""
        if parent is None:
            return None
        if parent in self._closed:  # a step that outlived its chain, as in a stream that was left
            return _Open(None)
        return self._open.get(parent)
