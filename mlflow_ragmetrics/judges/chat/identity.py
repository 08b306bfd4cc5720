"""Builds cache keys: a digest of every part of a chat model that affects its requests."""

from __future__ import annotations

import enum
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from langchain_core.runnables.base import RunnableBindingBase
from pydantic import BaseModel, SecretBytes, SecretStr

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
}  # fmt: skip
_ADDRESSES = {
    "base_url", "openai_api_base", "azure_endpoint", "anthropic_api_url", "endpoint", "groq_api_base", "endpoint_url",
    "inference_server_url", "openai_organization",
}  # fmt: skip
_CLIENTS = ("root_client", "client", "_client")
_NOT_DESCRIBED = {*_CLIENTS, "async_client", "root_async_client", "bedrock_client", "_async_client"}
_WAYS_TO_AN_ADDRESS = (
    ("base_url",),
    ("_base_url",),
    ("_client", "base_url"),
    ("_client", "_base_url"),
    ("meta", "endpoint_url"),
    ("_api_client", "_http_options", "base_url"),
)
_LANGCHAIN = ("langchain", "databricks_langchain")
_ACCOUNTS = ("organization", "project")


class UnidentifiedError(Exception):
    """A part of a model cannot be identified, so models with different answers could share a cache key."""


def identity_of(name: str, model: Any, arguments: Mapping[str, Any]) -> str:
    """Return the name, the class and a digest of every parameter that affects requests, without secrets.

    ``arguments`` go with each call. Addresses are those that the model's client resolved, however they were set.
    ``UnidentifiedError`` names the first part (a function, a foreign object) that cannot be described.
    """
    described = {"model": _described(model, "model"), "arguments": _described(arguments, "arguments")}
    text = json.dumps(described, sort_keys=True, ensure_ascii=True)
    return redact(f"{name};{type(model).__name__};") + hashlib.sha256(text.encode()).hexdigest()[:32]


def _described(value: Any, place: str) -> Any:
    """Describe a value as JSON; ``place`` names it in errors. Secrets and settings of the local client are left out."""
    if isinstance(value, float) and value.is_integer():
        return int(value)  # 0 and 0.0 are the same temperature
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, (enum.Enum, type)):
        return repr(value)
    if isinstance(value, Mapping):
        decisive = {str(name): each for name, each in value.items() if _decides(str(name), each)}
        return {name: _described(each, f"{place}.{name}") for name, each in decisive.items()}
    if isinstance(value, (list, tuple)):
        return [_described(each, place) for each in value]
    if isinstance(value, RunnableBindingBase):
        return _described([value.bound, value.kwargs, value.config.get("configurable")], place)
    reached = list(dict.fromkeys(_reached(value)))
    left_out = _NOT_SENT | _NOT_DESCRIBED | (_ADDRESSES if reached else set())
    parameters = {name: each for name, each in _parameters(value, place).items() if name not in left_out}
    return [repr(type(value)), reached, _described(parameters, place)]


def _decides(name: str, value: Any) -> bool:
    return not (value is None or isinstance(value, (SecretStr, SecretBytes)) or _NEVER_DECIDES.search(name))


def _parameters(value: Any, place: str) -> dict[str, Any]:
    kind = type(value)
    if isinstance(value, BaseModel):
        if hasattr(kind, "invoke") and _keeps_state(value):
            raise UnidentifiedError(f"{place} is a {kind.__name__}, which keeps state outside its parameters")
        shown = {name: getattr(value, name) for name, field in kind.model_fields.items() if not field.exclude}
        return {**shown, **(value.__pydantic_extra__ or {})}
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if hasattr(value, "invoke"):
        return {**vars(value), **(getattr(value, "_identifying_params", None) or {})}
    raise UnidentifiedError(f"{place} holds a {kind.__name__}")


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


def _reached(model: Any) -> Iterator[str]:
    """Yield the addresses and accounts that the model's HTTP clients resolved, also from environment variables."""
    for name in _CLIENTS:
        client = getattr(model, name, None)
        owners = (client, getattr(client, "_client", None))
        addresses = (_followed(owner, way) for owner in owners for way in _WAYS_TO_AN_ADDRESS)
        address = next(filter(None, addresses), None)  # an SDK's address takes precedence over its HTTP client's
        if address is not None:
            yield redact(address).rstrip("/")
        accounts = [getattr(owner, account, None) for owner in owners for account in _ACCOUNTS]
        yield from (f"account {account}" for account in accounts if isinstance(account, str))


def _followed(owner: Any, way: Sequence[str]) -> str | None:
    for step in way:
        owner = getattr(owner, step, None)
    return str(owner) if type(owner).__name__ in ("URL", "str") else None
