"""Everything that affects a model's requests, and nothing else, changes the key of its stored answers."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.rate_limiters import InMemoryRateLimiter
from langchain_core.runnables import RunnableLambda
from pydantic import Field, PrivateAttr, SecretStr

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from mlflow_ragmetrics.judges.chat.judge_options import JudgeOptions
from mlflow_ragmetrics.judges.chat.models import UnidentifiedError, identity_of, open_model
from tests.judges.fake_models import dutiful

KEY = "sk-test-0123456789abcdef"
OTHER_KEY = "sk-test-fedcba9876543210"
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "openai": ("langchain_openai", "ChatOpenAI", {"model": "m", "api_key": KEY}),
    "azure": (
        "langchain_openai",
        "AzureChatOpenAI",
        {"azure_endpoint": "http://h", "api_key": KEY, "api_version": "1", "azure_deployment": "d"},
    ),
}
SECRETS = {"openai_api_key", "azure_ad_token", "azure_ad_token_provider", "azure_ad_async_token_provider"}
NOT_SENT = {
    "name", "cache", "verbose", "callbacks", "tags", "metadata", "custom_get_token_ids", "rate_limiter", "profile",
    "streaming", "disable_streaming", "stream_usage", "stream_chunk_timeout", "request_timeout", "max_retries",
    "http_client", "http_async_client", "http_socket_options", "include_response_headers", "tiktoken_model_name",
    "validate_base_url",
    "client", "async_client", "root_client", "root_async_client",
}  # fmt: skip
# these affect the client that a model creates, so the test below creates another model
BY_THE_CLIENT = {"openai_api_base", "azure_endpoint", "openai_organization"}


def made(which: str, **options: Any) -> Any:
    package, kind, fixed = MODELS[which]
    pytest.importorskip(package)
    return getattr(importlib.import_module(package), kind)(**{**fixed, **options})


def key_of(model: Any) -> str:
    opened, arguments = open_model(model, JudgeOptions())
    return identity_of("judge", opened, arguments)


@pytest.mark.parametrize("which", MODELS)
def test_every_field_that_reaches_the_request_changes_the_key_and_no_other_does(which: str) -> None:
    model = made(which)
    key = key_of(model)
    assert key == key_of(made(which))
    changing, not_changing = set(), set()
    for field in type(model).model_fields:
        if field in BY_THE_CLIENT or field in ("client", "root_client"):
            continue
        now = getattr(model, field)
        special: dict[str, Any] = {"timeout": 7, "proxy": "http://p:1", "headers": {"x": "1"}}
        fitting = next((value for part, value in special.items() if part in field), "another")
        fitting = SecretStr("another") if field in SECRETS else fitting
        other: Any = {"another": 1} if isinstance(now, dict) else fitting
        copy = model.model_copy(update={field: InMemoryRateLimiter() if field == "rate_limiter" else other})
        (changing if identity_of("judge", copy, {}) != key else not_changing).add(field)
    assert not_changing <= SECRETS | NOT_SENT
    assert not changing & (SECRETS | NOT_SENT)


@pytest.mark.parametrize(
    ("which", "option"),
    [("openai", "base_url"), ("azure", "azure_endpoint"), ("openai", "organization")],
)
def test_another_address_is_another_key(which: str, option: str) -> None:
    assert key_of(made(which)) != key_of(made(which, **{option: "http://127.0.0.1:9/v1"}))


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
def test_the_same_address_by_another_variable_is_the_same_key(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    plain, given = key_of(made("openai")), key_of(made("openai", base_url="http://127.0.0.1:9/v1"))
    monkeypatch.setenv(variable, "http://127.0.0.1:9/v1")
    assert key_of(made("openai")) == given != plain


def test_bindings_and_fallbacks_decide_and_retries_do_not() -> None:
    model = made("openai")
    other = made("openai", temperature=0.7)
    keys = [
        key_of(each)
        for each in (
            model,
            model.bind(model="n"),
            model.bind(temperature=0.3),
            other,
        )
    ]
    assert len(set(keys)) == len(keys)
    assert key_of(model.with_retry()) == key_of(model.with_config(tags=["x"])) == keys[0]
    assert (
        key_of(model.bind(seed=1).with_retry()) == key_of(model.with_retry().bind(seed=1)) == key_of(model.bind(seed=1))
    )
    assert key_of(model.bind(timeout=3)) == keys[0]


def test_a_key_holds_no_secret_and_does_not_change_with_one() -> None:
    model = made("openai", default_headers={"x-api-key": KEY, "X-Team": "a"})
    assert key_of(model) == key_of(made("openai", api_key=OTHER_KEY, default_headers={"x-api-key": "k", "X-Team": "a"}))
    assert key_of(model) != key_of(made("openai", default_headers={"X-Team": "b"}))
    assert KEY not in key_of(model)


class OwnModel(BaseChatModel):
    depth: int = 1
    helper: Any = None

    @property
    def _llm_type(self) -> str:
        return "own"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("{}"))])


def test_every_field_of_ones_own_model_decides() -> None:
    assert key_of(OwnModel()) != key_of(OwnModel(depth=2))


class Private(OwnModel):
    _strict: bool = PrivateAttr(default=True)


class Excluded(OwnModel):
    strict: bool = Field(default=True, exclude=True)


@pytest.mark.parametrize("model", [Private(), Excluded(), OwnModel(metadata={"strict": True})], ids=["a", "b", "c"])
def test_a_model_of_ones_own_with_state_beside_its_fields_is_not_cached(model: Any, tmp_path: Any) -> None:
    assert ChatJudge(model).fingerprint is None
    with pytest.warns(RuntimeWarning, match="not cached"):
        rm.Suite(["correctness"], judge=model, cache=tmp_path / "c.db").evaluate([{"answer": "a", "reference": "r"}])
    assert ChatJudge(OwnModel()).fingerprint is not None


@pytest.mark.parametrize("helper", [lambda text: text, object(), RunnableLambda(str.upper)])
def test_what_nothing_identifies_is_not_cached(helper: Any) -> None:
    with pytest.raises(UnidentifiedError, match="helper"):
        identity_of("judge", OwnModel(helper=helper), {})
    assert ChatJudge(OwnModel(helper=helper)).fingerprint is None


def test_endpoints_of_another_target_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    prints = []
    for host in ("https://a.example", "https://b.example"):
        monkeypatch.setenv("DATABRICKS_HOST", host)
        prints.append(ChatJudge("databricks:/m").fingerprint)
    assert prints[0] != prints[1]


def test_whether_structure_is_asked_for_decides() -> None:
    assert ChatJudge(dutiful()).fingerprint != ChatJudge(dutiful(), structured=False).fingerprint
