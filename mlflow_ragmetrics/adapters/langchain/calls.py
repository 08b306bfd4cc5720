"""Calls of a chain, one a sample, several at once, each with what it asked, retrieved and answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

from langchain_core.runnables import Runnable

from mlflow_ragmetrics.adapters.langchain.capture import Exchange
from mlflow_ragmetrics.adapters.langchain.reading import Reading
from mlflow_ragmetrics.adapters.langchain.recorder import Recorder
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.secrets import redact

__all__ = ["Answered", "ask_all"]


@dataclass(frozen=True)
class Answered:
    """A sample with the chain's answer and contexts, or with the error that the chain raised."""

    sample: Sample
    error: str | None = None


class _Catcher(Recorder):
    """Keeps the one exchange of one call."""

    def __init__(self) -> None:
        super().__init__()
        self.exchange: Exchange | None = None

    def answered(self, exchange: Exchange) -> None:
        """Keep it."""
        self.exchange = self.exchange or exchange

    def broken(self, exchange: Exchange) -> None:
        """Keep it: it leads to the trace of the failure."""
        self.exchange = self.exchange or exchange


@contextmanager
def ask_all(
    chain: Runnable[Any, Any],
    samples: Sequence[Sample],
    make: Callable[[Sample], Any],
    reading: Reading,
    concurrency: int,
) -> Iterator[Iterator[Answered]]:
    """The answers in the order of ``samples``; what has not begun is dropped when the block is left."""
    pool = ThreadPoolExecutor(concurrency, thread_name_prefix="ragmetrics-chain")
    try:
        tasks = [pool.submit(copy_context().run, partial(_ask, chain, each, make, reading)) for each in samples]
        yield (task.result() for task in tasks)
    finally:
        pool.shutdown(cancel_futures=True)


def _ask(chain: Runnable[Any, Any], sample: Sample, make: Callable[[Sample], Any], reading: Reading) -> Answered:
    catcher = _Catcher()
    try:
        outputs = chain.invoke(make(sample), config={"callbacks": [catcher]})
        exchange = catcher.exchange
        if exchange is None:  # a model or a retriever by itself reports no chain
            exchange = Exchange(uuid4(), inputs=None, metadata={}, outputs=outputs)
        found = reading.sample(exchange)
    except Exception as error:  # the chain is the application's: one row's failure is that row's result
        said = redact(" ".join(f"{type(error).__name__}: {error}".split()))
        trace_id = catcher.exchange.trace_id if catcher.exchange is not None else None
        return Answered(replace(sample, metadata={**sample.metadata, **_link_to(trace_id)}), said)
    return Answered(_joined(sample, found))


def _link_to(trace_id: str | None) -> dict[str, str]:
    return {} if trace_id is None else {"trace_id": trace_id}


def _joined(sample: Sample, found: Sample) -> Sample:
    """The sample with what the chain found; references, gold ids and the question are those of the data."""
    invalid = {name: said for name, said in found.invalid.items() if name in ("answer", "contexts")}
    return replace(
        sample,
        answer=found.answer,
        contexts=found.contexts,
        retrieved_doc_ids=found.retrieved_doc_ids,
        metadata={**sample.metadata, **found.metadata},
        invalid={**sample.invalid, **invalid},
    )
