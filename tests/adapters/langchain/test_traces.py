"""The scores are written to the chain's own MLflow trace in every mode, and never to another one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import mlflow
import pytest
from langchain_core.runnables import RunnableLambda

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.adapters.langchain.exchange import Exchange
from mlflow_ragmetrics.adapters.langchain.recorder import find_trace

QUESTIONS = [f"question {number}" for number in range(1, 5)]


@pytest.fixture
def autolog() -> Iterator[None]:
    mlflow.langchain.autolog()
    yield
    mlflow.langchain.autolog(disable=True)


@pytest.fixture
def scoring(suite: rm.Suite) -> Iterator[rm.RagMetricsCallback]:
    with rm.RagMetricsCallback(suite) as handler:
        yield handler


def numbers_of_traces() -> list[tuple[int, int]]:
    """For each trace, the number in its request and the number that our feedback found in the answer."""
    mlflow.flush_trace_async_logging()
    found = []
    for trace in mlflow.search_traces(["0"], return_type="list"):
        asked = int(re.findall(r"question (\d+)", str(trace.data.request))[-1])
        values = [each.value for each in trace.info.assessments if each.name == "own_number"]
        found.append((asked, *(round(1000 * value) for value in values)))
    return sorted(found)


MODES = [  # of those that run in the same way, one each time
    *("invoke", "batch", "abatch", "astream"),
    *(pytest.param(mode, marks=pytest.mark.slow) for mode in ("ainvoke", "stream", "astream_events")),
]
SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("graph", "agent", "dict", "nested", "artifact")]


@pytest.mark.parametrize("kind", ["plain", *SLOW], indirect=True)
@pytest.mark.parametrize("mode", MODES, indirect=True)
def test_every_mode(autolog: None, ask: Callable[..., None], scoring: Any) -> None:
    ask(QUESTIONS, {"callbacks": [scoring]})

    assert scoring.flush(30)
    assert scoring.counts["withheld"] == 0
    assert numbers_of_traces() == [(number, number) for number in range(1, 5)]


@pytest.mark.parametrize("kind", ["plain"], indirect=True)
@pytest.mark.parametrize("mode", ["invoke", "batch", "astream"], indirect=True)
def test_without_autologging_there_are_new_traces(ask: Callable[..., None], scoring: Any) -> None:
    ask(QUESTIONS, {"callbacks": [scoring]})

    assert scoring.flush(30)
    assert scoring.counts["scored"] == 4
    assert (scoring.counts["unwritten"], scoring.counts["withheld"]) == (0, 0)
    assert numbers_of_traces() == [(number, number) for number in range(1, 5)]


def test_a_span_of_the_application_around_the_call(scoring: Any, plain: Any) -> None:
    with mlflow.start_span("request") as span:
        span.set_inputs("question 3")
        plain.invoke("question 3", {"callbacks": [scoring]})

    assert scoring.flush(30)
    assert numbers_of_traces() == [(3, 3)]


def test_the_tracer_may_come_before_the_handler(scoring: Any, plain: Any) -> None:
    from mlflow.langchain.langchain_tracer import MlflowLangchainTracer

    for question in QUESTIONS:
        plain.invoke(question, {"callbacks": [MlflowLangchainTracer(), scoring]})

    assert scoring.flush(30)
    assert numbers_of_traces() == [(number, number) for number in range(1, 5)]


def test_a_trace_that_cannot_be_told_is_not_guessed(
    autolog: None, scoring: Any, plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.langchain.langchain_tracer import MlflowLangchainTracer

    class Hidden(MlflowLangchainTracer):
        """A future MLflow that stores its spans elsewhere."""

        def __getattribute__(self, name: str) -> Any:
            found = super().__getattribute__(name)
            return {} if name == "_run_span_mapping" and "find_trace" in _callers() else found

    plain.batch(QUESTIONS[:2], {"callbacks": [scoring, Hidden()]})

    assert scoring.flush(30)
    assert scoring.counts["withheld"] == 2
    assert [len(each) for each in numbers_of_traces()] == [1, 1]


def _callers() -> set[str]:
    import sys

    frame, names = sys._getframe(), set()
    while frame is not None:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    return names


def test_outside_of_an_event_there_is_no_trace() -> None:
    exchange = Exchange(uuid4(), "why", {})
    find_trace(exchange)
    assert (exchange.trace_id, exchange.traceable) == (None, True)


def test_a_failed_call_leaves_its_trace_alone(autolog: None, scoring: Any) -> None:
    def fail(_: str) -> str:
        raise ZeroDivisionError("in the chain")

    with pytest.raises(ZeroDivisionError):
        (RunnableLambda(lambda question: question) | fail).invoke("question 1", {"callbacks": [scoring]})

    assert scoring.flush(30)
    assert numbers_of_traces() == [(1,)]
