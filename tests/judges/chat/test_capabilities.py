"""Models with fewer features than others, or with another interface."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.rate_limiters import InMemoryRateLimiter

from mlflow_ragmetrics.core.question import Claims
from mlflow_ragmetrics.errors import JudgeError
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from mlflow_ragmetrics.judges.chat.client import JudgeModel
from mlflow_ragmetrics.judges.chat.judge_options import JudgeOptions
from mlflow_ragmetrics.judges.chat.models import open_model
from tests.judges.fake_models import FakeChatModel, dutiful
from tests.judges.misbehaving_server import Fault, misbehaving_server

CLAIMS = Claims("One. Two.")
ANSWER = [("One.", "Two.")]


def test_the_wait_for_a_models_rate_limiter_is_no_timeout() -> None:
    limiter = InMemoryRateLimiter(requests_per_second=1.5, check_every_n_seconds=0.01)
    judge = ChatJudge(dutiful(rate_limiter=limiter), timeout=0.3, attempts=1)
    assert judge.answer([CLAIMS]) == judge.answer([CLAIMS]) == ANSWER


def test_each_request_of_a_given_model_counts() -> None:
    openai = pytest.importorskip("langchain_openai")
    with misbehaving_server(Fault(status=500)) as server:
        model = openai.ChatOpenAI(model="m", api_key="sk-test-0123456789abcdef", base_url=server.url, max_retries=5)
        judge = ChatJudge(model.with_retry(stop_after_attempt=4), retry={"attempts": 2, "initial": 0.01})
        assert judge.answer([CLAIMS]) == ANSWER
    assert judge.usage.snapshot()["calls"] == len(server.requests) == 2


def test_what_a_binding_gives_goes_with_each_call() -> None:
    model = dutiful()
    assert ChatJudge(model.bind(top_k=3)).answer([CLAIMS]) == ANSWER
    assert model.arguments[0]["top_k"] == 3


def test_a_prompt_longer_than_the_window_is_not_sent() -> None:
    model = dutiful(profile={"max_input_tokens": 500})
    (outcome,) = ChatJudge(model).answer([Claims(" ".join(f"Word {n}." for n in range(2000)))])
    assert isinstance(outcome, JudgeError)
    assert outcome.code == "too_long"
    assert not model.sent


@pytest.mark.parametrize(
    ("uri", "temperature"), [("openai:/o3-mini", None), ("openai:gpt-5", None), ("openai:/gpt-4o", 0.0)]
)
def test_reasoning_models_are_given_no_temperature(monkeypatch: Any, uri: str, temperature: float | None) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    model, _ = open_model(uri, JudgeOptions())
    assert model.temperature == temperature
    assert model.max_tokens == (1000 if temperature == 0.0 else 8000)


class Ollama(FakeChatModel):
    """A model with the fields of Ollama's."""

    num_ctx: int | None = None
    num_predict: int | None = None


def test_ollama_has_a_window_that_holds_the_prompt_and_never_shrinks() -> None:
    judged = JudgeModel(Ollama(reply=None), {})
    for letters, window in ((3, 4096), (60_000, 32768), (3, 32768)):
        model, sent = judged.for_call({"temperature", "system"}, [("human", "x" * letters)], {}, {"max_tokens": 600})
        assert (model.num_predict, model.num_ctx, sent) == (600, window, {})
