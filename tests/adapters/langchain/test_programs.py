"""Programs of every kind are scored once, with the right fields, even if the answer repeats a passage verbatim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import mlflow
import pytest

import mlflow_ragmetrics as rm
from tests.adapters.langchain import programs
from tests.adapters.langchain.programs import ANSWER, PROGRAMS, A


@rm.metric
def is_short(answer: str) -> bool:
    """Whether the answer has at most a hundred characters."""
    return len(answer) <= 100


@rm.metric
def context_share(contexts: Sequence[str]) -> float:
    """One over the number of chunks."""
    return 1.0 / max(1, len(contexts))


@pytest.fixture
def suite() -> rm.Suite:
    return rm.Suite([is_short, context_share], judge=rm.ScriptedJudge())


@pytest.fixture
def autolog() -> Iterator[None]:
    mlflow.langchain.autolog()
    yield
    mlflow.langchain.autolog(disable=True)


CASES = [pytest.param(name, marks=() if place % 6 == 0 else pytest.mark.slow) for place, name in enumerate(PROGRAMS)]


@pytest.mark.parametrize(
    "said", [pytest.param(ANSWER, id="", marks=pytest.mark.slow), pytest.param(A.page_content, id="quoted")]
)
@pytest.mark.parametrize("name", CASES)
def test_program(
    name: str, said: str, autolog: None, suite: rm.Suite, collected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = PROGRAMS[name]
    if not program.runs_here:
        pytest.skip(f"{program.needs} is not installed")
    monkeypatch.setattr(programs, "ANSWER", said)
    with rm.RagMetricsCallback(suite, sink=collected, **program.options) as handler:
        program.build()({"callbacks": [handler]})

    assert handler.counts["seen"] == program.calls
    assert handler.open_runs == {}
    if program.answer is None:
        assert (len(collected), handler.counts["skipped"]) == (0, 1)
        return
    assert len(collected) == handler.counts["scored"] == program.calls
    for sample, scores in collected:
        assert (sample.question, sample.answer) == (program.question, program.answer.replace(ANSWER, said))
        assert sample.texts == program.seen
        assert program.retrieved is None or sample.retrieved_doc_ids == tuple(program.retrieved)
        if program.seen is None:
            assert "name them with contexts=" in scores["context_share"].reason
    traces = {sample.metadata["trace_id"] for sample, _ in collected}
    assert len(traces) == program.calls
    assert mlflow.get_last_active_trace_id() in traces
