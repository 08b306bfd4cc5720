"""The cost of background scoring for a chain: added latency per call, and memory after many calls.

Run: ``python tests/benchmarks/callback_latency.py [calls] [calls for memory] [--log]``. Blocks of calls with and
without the handler alternate, so that other work on the machine affects both equally; scoring competes only with its
own calls. With ``--log`` the answers go through the outbox into an MLflow store, otherwise into a sink that does
nothing.
"""

from __future__ import annotations

import gc
import os
import resource
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import SimpleChatModel
from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough

import mlflow_ragmetrics as rm

BLOCK = 50
TEXT = "The lighthouse was built in 1869 and stands on the northern cape. " * 8


class Shelf(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(page_content=f"{TEXT}{number}", id=str(number)) for number in range(4)]


@rm.metric
def brevity(answer: str) -> float:
    """1.0 for an answer of at most 20 words, proportionally less for longer ones."""
    return min(1.0, 20 / max(1, len(answer.split())))


class Keeper(SimpleChatModel):
    """A model that takes no time."""

    @property
    def _llm_type(self) -> str:
        return "keeper"

    def _call(self, messages: list[BaseMessage], *_: Any, **__: Any) -> str:
        return "The lighthouse was built in 1869."


def made_chain() -> Runnable[Any, Any]:
    """Retrieve, fill a prompt, call a model, take its text: nine runs, all visible to the handler."""
    joined = Shelf() | (lambda found: "\n\n".join(document.page_content for document in found))
    prompt = ChatPromptTemplate.from_messages([("system", "Answer from:\n\n{context}"), ("human", "{question}")])
    return {"context": joined, "question": RunnablePassthrough()} | prompt | Keeper() | StrOutputParser()


def seconds_of(chain: Runnable[Any, Any], question: str, callbacks: list[Any]) -> tuple[float, float]:
    """The duration of a call, and the CPU time of its thread, which other threads and processes do not affect."""
    began, computing = time.perf_counter(), time.thread_time()
    chain.invoke(question, {"callbacks": callbacks})
    return time.perf_counter() - began, time.thread_time() - computing


def print_latency(calls: int, metrics: Sequence[Any], *, log: bool) -> None:
    chain = made_chain()
    bare: list[tuple[float, float]] = []
    idle: list[tuple[float, float]] = []
    scored: list[tuple[float, float]] = []
    with rm.RagMetricsCallback(rm.Suite(metrics), **into(log=log)) as handler:
        for start in range(0, calls + BLOCK, BLOCK):
            questions = [f"question {start + number}" for number in range(BLOCK)]
            bare += [seconds_of(chain, question, []) for question in questions]
            idle += [seconds_of(chain, question, [BaseCallbackHandler()]) for question in questions]
            scored += [seconds_of(chain, question, [handler]) for question in questions]
            handler.flush()
    before, noop, after = (sorted(1000 * each for each, _ in times[BLOCK:]) for times in (bare, idle, scored))
    added = statistics.median(after) - statistics.median(before)
    names = ", ".join(str(metric) for metric in metrics)
    print(f"{calls} calls, scored by {names}: {handler.counts}")
    for name, times in (("without", before), ("with", after)):
        late = times[int(0.95 * len(times))]
        print(
            f"  a call {name:8} median {statistics.median(times):.3f} ms, mean {statistics.fmean(times):.3f} ms, "
            f"p95 {late:.3f} ms"
        )
    ratio = statistics.median(after) / statistics.median(noop)
    paired, own = (statistics.median(ratios(scored, idle, place)) for place in (0, 1))
    print(
        f"  ratio to a handler that does nothing: median {ratio:.2f}, of blocks side by side {paired:.2f} (bar: 1.3), "
        f"load {os.getloadavg()[0]:.1f}; computing in the caller's thread {own:.2f}"
    )
    print(f"  added to a call: median {added:.3f} ms, mean {statistics.fmean(after) - statistics.fmean(before):.3f} ms")


def ratios(scored: Sequence[tuple[float, float]], idle: Sequence[tuple[float, float]], place: int) -> list[float]:
    """For each block, the median call with the handler divided by that with an idle handler just before."""
    starts = range(BLOCK, len(scored), BLOCK)
    medians = [
        [statistics.median(each[place] for each in times[at : at + BLOCK]) for at in starts] for times in (scored, idle)
    ]
    return [ours / theirs for ours, theirs in zip(*medians, strict=True)]


def into(*, log: bool) -> dict[str, Any]:
    return {"log": True} if log else {"sink": lambda *_: None}


def print_memory(calls: int, *, log: bool) -> None:
    chain = made_chain()
    with rm.RagMetricsCallback(rm.Suite([brevity]), **into(log=log)) as handler:
        config: Any = {"callbacks": [handler]}
        chain.batch([f"question {number}" for number in range(500)], config)
        handler.flush(600)  # waiting answers do not count as growth
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for start in range(0, calls, 100):
            chain.batch([f"question {start + number}" for number in range(100)], config)
            handler.flush(600)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"after {calls} calls: Python memory {grown / 2**20:+.2f} MiB (bar: 3), open runs {len(handler.capture)}")
    print(f"  greatest resident size {resident:.0f} MiB, counts {handler.counts}")


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:] if argument != "--log"]
    calls, many = [*given, *(1000, 10000)[len(given) :]]
    is_logged = "--log" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        if is_logged:
            import mlflow

            mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
            mlflow.create_experiment("latency", folder)
            mlflow.set_experiment("latency")
        print_latency(calls, [brevity], log=is_logged)
        print_latency(calls, ["lexical_relevance", "faithfulness"], log=is_logged)
        print_memory(many, log=is_logged)
