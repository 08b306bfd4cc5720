"""Opens, names and identifies the model for a URI or a LangChain chat model.

``gateway:/name`` is an endpoint of the tracking server's AI gateway, ``databricks:/name`` one of Databricks Model
Serving, and ``endpoints:/name`` one of the deployments target (``MLFLOW_DEPLOYMENTS_TARGET``).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from functools import reduce
from typing import Any

from langchain_core.runnables import RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticSerializationError, to_jsonable_python

from mlflow_ragmetrics.core.question import created_by_langchain, name_of_model
from mlflow_ragmetrics.core.safe_text import keep_secret, redact
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.judges.chat.judge_options import JudgeOptions

_PROVIDERS = {
    "gemini": "google_genai",
    "mistral": "mistralai",
    "azure": "azure_openai",
    "togetherai": "together",
    "vertex_ai": "google_vertexai",
}
_DEFAULTS: dict[str, Any] = {"temperature": 0.0, "max_tokens": 1000}
_REASONING = re.compile(r"^(o\d|gpt-[5-9])")
_REASONING_TOKENS = 8000  # reasoning counts as reply tokens
_THROUGH_MLFLOW = ("endpoints", "gateway", "databricks")
_URI = re.compile(r"^(?P<provider>[A-Za-z][\w-]+):/{0,2}(?P<model>[^\s/]\S*)$")
_COUNTS_ATTEMPTS = ("ChatGoogleGenerativeAI", "ChatVertexAI", "ChatMistralAI")


def bare_model(model: Any) -> tuple[Any, dict[str, Any]]:
    """Return the model beneath ``bind`` and ``with_retry``, and the arguments bound to it.

    Its retries are disabled, because requests that a model repeats by itself would escape the limits on calls and cost.
    """
    arguments: dict[str, Any] = {}
    while isinstance(model, RunnableBindingBase) and not model.config.get("configurable"):
        arguments = {**model.kwargs, **arguments}
        model = model.bound
    once = 1 if type(model).__name__ in _COUNTS_ATTEMPTS else 0
    if isinstance(model, BaseModel) and getattr(model, "max_retries", once) != once:
        model = model.model_copy(update={"max_retries": once, **_clients_sending_once(model)})
        model.__dict__.pop("_client", None)  # created when needed, with the retries
    return model, arguments


def _clients_sending_once(model: Any) -> dict[str, Any]:
    """Return copies of the model's SDK clients with built-in retries disabled."""
    client, root = getattr(model, "client", None), getattr(model, "root_client", None)
    sdk: Any = root or getattr(client, "_client", None)
    if not hasattr(sdk, "with_options") or not hasattr(sdk, "chat"):
        return {}
    again = sdk.with_options(max_retries=0)
    clients = {} if root is None else {"root_client": again}
    return clients | ({"client": again.chat.completions} if type(client) is type(again.chat.completions) else {})


def name_of(model: Any) -> str:
    """Return a URI as it is; for a LangChain object, its ``model`` or ``model_name``, else its class."""
    return redact(model) if isinstance(model, str) else name_of_model(model)


def open_model(model: Any, options: JudgeOptions) -> tuple[Any, dict[str, Any]]:
    """Return the chat model for ``model`` and the options of each call.

    Raises ``InvalidOptionError`` if it is neither a URI nor a chat model, and ``MissingExtraError`` without a package.
    """
    if not isinstance(model, str):
        keep_secret(model)
        if not (hasattr(model, "invoke") and hasattr(model, "bind")):
            message = f"model={type(model).__name__} is neither a model URI nor a LangChain chat model"
            raise InvalidOptionError(message, param="model")
        for name in ("base_url", "api_key"):
            if getattr(options, name) is not None:
                raise InvalidOptionError(f"{name} goes with a model URI; set it on the chat model instead", param=name)
        bare, bound = bare_model(model)
        if isinstance(bare, RunnableWithFallbacks):
            message = "a model with fallbacks cannot be a judge: their requests would escape max_calls and max_cost"
            raise InvalidOptionError(f"{message}; give one model, or a list of judges", param="model")
        return bare, {**bound, **_call_options(options)}
    match = _URI.match(model)
    if match is None:
        message = f'model={redact(model)!r} is not a model URI; write provider:/model, as in "openai:/gpt-4o-mini"'
        raise InvalidOptionError(message, param="model")
    provider = match["provider"].lower()
    if provider in _THROUGH_MLFLOW:
        with created_by_langchain(f"the judge {redact(model)!r}", "model"):
            address, key = _server_of(provider)
        updates = {"base_url": options.base_url or address, "api_key": options.api_key or SecretStr(key)}
        options, provider = options.model_copy(update=updates), "openai"
    return _through_langchain(model, _PROVIDERS.get(provider, provider.replace("-", "_")), match["model"], options), {}


