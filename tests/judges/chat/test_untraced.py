from __future__ import annotations

import time
from typing import Any

import mlflow
import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableLambda

from mlflow_ragmetrics.core.question import Claims
from mlflow_ragmetrics.errors import JudgeError
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from tests.judges.fake_models import dutiful
from tests.judges.misbehaving_server import misbehaving_server


class Listener(BaseCallbackHandler):
    """Counts the model calls that it is notified of."""

    def __init__(self) -> None:
        self.heard = 0

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.heard += 1


def traces() -> int:
    mlflow.flush_trace_async_logging()
    return len(mlflow.search_traces(return_type="list"))


def test_a_call_that_hangs_is_left() -> None:
    began = time.perf_counter()
    (failure,) = ChatJudge(dutiful(latency=30.0), timeout=0.05, attempts=1).answer([Claims("One.")])
    assert isinstance(failure, JudgeError)
    assert (failure.code, "0.05 s" in str(failure)) == ("timeout", True)
    assert time.perf_counter() - began < 10


def test_a_judge_asked_inside_a_chain_tells_its_callbacks_nothing() -> None:
    listener = Listener()
    judge = ChatJudge(dutiful())
    chain = RunnableLambda(lambda text: judge.answer([Claims(text)]))
    assert chain.invoke("One.", config={"callbacks": [listener]}) == [("One.",)]
    assert listener.heard == 0


@pytest.mark.slow
def test_a_judges_calls_leave_no_trace_where_a_chains_do(mlflow_store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow.langchain.autolog()
    mlflow.openai.autolog()
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    try:
        model = dutiful()
        with misbehaving_server() as server:
            with mlflow.start_span("app"):
                ChatJudge(model).answer([Claims("One.")])
            assert traces() == 1
            ChatJudge(model).answer([Claims("Two.")])
            ChatJudge("openai:/local", base_url=server.url).answer([Claims("Three.")])
            assert traces() == 1
            (app,) = mlflow.search_traces(return_type="list")
            assert [span.name for span in app.data.spans] == ["app"]
            ChatJudge(model, trace=True).answer([Claims("Four.")])
            assert traces() == 2
    finally:
        mlflow.langchain.autolog(disable=True)
        mlflow.openai.autolog(disable=True)
