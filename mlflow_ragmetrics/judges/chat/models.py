"""Opens and names the model for a URI or a LangChain chat model.

``gateway:/name`` is an endpoint of the tracking server's AI gateway, ``databricks:/name`` one of Databricks Model
Serving, and ``endpoints:/name`` one of the deployments target (``MLFLOW_DEPLOYMENTS_TARGET``).
"""

from __future__ import annotations

import os
import re
from typing import Any

from pydantic import SecretStr

from mlflow_ragmetrics.core.judge import created_by_langchain, name_of_model
from mlflow_ragmetrics.core.safe_text import keep_secret, redact
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.judges.chat.capabilities import bare_model
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
        return bare, {**bound, **_call_options(options)}
    match = _URI.match(model)
    if match is None:
        message = f'model={redact(model)!r} is not a model URI; write provider:/model, as in "openai:/gpt-4o-mini"'
        raise InvalidOptionError(message, param="model")
    provider = match["provider"].lower()
    if provider in _THROUGH_MLFLOW:
        with created_by_langchain(f"the judge {redact(model)!r}", "model"):
            address, key = _server_of(provider)
        given = {"base_url": options.base_url or address, "api_key": options.api_key or SecretStr(key)}
        options, provider = options.model_copy(update=given), "openai"
    return _through_langchain(model, _PROVIDERS.get(provider, provider.replace("-", "_")), match["model"], options), {}


def _server_of(provider: str) -> tuple[str, str]:
    """Return the address and the key of MLflow's server for ``provider``, which has OpenAI's API."""
    from mlflow.deployments import get_deployments_target
    from mlflow.tracking import get_tracking_uri

    target = get_deployments_target() if provider == "endpoints" else provider
    if target.startswith("databricks"):
        return f"{os.environ.get('DATABRICKS_HOST')}/serving-endpoints", os.environ.get("DATABRICKS_TOKEN", "none")
    key = os.environ.get("MLFLOW_TRACKING_TOKEN", "none")
    return (f"{get_tracking_uri()}/gateway/mlflow/v1" if provider == "gateway" else f"{target}/v1"), key


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