def _server_of(provider: str) -> tuple[str, str]:
    """Return the address and the key of MLflow's server for ``provider``, which has OpenAI's API."""
    from mlflow.deployments import get_deployments_target
    from mlflow.tracking import get_tracking_uri

    target = get_deployments_target() if provider == "endpoints" else provider
    server, path, key = target, "v1", "MLFLOW_TRACKING_TOKEN"
    if target.startswith("databricks"):
        server, path, key = os.environ.get("DATABRICKS_HOST", ""), "serving-endpoints", "DATABRICKS_TOKEN"
    elif provider == "gateway":
        server, path = get_tracking_uri(), "gateway/mlflow/v1"
    if not server.startswith(("http://", "https://")):
        variable = "DATABRICKS_HOST" if path == "serving-endpoints" else "MLFLOW_TRACKING_URI"
        raise InvalidOptionError(f"{provider}:/ needs the address of a server; set {variable}", param="model")
    return f"{server.rstrip('/')}/{path}", os.environ.get(key, "none")


def _call_options(options: JudgeOptions) -> dict[str, Any]:
    return options.model_dump(include={"temperature", "max_tokens", "seed"}, exclude_none=True)


def _through_langchain(uri: str, provider: str, model: str, options: JudgeOptions) -> Any:
    """Return the model of a provider's class, with its retries disabled."""
    wanted = {**_DEFAULTS, **_call_options(options)}
    if provider in ("openai", "azure_openai") and _REASONING.match(model):  # these reject any temperature
        wanted = {"max_tokens": _REASONING_TOKENS, **_call_options(options)}
    limit = {} if options.timeout is None else {"timeout": options.timeout}
    if provider == "ollama":
        wanted |= {"num_predict": wanted.pop("max_tokens"), "client_kwargs": limit}
    else:  # Google's classes take 0 retries as the default
        wanted |= {"max_retries": 1 if provider.startswith("google") else 0, **limit}
    if options.base_url:
        wanted["base_url"] = options.base_url
    if options.api_key is not None:
        wanted["api_key"] = options.api_key.get_secret_value()
    with created_by_langchain(f"the judge {redact(uri)!r}", "model"):
        from langchain.chat_models import init_chat_model

        return init_chat_model(model, model_provider=provider, **wanted)


_NEVER_DECIDES = re.compile(
    r"((^|[_-])(api[_-]?key|access[_-]?key([_-]?id)?|token|password|credentials?|cookie|authorization)([_-]?provider)?$"
    r"|secret|timeout|(^|_)retries$|^retry_|^callback|^verbose$|^verify$)",
    re.IGNORECASE,
)
_NOT_SENT = {
    "name", "tags", "metadata", "cache", "rate_limiter", "streaming", "disable_streaming", "stream_usage", "profile",
    "http_client", "http_async_client", "http_socket_options", "include_response_headers", "max_concurrent_requests",
    "custom_get_token_ids", "tiktoken_model_name", "validate_model_on_init", "validate_base_url", "config",
    "async_client_kwargs", "azure_ad_async_token_provider", "default_metadata",
    "root_client", "client", "_client", "async_client", "root_async_client", "bedrock_client", "_async_client",
}  # fmt: skip
_ADDRESSES = {
    "base_url", "openai_api_base", "azure_endpoint", "anthropic_api_url", "endpoint", "groq_api_base", "endpoint_url",
    "inference_server_url", "openai_organization",
}  # fmt: skip
_WAYS_TO_AN_ADDRESS = (
    "base_url", "_base_url", "_client.base_url", "_client._base_url", "meta.endpoint_url",
    "_api_client._http_options.base_url",
)  # fmt: skip
_LANGCHAIN = ("langchain", "databricks_langchain")


class UnidentifiedError(Exception):
    """A part of a model cannot be identified, so models with different answers could share a cache key."""


