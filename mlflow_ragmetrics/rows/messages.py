"""Questions, answers and earlier turns inside the dicts, messages and model outputs that chains take and give."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mlflow_ragmetrics.core.sample import Message
from mlflow_ragmetrics.errors import InvalidFieldError
from mlflow_ragmetrics.rows.aliases import ALIASES
from mlflow_ragmetrics.rows.values import elements_of, is_missing

__all__ = [
    "MODEL_ROLES",
    "USER_ROLES",
    "answer_in",
    "citations_in",
    "joined_parts",
    "mapping_of",
    "messages_in",
    "messages_of",
    "question_in",
    "reference_in",
    "role_and_content",
    "turns_before",
]

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
    "generation",
    "output_text",
    "final_answer",
    "structured_response",
    "parsed",
)
_REFERENCE_KEYS = ("reference", *ALIASES["reference"], *_ANSWER_KEYS)
USER_ROLES = frozenset({"user", "human"})
MODEL_ROLES = frozenset({"assistant", "ai", "AIMessageChunk"})
_DEEPEST = 4


def question_in(value: object) -> object:
    """The question inside chain ``inputs``: a mapping's question, or its last user message; ``value`` if none."""
    return _unwrapped(value, _QUESTION_KEYS, USER_ROLES)


def answer_in(value: object) -> object:
    """The answer inside chain ``outputs``: a mapping's answer, or its last model message; ``value`` if none."""
    return _unwrapped(value, _ANSWER_KEYS, MODEL_ROLES)


def citations_in(value: object) -> list[Any]:
    """The citations of the answer inside chain ``outputs``.

    They stand beside the answer under ``citations`` (numbers, ids or mappings, as models with a structured output give
    them), or in the content blocks of its message, each with its block's text: under ``citations`` (Anthropic, and
    LangChain's messages from it) or ``annotations`` (OpenAI, and LangChain's standard blocks); Cohere's stand beside
    the message, in ``additional_kwargs``.
    """
    for _ in range(_DEEPEST):
        value = _as_mapping(value)
        if isinstance(value, str):
            return []
        beside = value.get("citations") if isinstance(value, Mapping) else None
        if isinstance(beside, (list, tuple)) and beside:
            return [_as_mapping(each) for each in beside]
        content = value.get("content") if isinstance(value, Mapping) else getattr(value, "content", None)
        extra = getattr(value, "additional_kwargs", None) or {}
        found = [dict(each) for each in extra.get("citations") or () if isinstance(each, Mapping)]
        for block in content if isinstance(content, (list, tuple)) else ():
            if isinstance(block, Mapping):
                given = block.get("citations") or block.get("annotations") or ()
                text = block.get("text")
                found += [{**each, "text": text} for each in given if isinstance(each, Mapping) and _cites(each)]
        if found:
            return found
        inner = _message_inside(value)
        if inner is None:
            return []
        value = inner
    return []


def _as_mapping(value: object) -> Any:
    """A structured output, a pydantic model that is no message or its JSON, as a mapping; all else as it is."""
    if hasattr(value, "model_dump") and not hasattr(value, "content"):
        return value.model_dump()
    return (mapping_of(value) or value) if isinstance(value, str) else value


def _cites(entry: Mapping[Any, Any]) -> bool:
    return "cite" in str(entry) or "citation" in str(entry.get("type", "citation"))


def _message_inside(value: object) -> object:
    """The answer of a mapping, the last model message of a list or a mapping, or the text of a message."""
    if isinstance(value, Mapping):
        found = next((value[key] for key in _ANSWER_KEYS if not is_missing(value.get(key))), None)
        return found if found is not None else _message_inside(list(_messages(value)))
    if isinstance(value, (list, tuple)):
        said = [each for each in value if role_and_content(each)[0] in MODEL_ROLES]
        return said[-1] if said else None
    content = getattr(value, "content", None)
    return content if isinstance(content, str) else None


def reference_in(value: object) -> object:
    """The reference inside the outputs that were expected; ``value`` if there is none."""
    return _unwrapped(value, _REFERENCE_KEYS, MODEL_ROLES) if isinstance(value, Mapping) else value


