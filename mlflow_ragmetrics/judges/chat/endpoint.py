"""Models behind MLflow's own clients, as LangChain chat models: ``endpoints:/``, ``gateway:/``, ``databricks``."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult

from mlflow_ragmetrics.errors import MissingExtraError

__all__ = ["EndpointModel"]


class EndpointModel(BaseChatModel):
    """Asks through MLflow's clients.

    ``endpoints:/name`` is an endpoint of the deployments target (``mlflow.deployments.set_deployments_target`` or
    ``MLFLOW_DEPLOYMENTS_TARGET``), ``databricks:/name`` one of Databricks' model serving; ``gateway:/name`` and
    ``databricks`` go through MLflow's judge client. ``target``: the server that the URI was resolved against.
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
            message = _message_in(_predict(provider, endpoint.lstrip("/"), {"messages": said, **kwargs}))
        return ChatResult(generations=[ChatGeneration(message=message)])


def _predict(provider: str, endpoint: str, inputs: dict[str, Any]) -> dict[str, Any]:
    from mlflow.deployments import get_deploy_client

    connect: Any = get_deploy_client
    client = connect("databricks" if provider == "databricks" else None)
    return dict(client.predict(endpoint=endpoint, inputs=inputs))


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