def identity_of(name: str, model: Any, arguments: Mapping[str, Any]) -> str:
    """Return the name, the class and a digest of every parameter that affects requests, without secrets.

    ``arguments`` go with each call. Addresses are those that the model's client resolved, however they were set.
    ``UnidentifiedError`` names the first part (a function, a foreign object) that cannot be described.
    """
    described = {"model": _described(model, "model"), "arguments": _decisive(arguments, "arguments")}
    text = json.dumps(described, sort_keys=True, ensure_ascii=True)
    return redact(f"{name};{type(model).__name__};") + hashlib.sha256(text.encode()).hexdigest()[:32]


def _described(model: Any, place: str) -> Any:
    """Describe a model, or models that are bound or combined, as JSON; ``place`` names it in errors."""
    if isinstance(model, RunnableBindingBase):
        bound = [model.kwargs, model.config.get("configurable")]
        return [_described(model.bound, place), _decisive(bound, place)]
    if isinstance(model, BaseModel) and _keeps_state(model):
        raise UnidentifiedError(f"{place} is a {type(model).__name__}, which keeps state outside its parameters")
    shown = {name for name, field in getattr(type(model), "model_fields", {}).items() if not field.exclude}
    reached = _reached(model)
    names = (shown or vars(model).keys()) - _NOT_SENT - (_ADDRESSES if reached else set())
    parameters = {name: getattr(model, name) for name in names} | (getattr(model, "__pydantic_extra__", None) or {})
    return [repr(type(model)), reached, _decisive(parameters, place)]


def _decisive(value: Any, place: str) -> Any:
    """Describe a value as JSON, without secrets and settings of the local client."""
    if isinstance(value, float) and value.is_integer():
        return int(value)  # 0 and 0.0 are the same temperature
    if isinstance(value, (str, type)):
        return redact(str(value))
    if isinstance(value, Mapping):
        kept = {str(name): part for name, part in value.items() if part is not None and not isinstance(part, SecretStr)}
        kept = {name: part for name, part in kept.items() if not _NEVER_DECIDES.search(name)}
        return {name: _decisive(part, f"{place}.{name}") for name, part in kept.items()}
    if isinstance(value, (list, tuple)):
        return [_decisive(part, place) for part in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_decisive(part, place) for part in value), key=str)
    if hasattr(value, "invoke"):
        return _described(value, place)
    try:
        plain = to_jsonable_python(value)
    except PydanticSerializationError:
        raise UnidentifiedError(f"{place} holds a {type(value).__name__}") from None
    return _decisive(plain, place) if isinstance(plain, (dict, list)) else plain


def _keeps_state(model: BaseModel) -> bool:
    """Whether a class outside LangChain has private attributes, excluded fields or metadata with a value."""
    known_class: Any = next((kind for kind in type(model).__mro__ if kind.__module__.startswith(_LANGCHAIN)), BaseModel)
    if known_class is type(model):
        return False
    private = (model.__pydantic_private__ or {}).keys() - known_class.__private_attributes__.keys()
    new = {name: field for name, field in type(model).model_fields.items() if name not in known_class.model_fields}
    excluded = {name for name, field in new.items() if field.exclude}
    metadata = (getattr(model, "metadata", None) or {}).keys() - {"lc_versions"}
    return bool(metadata) or any(getattr(model, name, None) is not None for name in (*private, *excluded))


def _reached(model: Any) -> list[str]:
    """Return the addresses and accounts that the model's clients resolved, also from environment variables."""
    clients = [getattr(model, name, None) for name in ("root_client", "client", "_client")]
    owners = [owner for client in clients for owner in (client, getattr(client, "_client", None))]
    ways = [(owner, way.split(".")) for owner in owners for way in _WAYS_TO_AN_ADDRESS]
    reached = [reduce(lambda part, step: getattr(part, step, None), way, owner) for owner, way in ways]
    # an SDK's address takes precedence over its HTTP client's
    addresses = [str(address) for address in reached if type(address).__name__ in ("URL", "str") and str(address)]
    accounts = [getattr(owner, name, None) for owner in owners for name in ("organization", "project")]
    texts = [*addresses[:1], *(account for account in accounts if isinstance(account, str))]
    return list(dict.fromkeys(redact(text).rstrip("/") for text in texts))
