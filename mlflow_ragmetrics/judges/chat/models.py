"""From a URI or a LangChain chat model to the model that is called, its name and its identity."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from mlflow_ragmetrics.core.secrets import keep_secret, redact
from mlflow_ragmetrics.errors import InvalidOptionError, MissingExtraError
from mlflow_ragmetrics.judges.chat.options import JudgeOptions

__all__ = ["identity_of", "name_of", "open_model"]

_PROVIDERS = {
    "gemini": "google_genai",
    "mistral": "mistralai",
    "azure": "azure_openai",
    "togetherai": "together",
    "vertex_ai": "google_vertexai",
}
_PACKAGES = {
    "openai": "langchain-openai",
    "azure_openai": "langchain-openai",
    "google_genai": "langchain-google-genai",
    "google_vertexai": "langchain-google-vertexai",
    "bedrock": "langchain-aws",
    "bedrock_converse": "langchain-aws",
}
_DEFAULTS: dict[str, Any] = {"temperature": 0.0, "max_tokens": 1000}
_THROUGH_MLFLOW = ("endpoints", "gateway", "databricks")
_URI = re.compile(r"^(?P<provider>[A-Za-z][\w-]*):/{1,2}(?P<model>\S+)$")
_SECRET = re.compile(r"key|token$|secret|password|credential|authorization|headers", re.IGNORECASE)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def name_of(model: Any) -> str:
    """A URI as it is; of a LangChain object its ``model`` or ``model_name``, else its class."""
    if isinstance(model, str):
        return redact(model)
    named = [getattr(model, attribute, None) for attribute in ("model", "model_name")]
    return next((name for name in named if isinstance(name, str) and name), type(model).__name__)


def open_model(model: Any, options: JudgeOptions) -> tuple[Any, dict[str, Any]]:
    """The chat model that ``model`` stands for, and the options that go with each call.

    ``InvalidOptionError`` where it is neither a URI nor a chat model, ``MissingExtraError`` where a package is missing.
    """
    if not isinstance(model, str):
        keep_secret(model)
        if not (hasattr(model, "invoke") and hasattr(model, "bind")):
            message = f"model={type(model).__name__} is neither a model URI nor a LangChain chat model"
            raise InvalidOptionError(message, param="model")
        for name in ("base_url", "api_key"):
            if getattr(options, name) is not None:
                raise InvalidOptionError(f"{name} goes with a model URI; a chat model has its own", param=name)
        return model, _call_options(options)
    match = _URI.match("databricks:/databricks" if model == "databricks" else model)
    if match is None:
        message = f'model={redact(model)!r} is not a model URI; write provider:/model, as in "openai:/gpt-4o-mini"'
        raise InvalidOptionError(message, param="model")
    provider = match["provider"].lower()
    if provider in _THROUGH_MLFLOW:
        from mlflow_ragmetrics.judges.chat.endpoint import EndpointModel

        return EndpointModel(uri=model), {**_DEFAULTS, **_call_options(options)}
    return _through_langchain(model, _PROVIDERS.get(provider, provider.replace("-", "_")), match["model"], options), {}


def _call_options(options: JudgeOptions) -> dict[str, Any]:
    given = {"temperature": options.temperature, "max_tokens": options.max_tokens, "seed": options.seed}
    return {name: value for name, value in given.items() if value is not None}


def _through_langchain(uri: str, provider: str, model: str, options: JudgeOptions) -> Any:
    package = _PACKAGES.get(provider, f"langchain-{provider.replace('_', '-')}")
    try:
        from langchain.chat_models import init_chat_model
    except ImportError as error:
        message = f"the judge {redact(uri)!r} needs langchain and {package}: pip install langchain {package}"
        raise MissingExtraError(message) from error
    made_with = {**_DEFAULTS, **_call_options(options), "max_retries": 0, "timeout": options.timeout}
    if options.base_url:
        made_with["base_url"] = options.base_url
    if options.api_key is not None:
        made_with["api_key"] = options.api_key.get_secret_value()
    if options.timeout is None:
        del made_with["timeout"]
    try:
        return init_chat_model(model, model_provider=provider, **made_with)
    except ImportError as error:
        raise MissingExtraError(f"the judge {redact(uri)!r} needs {package}: pip install {package}") from error
    except Exception as error:  # a provider's own check of its options or key
        message = f"the judge {redact(uri)!r} cannot be made: {redact(' '.join(str(error).split()))[:300]}"
        raise InvalidOptionError(message, param="model") from error


def identity_of(name: str, model: Any, call_options: Mapping[str, Any]) -> str:
    """Name, class and parameters of a model, without secrets: what stored answers are filed under."""
    described = {**dict(getattr(model, "_identifying_params", None) or {}), **call_options}
    for attribute in ("base_url", "openai_api_base", "azure_endpoint"):
        address = getattr(model, attribute, None)
        if isinstance(address, str):
            described[attribute] = address
    public = {str(key): value for key, value in described.items() if not _SECRET.search(str(key)) or "max" in str(key)}
    parameters = json.dumps(public, sort_keys=True, default=str, ensure_ascii=True)
    return redact(f"{name};{type(model).__name__};{_ADDRESS.sub('', parameters)}")
