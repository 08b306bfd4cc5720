"""Opens and names the model for a URI or a LangChain chat model.

``endpoints:/``, ``gateway:/`` and ``databricks`` use MLflow's own clients.
"""

from __future__ import annotations

import os
import re
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult

from mlflow_ragmetrics.core.judge import created_by_langchain, name_of_model
from mlflow_ragmetrics.core.safe_text import keep_secret, redact
from mlflow_ragmetrics.errors import InvalidOptionError, MissingExtraError
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
    match = _URI.match("databricks:/databricks" if model == "databricks" else model)
    if match is None:
        message = f'model={redact(model)!r} is not a model URI; write provider:/model, as in "openai:/gpt-4o-mini"'
        raise InvalidOptionError(message, param="model")
    provider = match["provider"].lower()
    if provider in _THROUGH_MLFLOW:
        return EndpointModel(uri=model, target=_target_of(provider)), {**_DEFAULTS, **_call_options(options)}
    return _through_langchain(model, _PROVIDERS.get(provider, provider.replace("-", "_")), match["model"], options), {}


def _target_of(provider: str) -> str | None:
    """Return the server of the endpoint; the same name on another server is another model."""
    if provider == "endpoints":
        from mlflow.deployments import get_deployments_target
        from mlflow.exceptions import MlflowException

        try:
            return str(get_deployments_target())
        except MlflowException:  # no target is set; the first call reports it
            return None
    if provider == "gateway":
        import mlflow

        return str(mlflow.get_tracking_uri())
    return os.environ.get("DATABRICKS_HOST")


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


class EndpointModel(BaseChatModel):
    """Sends requests through MLflow's clients.

    ``endpoints:/name`` is an endpoint of the deployments target (``mlflow.deployments.set_deployments_target`` or
    ``MLFLOW_DEPLOYMENTS_TARGET``), ``databricks:/name`` one of Databricks Model Serving; ``gateway:/name`` and
    ``databricks`` use MLflow's judge client. ``target``: the server that the URI was resolved to.
    """

    uri: str
    target: str | None = None

    @property
    def _llm_type(self) -> str:
        return "mlflow-endpoint"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"uri": self.uri}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        said = convert_to_openai_messages(messages)
        provider, _, endpoint = self.uri.partition(":/")
        if provider == "gateway" or not endpoint:
            message = AIMessage(_through_judge_client(self.uri, said, kwargs))
        else:
            from mlflow.deployments import get_deploy_client

            connect: Any = get_deploy_client
            client = connect("databricks" if provider == "databricks" else None)
            message = _message_in(client.predict(endpoint=endpoint.lstrip("/"), inputs={"messages": said, **kwargs}))
        return ChatResult(generations=[ChatGeneration(message=message)])


def _message_in(reply: dict[str, Any]) -> AIMessage:
    choice = reply["choices"][0]
    usage = reply.get("usage") or {}
    sent, received = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    tokens = UsageMetadata(input_tokens=sent, output_tokens=received, total_tokens=sent + received)
    facts = {"finish_reason": choice.get("finish_reason") or ""}
    content = choice["message"].get("content") or ""
    return AIMessage(content, response_metadata=facts, usage_metadata=tokens if usage else None)


def _through_judge_client(uri: str, messages: Any, options: dict[str, Any]) -> str:
    try:
        from mlflow.genai.scorers.llm_backend import ScorerLLMClient
    except ImportError as error:
        raise MissingExtraError(f"the judge {uri!r} needs a newer MLflow: pip install 'mlflow>=3.17'") from error
    return str(ScorerLLMClient(uri).complete(messages, **options))