def messages_of(value: object) -> tuple[Message, ...] | None:
    """``value`` as messages, those without text left out; ``None`` where it is not a list of messages.

    A message is a ``Message``, a mapping with ``role`` (or ``type``) and ``content``, an object with ``type`` and
    ``content`` (LangChain), or a pair of role and text; a pair of two other texts is a question and its answer.

    >>> messages_of([("human", "Hi"), {"role": "assistant", "content": "Hello"}])
    (Message(role='user', content='Hi'), Message(role='assistant', content='Hello'))
    """
    if isinstance(value, Mapping):
        value = value.get("messages")
    try:
        elements = elements_of(value, "history")
    except InvalidFieldError:
        return None
    if elements is None:
        return None
    found: list[Message] = []
    for element in elements:
        turns = _turns_of(element)
        if turns is None:
            return None
        found += turns
    return tuple(message for message in found if message.content.strip())


def messages_in(value: object) -> tuple[Message, ...] | None:
    """The messages inside chain ``inputs``, where the question is found among them; ``None`` if there are none."""
    for _ in range(_DEEPEST):
        if isinstance(value, (list, tuple)):
            return messages_of(value)
        if not isinstance(value, Mapping):
            return None
        if not is_missing(value.get("messages")):
            return messages_of(value)
        value = next((value[key] for key in _QUESTION_KEYS if not is_missing(value.get(key))), None)
    return None


def turns_before(messages: Sequence[Message], question: str | None, answer: str | None) -> tuple[Message, ...]:
    """The messages before the one that asks ``question``: all, unless it is the last question among them.

    A question that was answered otherwise than by ``answer`` was asked before.
    """
    last = max((place for place, message in enumerate(messages) if message.role == "user"), default=None)
    if last is None or question is None or messages[last].content.strip() != question.strip():
        return tuple(messages)
    replies = [message.content.strip() for message in messages[last + 1 :] if message.role == "assistant"]
    if replies and answer is not None and answer.strip() not in replies:
        return tuple(messages)
    return tuple(messages[:last])


def mapping_of(value: object) -> Mapping[Any, Any]:
    """``value`` where it is a mapping or a string that holds a JSON object, else an empty mapping."""
    if not isinstance(value, str):
        return value if isinstance(value, Mapping) else {}
    if not value.lstrip().startswith("{"):
        return {}
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


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
    return joined_parts(content) if content is not None else None


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
        role, content = role_and_content(message)
        if isinstance(role, str) and role in roles and content:
            last = joined_parts(content)
    return last


def role_and_content(message: object) -> tuple[object, object]:
    """Who spoke, as the message says it, and what; ``None`` twice where it is no message."""
    if isinstance(message, Message):
        return message.role, message.content
    if isinstance(message, Mapping):  # OpenTelemetry calls the content parts
        return message.get("role", message.get("type")), message.get("content", message.get("parts"))
    return getattr(message, "type", None), getattr(message, "content", None)


def _turns_of(element: object) -> list[Message] | None:
    """The one message, or the two of a question with its answer; ``None`` where it is neither."""
    if isinstance(element, (list, tuple)):
        if len(element) != 2 or not all(isinstance(each, str) for each in element):
            return None
        first, second = element
        if first in USER_ROLES | MODEL_ROLES | {"system"}:
            return [_message(first, second)]
        return [Message("user", first), Message("assistant", second)]
    role, content = role_and_content(element)
    if not isinstance(role, str):
        return None
    return [_message(role, content)]


def _message(role: str, content: object) -> Message:
    text = joined_parts(content)
    name = "user" if role in USER_ROLES else "assistant" if role in MODEL_ROLES else role
    return Message(name, text if isinstance(text, str) else "")


def joined_parts(content: object) -> object:
    """The text of a message whose content is a list of parts (``{"type": "text", "text": …}``, or ``content``)."""
    if not isinstance(content, (list, tuple)):
        return content
    texts = [
        part.get("text", part.get("content") if part.get("type") == "text" else None)
        if isinstance(part, Mapping)
        else part
        for part in content
    ]
    return "\n".join(text for text in texts if isinstance(text, str)) or None
