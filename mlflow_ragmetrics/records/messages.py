"""Questions and answers inside the dicts, messages and model outputs that chains take and give."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mlflow_ragmetrics.records.aliases import ALIASES
from mlflow_ragmetrics.records.values import is_missing

__all__ = ["answer_in", "mapping_of", "question_in"]

_QUESTION_KEYS = (
    "question",
    "query",
    "input",
    *(name for name in ALIASES["question"] if name not in ("query", "input")),
)
_ANSWER_KEYS = (
    "answer",
    "output",
    "response",
    "content",
    *(name for name in ALIASES["answer"] if name not in ("output", "response")),
)
_USER_ROLES = frozenset({"user", "human"})
_MODEL_ROLES = frozenset({"assistant", "ai", "AIMessageChunk"})
_DEEPEST = 4


def question_in(value: object) -> object:
    """The question inside chain ``inputs``: a mapping's question, or its last user message; ``value`` if none."""
    return _unwrapped(value, _QUESTION_KEYS, _USER_ROLES)


def answer_in(value: object) -> object:
    """The answer inside chain ``outputs``: a mapping's answer, or its last model message; ``value`` if none."""
    return _unwrapped(value, _ANSWER_KEYS, _MODEL_ROLES)


def mapping_of(value: object) -> Mapping[Any, Any]:
    """``value`` where it is a mapping or a string that holds a JSON object, else an empty mapping."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return {}
        return parsed if isinstance(parsed, dict) else {}
    return {}


def _unwrapped(value: object, keys: Sequence[str], roles: frozenset[str]) -> object:
    for _ in range(_DEEPEST):
        if isinstance(value, str):
            break
        inner = _inside(value, keys, roles)
        if is_missing(inner):
            break
        value = inner
    return value


def _inside(value: object, keys: Sequence[str], roles: frozenset[str]) -> object:
    """What is one level inside ``value``, or ``None``."""
    if isinstance(value, Mapping):
        found = next((value[key] for key in keys if not is_missing(value.get(key))), None)
        return found if found is not None else _last_message(_messages(value), roles)
    if isinstance(value, (list, tuple)):
        return _last_message(value, roles)
    content = getattr(value, "content", None)
    return _joined_parts(content) if content is not None else None


def _messages(value: Mapping[Any, Any]) -> Iterable[object]:
    messages = value.get("messages")
    if isinstance(messages, (list, tuple)):
        return messages
    choices = value.get("choices")
    if isinstance(choices, (list, tuple)):
        return [choice.get("message") for choice in choices[:1] if isinstance(choice, Mapping)]
    return ()


def _last_message(messages: Iterable[object], roles: frozenset[str]) -> object:
    last = None
    for message in messages:
        if isinstance(message, Mapping):
            role, content = message.get("role", message.get("type")), message.get("content")
        else:
            role, content = getattr(message, "type", None), getattr(message, "content", None)
        if isinstance(role, str) and role in roles and content:
            last = _joined_parts(content)
    return last


def _joined_parts(content: object) -> object:
    """The text of a message whose content is a list of parts (``{"type": "text", "text": …}``)."""
    if not isinstance(content, (list, tuple)):
        return content
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
    return "\n".join(text for text in texts if isinstance(text, str)) or None
