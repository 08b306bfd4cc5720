"""Builds cache keys: a digest of every part of a chat model that affects its requests."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from langchain_core.runnables.base import RunnableBindingBase
from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticSerializationError, to_jsonable_python

from mlflow_ragmetrics.core.safe_text import redact

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
    left_out = _NOT_SENT | (_ADDRESSES if reached else set())
    names = (shown or vars(model).keys()) - left_out
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
    if hasattr(value, "invoke"):
        return _described(value, place)
    try:
        plain = to_jsonable_python(value)
    except PydanticSerializationError:
        raise UnidentifiedError(f"{place} holds a {type(value).__name__}") from None
    return _decisive(plain, place) if isinstance(plain, (dict, list)) else plain


def _keeps_state(model: BaseModel) -> bool:
    """Whether a class outside LangChain has private attributes, excluded fields or metadata with a value."""
    own: Any = next((kind for kind in type(model).__mro__ if kind.__module__.startswith(_LANGCHAIN)), BaseModel)
    if own is type(model):
        return False
    private = (model.__pydantic_private__ or {}).keys() - own.__private_attributes__.keys()
    new = {name: field for name, field in type(model).model_fields.items() if name not in own.model_fields}
    excluded = {name for name, field in new.items() if field.exclude}
    metadata = (getattr(model, "metadata", None) or {}).keys() - {"lc_versions"}
    return bool(metadata) or any(getattr(model, name, None) is not None for name in (*private, *excluded))


def _reached(model: Any) -> list[str]:
    """Return the addresses and accounts that the model's clients resolved, also from environment variables."""
    clients = [getattr(model, name, None) for name in ("root_client", "client", "_client")]
    owners = [owner for client in clients for owner in (client, getattr(client, "_client", None))]
    # an SDK's address takes precedence over its HTTP client's
    addresses = [str(url) for owner in owners if type(url := getattr(owner, "base_url", None)).__name__ == "URL"]
    accounts = [getattr(owner, name, None) for owner in owners for name in ("organization", "project")]
    texts = [*addresses[:1], *(account for account in accounts if isinstance(account, str))]
    return list(dict.fromkeys(redact(text).rstrip("/") for text in texts))
