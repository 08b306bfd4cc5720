from __future__ import annotations

import sys
from typing import Any

import pytest

from mlflow_ragmetrics.errors import InvalidOptionError, MissingExtraError
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from mlflow_ragmetrics.judges.chat.judge_options import JudgeOptions
from mlflow_ragmetrics.judges.chat.models import name_of, open_model
from tests.judges.fake_models import dutiful


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The arguments of LangChain's ``init_chat_model``."""
    import langchain.chat_models

    calls: list[dict[str, Any]] = []

    def init_chat_model(model: str, **options: Any) -> Any:
        calls.append({"model": model, **options})
        return dutiful()

    monkeypatch.setattr(langchain.chat_models, "init_chat_model", init_chat_model)
    return calls


@pytest.mark.parametrize(
    ("uri", "provider", "model"),
    [
        ("openai:/gpt-4o-mini", "openai", "gpt-4o-mini"),
        ("openai://gpt-4o-mini", "openai", "gpt-4o-mini"),
        ("openai:gpt-4o-mini", "openai", "gpt-4o-mini"),
        ("gemini:/gemini-2.5-flash", "google_genai", "gemini-2.5-flash"),
        ("mistral:/mistral-small", "mistralai", "mistral-small"),
        ("azure:/gpt-4o", "azure_openai", "gpt-4o"),
        ("togetherai:/meta-llama/Llama-3", "together", "meta-llama/Llama-3"),
        ("vertex_ai:/gemini-pro", "google_vertexai", "gemini-pro"),
        ("ollama:/llama3:8b", "ollama", "llama3:8b"),
    ],
)
def test_a_uri_is_made_by_langchain(made: list[dict[str, Any]], uri: str, provider: str, model: str) -> None:
    open_model(uri, JudgeOptions(timeout=60.0))
    (call,) = made
    assert (call["model_provider"], call["model"]) == (provider, model)
    assert call["temperature"] == 0.0
    if provider == "ollama":
        assert (call["num_predict"], call["client_kwargs"]) == (1000, {"timeout": 60.0})
    else:
        once = 1 if provider.startswith("google") else 0
        assert (call["max_tokens"], call["max_retries"], call["timeout"]) == (1000, once, 60.0)


def test_options_reach_the_model(made: list[dict[str, Any]]) -> None:
    ChatJudge("openai:/m", temperature=0.3, max_tokens=50, seed=7, base_url="http://localhost:1/v1")
    (call,) = made
    wanted = {"temperature": 0.3, "max_tokens": 50, "seed": 7, "base_url": "http://localhost:1/v1"}
    assert wanted.items() <= call.items()


@pytest.mark.parametrize("uri", ["gpt-4o", "openai/gpt-4o", ":/x", "openai:/", "openai:", "C:/x"])
def test_what_is_no_uri_is_refused_with_an_example(uri: str) -> None:
    with pytest.raises(InvalidOptionError, match="openai:/gpt-4o-mini"):
        open_model(uri, JudgeOptions())


def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingExtraError, match="langchain-anthropic"):
        open_model("anthropic:/claude-sonnet", JudgeOptions())
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mlflow_ragmetrics\[langchain\]"):
        open_model("openai:/gpt-4o-mini", JudgeOptions())


def test_a_missing_key_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidOptionError, match="openai:/gpt-4o-mini"):
        open_model("openai:/gpt-4o-mini", JudgeOptions())


def test_a_chat_model_keeps_its_own_options() -> None:
    model = dutiful(model="own")
    assert open_model(model, JudgeOptions(timeout=3.0)) == (model, {})
    assert open_model(model, JudgeOptions(temperature=0.5))[1] == {"temperature": 0.5}
    assert (name_of(model), name_of("openai:/x"), name_of(object())) == ("own", "openai:/x", "object")
    with pytest.raises(InvalidOptionError, match="base_url"):
        open_model(model, JudgeOptions(base_url="http://h"))
    with pytest.raises(InvalidOptionError, match="int"):
        open_model(3, JudgeOptions())


@pytest.mark.parametrize(
    ("uri", "address", "key"),
    [
        ("gateway:/a", "http://tracking:1/gateway/mlflow/v1", "none"),
        ("endpoints:/a", "http://target:2/v1", "none"),
        ("databricks:/a", "https://a.example/serving-endpoints", "secret-token"),
    ],
)
def test_endpoints_of_mlflow_are_asked_as_openai_is(
    made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, uri: str, address: str, key: str
) -> None:
    monkeypatch.setattr("mlflow.tracking.get_tracking_uri", lambda: "http://tracking:1")
    monkeypatch.setenv("MLFLOW_DEPLOYMENTS_TARGET", "http://target:2")
    monkeypatch.setenv("DATABRICKS_HOST", "https://a.example")
    monkeypatch.setenv("DATABRICKS_TOKEN", "secret-token")
    open_model(uri, JudgeOptions())
    (call,) = made
    assert (call["model_provider"], call["base_url"], call["api_key"], call["model"]) == ("openai", address, key, "a")


def test_what_escapes_limits_or_has_no_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = dutiful()
    with pytest.raises(InvalidOptionError, match="fallbacks cannot be a judge"):
        open_model(model.with_fallbacks([model]), JudgeOptions())
    monkeypatch.delenv("DATABRICKS_HOST", raising=False)
    with pytest.raises(InvalidOptionError, match="set DATABRICKS_HOST"):
        open_model("databricks:/a", JudgeOptions())
