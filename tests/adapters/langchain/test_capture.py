"""Events of concurrent calls may interleave in any order: each call keeps its own events, and nothing is left over."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.adapters.langchain.recorder import Capture, Exchange


def uid(*numbers: int) -> UUID:
    return UUID(int=sum(1000**place * (number + 1) for place, number in enumerate(numbers)))


def events_of(call: int, retrievers: int, ended: bool) -> list[Any]:
    """The events of one call: a chain with a tool that contains retrievers; the tool may never end."""
    root, tool = uid(call), uid(call, 0)
    steps: list[Any] = [
        lambda capture: capture.begin_chain(root, None, call, {}),
        lambda capture: capture.begin_step(tool, root, "tool"),
    ]
    for number in range(retrievers):
        run = uid(call, 0, number)
        steps.append(lambda capture, run=run: capture.begin_step(run, tool, "retriever", ()))
        steps.append(lambda capture, run=run, number=number: capture.end_step(run, [(call, number)]))
    if ended:
        steps.append(lambda capture: capture.end_step(tool))
    steps.append(lambda capture: _ended(capture, root))
    return steps


def _ended(capture: Capture, root: UUID) -> Exchange:
    exchange = capture.exchange_of(root)
    assert exchange is not None
    capture.end_exchange(exchange)
    return exchange


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=5), st.randoms())
def test_interleaved_calls(calls: list[tuple[int, bool]], random: Any) -> None:
    queues = [events_of(call, retrievers, ended) for call, (retrievers, ended) in enumerate(calls)]
    capture, exchanges = Capture(), []
    while any(queues):
        outcome = random.choice([queue for queue in queues if queue]).pop(0)(capture)
        exchanges += [outcome] if isinstance(outcome, Exchange) and not outcome.open_runs else []

    assert len(capture) == 0
    assert len(exchanges) == len(calls)
    for exchange in exchanges:
        found = [each for step in exchange.steps if step.kind == "retriever" for each in step.value]
        assert found == [(exchange.inputs, number) for number in range(calls[exchange.inputs][0])]


def test_a_step_that_outlives_its_chain_is_no_chain() -> None:
    capture = Capture()
    exchange = capture.begin_chain(uid(1), None, "why", None)
    assert exchange is not None
    capture.end_exchange(exchange)
    assert capture.begin_chain(uid(2), uid(1), "late", None) is None
    capture.end_step(uid(2), ["document"])
    assert (len(capture), exchange.steps) == (0, [])


def test_a_chain_whose_parent_began_above_the_handler_is_outermost() -> None:
    capture = Capture()
    assert capture.begin_chain(uid(2), uid(1), "why", None) is not None


def test_a_failed_retriever_gave_nothing() -> None:
    capture = Capture()
    exchange = capture.begin_chain(uid(1), None, "why", None)
    assert exchange is not None
    capture.begin_step(uid(2), uid(1), "retriever", ())
    capture.fail_step(uid(2), ValueError("closed"))
    assert exchange.is_within(uid(2), exchange.failed)


def test_what_is_remembered_of_closed_chains_is_bounded() -> None:
    capture = Capture()
    for number in range(3000):
        exchange = capture.begin_chain(uid(number), None, "why", None)
        assert exchange is not None
        capture.end_exchange(exchange)
    assert len(capture._closed) <= 1000


def test_a_run_id_may_be_used_again() -> None:
    capture = Capture()
    for _ in range(2):
        exchange = capture.begin_chain(uid(1), None, "why", None)
        assert exchange is not None
        capture.begin_step(uid(2), uid(1), "retriever", ())
        capture.end_step(uid(2), ("a passage",))
        capture.end_exchange(exchange)
        assert [step.value for step in exchange.steps] == [("a passage",)]
