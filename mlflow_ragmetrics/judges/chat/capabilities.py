"""Prepares a chat model for the judge: disables its retries and rate limits, and detects what it supports.

Requests that a model repeats by itself would escape the judge's limits on calls and cost.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables.base import RunnableBindingBase
from pydantic import BaseModel
from pydantic_core import to_json

from mlflow_ragmetrics.judges.chat.retry import status_of

ChatMessage = tuple[str, str]
"""A message as LangChain accepts it: a role (``"system"``, ``"human"``, ``"ai"``) and a text."""

_COUNTS_ATTEMPTS = ("ChatGoogleGenerativeAI", "ChatVertexAI", "ChatMistralAI")
OLLAMA_NAMES = {"max_tokens": "num_predict", "temperature": "temperature", "seed": "seed"}
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict")
_USUAL_MOST_TOKENS = 1000
_SMALLEST_WINDOW = 4096
_CANNOT = (TypeError, ValueError, RuntimeError, AttributeError, ImportError, LookupError)


def bare_model(model: Any) -> tuple[Any, dict[str, Any]]:
    """Return the model beneath ``bind`` and ``with_retry``, with retries disabled, and the arguments bound to it."""
    arguments: dict[str, Any] = {}
    while isinstance(model, RunnableBindingBase) and not model.config.get("configurable"):
        arguments = {**model.kwargs, **arguments}
        model = model.bound
    return _sending_once(model), arguments


def without(model: Any, field: str) -> Any:
    """Return the model with ``field`` set to ``None``; unchanged if it has no such field."""
    return model if getattr(model, field, None) is None else model.model_copy(update={field: None})


def with_structure(model: Any, schema: Mapping[str, Any]) -> Any:
    """Return the model bound to the schema, without LangChain's parser; unchanged if it cannot be bound."""
    try:
        accepted = inspect.signature(model.with_structured_output).parameters
        strict = {"strict": True} if "strict" in accepted else {}
        first = getattr(model.with_structured_output(dict(schema), **strict), "first", None)
    except _CANNOT:
        return model
    return first if hasattr(first, "bound") and hasattr(first, "invoke") else model


def _sending_once(model: Any) -> Any:
    if not isinstance(model, BaseModel) or "max_retries" not in type(model).model_fields:
        return model
    once = 1 if type(model).__name__ in _COUNTS_ATTEMPTS else 0
    if getattr(model, "max_retries", None) == once:
        return model
    copy = model.model_copy(update={"max_retries": once, **_clients_sending_once(model)})
    for made_when_needed in ("_client", "_async_client"):
        copy.__dict__.pop(made_when_needed, None)
    return copy


def _clients_sending_once(model: Any) -> dict[str, Any]:
    """Return copies of the model's SDK clients with built-in retries disabled."""
    clients: dict[str, Any] = {}
    for root_name, name in (("root_client", "client"), ("root_async_client", "async_client")):
        resource = getattr(model, name, None)
        root: Any = getattr(model, root_name, None) or getattr(resource, "_client", None)
        if not hasattr(root, "with_options") or not hasattr(root, "chat"):
            continue
        again = root.with_options(max_retries=0)
        if type(resource) is type(again.chat.completions):
            clients[name] = again.chat.completions
        if getattr(model, root_name, None) is not None:
            clients[root_name] = again
    return clients


_REJECTED = {400, 404, 415, 422, 501}
_FILTERED = re.compile(r"content[ _-]?(?:filter|management|policy)|flagged|moderation", re.IGNORECASE)
_NO = (
    r"(?:un|not |n't )(?:support|allow|permit|enabl|avail|implement|recogni|known|expect)\w*|invalid\b|deprecated"
    r"|extra inputs|must alternate|can only be|may only be|no endpoint"
)
_BETWEEN = r"(?:value|parameter|argument|field|option|type|for|the|in|of|keyword|supports|with|this|model)"


def _stated(name: str) -> re.Pattern[str]:
    """Return a pattern for errors that reject ``name`` itself, not for texts that only mention it."""
    named = rf"['\"`]?\b(?:{name})\b['\"`]?"
    pattern = rf"{named}[^'\"{{}}.]{{0,30}}?(?:{_NO})|(?:{_NO})(?:\W+{_BETWEEN})*\W*{named}"
    return re.compile(pattern, re.IGNORECASE)


