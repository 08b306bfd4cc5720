"""The judge's model calls reach neither the application's callbacks nor its traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import mlflow
import pytest
from langchain_core.callbacks import BaseCallbackHandler

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.adapters.langchain.handler import untraced_suite
from mlflow_ragmetrics.core.question import Outcome, Question, Rating


class Witness(BaseCallbackHandler):
    """Records every model call that it is notified of."""

    def __init__(self) -> None:
        self.calls = 0

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        self.calls += 1


class ModelJudge(rm.Judge):
    """Asks a chat model, as remote judges do."""

    name = "model"
    fingerprint = "model-1"

    def __init__(self, model: Any, *, local: bool) -> None:
        self.model = model
        self.local = local
        self.asked = 0

    def answer(self, questions: Sequence[Question]) -> list[Outcome]:
        self.asked += len(questions)
        for _ in questions:
            self.model.invoke("judge this")
        return [Rating(5) for _ in questions]


@pytest.fixture(autouse=True)
def autolog() -> Iterator[None]:
    mlflow.langchain.autolog()
    yield
    mlflow.langchain.autolog(disable=True)


def judged(local: bool, plain: Any, scholar: Any) -> tuple[ModelJudge, Witness, list[str]]:
    witness = Witness()
    judge = ModelJudge(scholar(), local=local)
    suite = rm.Suite(["answer_relevance"], judge=judge)
    with rm.RagMetricsCallback(suite, sink=lambda *_: None) as handler:
        plain.batch(["question 1", "question 2"], {"callbacks": [witness, handler]})
    mlflow.flush_trace_async_logging()
    traces = mlflow.search_traces(["0"], return_type="list")
    return judge, witness, [str(trace.data.request) for trace in traces]


@pytest.mark.parametrize("local", [True, False])
def test_judges_are_quiet(plain: Any, scholar: Any, local: bool) -> None:
    judge, witness, requests = judged(local, plain, scholar)

    assert judge.asked == 2
    assert witness.calls == 2  # the chain's own model calls
    assert sorted(requests) == ['"question 1"', '"question 2"']


def test_a_quiet_judge_is_the_same_judge(scholar: Any) -> None:
    judge = ModelJudge(scholar(), local=True)
    suite = rm.Suite(["answer_relevance"], judge=judge)
    quiet = untraced_suite(suite)
    assert (quiet.judges[0].name, quiet.judges[0].fingerprint, quiet.judges[0].local) == ("model", "model-1", True)
    assert suite.judges == [judge]
    assert quiet.describe() == suite.describe()


def test_the_offline_judge_has_nothing_to_be_traced_and_stays_itself() -> None:
    suite = rm.Suite(["faithfulness"], judge=["lexical", ModelJudge(None, local=False)])
    quiet = untraced_suite(suite)
    assert [one is other for one, other in zip(quiet.judges, suite.judges, strict=True)] == [True, False]
