"""Events of concurrent calls may interleave in any order: each call keeps its own events, and nothing is left over."""

from __future__ import annotations

import time
from itertools import count
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.adapters.langchain.exchange import Exchange
from mlflow_ragmetrics.adapters.langchain.recorder import Recorder


def uid(*numbers: int) -> UUID:
    return UUID(int=sum(1000**place * (number + 1) for place, number in enumerate(numbers)))


class Recording(Recorder):
    """Stores all exchanges."""

    def __init__(self) -> None:
        super().__init__()
        self.exchanges: list[Exchange] = []

    def ended(self, exchange: Exchange, *, failed: bool = False) -> None:
        self.exchanges.append(exchange)


def events_of(call: int, retrievers: int, ended: bool) -> list[Any]:
    """The events of one call: a chain with a tool that contains retrievers; the tool may never end."""
    root, tool = uid(call), uid(call, 0)
    steps: list[Any] = [
        lambda recorder: recorder.on_chain_start(None, call, run_id=root),
        lambda recorder: recorder.on_tool_start(None, "", run_id=tool, parent_run_id=root),
    ]
    for number in range(retrievers):
        run = uid(call, 0, number)
        steps.append(lambda recorder, run=run: recorder.on_retriever_start(None, "why", run_id=run, parent_run_id=tool))
        steps.append(lambda recorder, run=run, number=number: recorder.on_retriever_end([(call, number)], run_id=run))
    if ended:
        steps.append(lambda recorder: recorder.on_tool_end(None, run_id=tool))
    steps.append(lambda recorder: recorder.on_chain_end("so", run_id=root))
    return steps


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=5), st.randoms())
def test_interleaved_calls(calls: list[tuple[int, bool]], random: Any) -> None:
    queues = [events_of(call, retrievers, ended) for call, (retrievers, ended) in enumerate(calls)]
    recorder = Recording()
    while any(queues):
        random.choice([queue for queue in queues if queue]).pop(0)(recorder)

    assert recorder.open_runs == {}
    assert len(recorder.exchanges) == len(calls)
    for exchange in recorder.exchanges:
        found = [each for step in exchange.steps if step.kind == "retriever" for each in step.value]
        assert found == [(exchange.inputs, number) for number in range(calls[exchange.inputs][0])]


def test_a_step_that_outlives_its_chain_is_no_chain() -> None:
    recorder = Recording()
    recorder.on_chain_start(None, "why", run_id=uid(1))
    recorder.on_chain_end("so", run_id=uid(1))
    recorder.on_chain_start(None, "late", run_id=uid(2), parent_run_id=uid(1))
    recorder.on_chain_end(["document"], run_id=uid(2))
    (exchange,) = recorder.exchanges
    assert (recorder.open_runs, exchange.steps) == ({}, [])


def test_a_chain_whose_parent_began_above_the_handler_is_outermost() -> None:
    recorder = Recording()
    recorder.on_chain_start(None, "why", run_id=uid(2), parent_run_id=uid(1))
    recorder.on_chain_end("so", run_id=uid(2))
    assert len(recorder.exchanges) == 1


def test_a_failed_retriever_gave_nothing() -> None:
    recorder = Recording()
    recorder.on_chain_start(None, "why", run_id=uid(1))
    recorder.on_retriever_start(None, "why", run_id=uid(2), parent_run_id=uid(1))
    recorder.on_retriever_error(ValueError("closed"), run_id=uid(2))
    recorder.on_chain_end("so", run_id=uid(1))
    (exchange,) = recorder.exchanges
    assert exchange.is_within(uid(2), exchange.failed)


def test_a_run_id_may_be_used_again() -> None:
    recorder = Recording()
    for _ in range(2):
        recorder.on_chain_start(None, "why", run_id=uid(1))
        recorder.on_retriever_start(None, "why", run_id=uid(2), parent_run_id=uid(1))
        recorder.on_retriever_end(["a passage"], run_id=uid(2))
        recorder.on_chain_end("so", run_id=uid(1))
    assert [[step.value for step in each.steps] for each in recorder.exchanges] == [[("a passage",)]] * 2


def test_the_end_of_a_call_takes_no_longer_while_others_are_open() -> None:
    recorder, numbers = Recording(), count(1)

    def begun() -> UUID:
        root = uid(next(numbers))
        recorder.on_chain_start(None, "why", run_id=root)
        for _ in range(5):
            recorder.on_chain_start(None, "why", run_id=uid(next(numbers)), parent_run_id=root)
        return root

    def shortest() -> float:
        times = []
        for _ in range(50):
            root, start = begun(), time.perf_counter()
            recorder.on_chain_end("so", run_id=root)
            times.append(time.perf_counter() - start)
        return min(times)

    alone = shortest()
    for _ in range(2000):
        begun()
    assert shortest() < 20 * alone