_STATED = {
    "temperature": _stated("temperature"),
    "system": _stated("(?:system|developer)(?:[ _-]?(?:role|message|prompt|instruction)s?)?|role|roles"),
    "structured": _stated(
        r"response[ _]format|json[ _](?:schema|object|mode)|structured[ _]outputs?|tools?|tool_choice|function"
        r"|function[ _]calling|schema|grammar|guided_json"
    ),
}
LEFT_OUT = {"temperature": "the temperature", "system": "the system turn", "structured": "the schema of the reply"}


@dataclass(frozen=True)
class Manner:
    """How requests are made: with a schema, a system turn and a temperature."""

    structured: bool = True
    system: bool = True
    temperature: bool = True

    def after(self, error: BaseException) -> tuple[str, bool] | None:
        """Return the feature to leave out next, and whether the error names it; ``None`` if that cannot help."""
        status = status_of(error)
        if status not in _REJECTED and not (status is None and isinstance(error, ValueError)):
            return None
        text = f"{error} {getattr(error, 'body', '')}"
        if _FILTERED.search(text):
            return None
        stated = next((name for name, pattern in _STATED.items() if getattr(self, name) and pattern.search(text)), None)
        if stated is not None:
            return stated, True
        return ("structured", False) if self.structured and status not in (None, 404) else None

    def messages(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the messages without lone surrogates; without a system role, merge that turn into the user's."""
        clean = [(role, text.encode("utf-8", "replace").decode()) for role, text in messages]
        if self.system or len(clean) < 2 or clean[0][0] != "system":
            return clean
        return [(clean[1][0], f"{clean[0][1]}\n\n{clean[1][1]}"), *clean[2:]]


class JudgeModel:
    """A chat model and its call arguments: the limits of prompts and replies, and how to call it.

    ``longest_reply`` is the token limit of replies, or ``None``.
    """

    def __init__(self, model: Any, arguments: Mapping[str, Any]) -> None:
        self._model = model
        fields = type(model).model_fields if isinstance(model, BaseChatModel) else {}
        self._is_ollama = {"num_ctx", "num_predict"} <= fields.keys()
        self._made: dict[tuple[object, ...], Any] = {}
        self._window = _SMALLEST_WINDOW
        self.longest_reply = _limit_in(arguments) or _limit_in({name: getattr(model, name, None) for name in _LIMITS})

    @cached_property
    def window(self) -> int | None:
        """The longest prompt in tokens, or ``None`` if the model does not report it."""
        window = getattr(self._model, "num_ctx", None)
        window = window or (getattr(self._model, "profile", None) or {}).get("max_input_tokens")
        return window if isinstance(window, int) and window > 0 else None

    def most_tokens(self, arguments: Mapping[str, Any]) -> int:
        """Return the most tokens that a reply to this call may have, or the usual number without a limit."""
        return _limit_in(arguments) or self.longest_reply or _USUAL_MOST_TOKENS

    def for_call(
        self, manner: Manner, messages: Sequence[ChatMessage], schema: Mapping[str, Any], arguments: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Return the model to call and its arguments.

        Ollama takes its options as fields and silently truncates long prompts. The context window therefore doubles as
        needed. It never shrinks, because Ollama reloads the model whenever the window changes.
        """
        sent = {name: value for name, value in arguments.items() if manner.temperature or name != "temperature"}
        settings: dict[str, Any] = {}
        if self._is_ollama:
            settings = {field: sent.pop(name) for name, field in OLLAMA_NAMES.items() if name in sent}
            if self._model.num_ctx is None:
                wanted = sum(len(text.encode()) for _, text in messages) // 3 + self.most_tokens(arguments)
                while self._window < wanted:
                    self._window *= 2
                settings["num_ctx"] = self._window
        key = (to_json(schema) if manner.structured else b"", manner, *settings.items())
        if key not in self._made:
            model = self._model if manner.temperature else without(self._model, "temperature")
            model = model.model_copy(update=settings) if settings else model
            self._made[key] = with_structure(model, schema) if manner.structured else model
        return self._made[key], sent


def _limit_in(settings: Mapping[str, Any]) -> int | None:
    limits = [settings.get(name) for name in _LIMITS]
    return next((limit for limit in limits if isinstance(limit, int) and limit > 0), None)


@contextmanager
def untraced() -> Iterator[None]:
    """Disable MLflow and LangSmith tracing in this block and thread, if they are loaded."""
    with ExitStack() as stack:
        if "langsmith" in sys.modules:
            from langsmith import tracing_context

            stack.enter_context(tracing_context(enabled=False))
        if "mlflow" in sys.modules:
            import mlflow

            stack.enter_context(mlflow.tracing.context(enabled=False))
        yield
