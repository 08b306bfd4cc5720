"""A conversation of a model that asks tools: its answer, and what the tools gave it to answer from."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeGuard

from mlflow_ragmetrics.core.sample import Chunk, Sample
from mlflow_ragmetrics.errors import InvalidDataError, InvalidFieldError
from mlflow_ragmetrics.rows.messages import (
    MODEL_ROLES,
    USER_ROLES,
    joined_parts,
    messages_of,
    role_and_content,
    turns_before,
)
from mlflow_ragmetrics.rows.values import chunks_of, distinct, document_ids_of

__all__ = [
    "closing_answer",
    "directs_agents",
    "has_open_calls",
    "sample_from_messages",
    "tool_chunks",
    "tool_chunks_in",
]

_TOOL_ROLES = frozenset({"tool", "function"})
_DIRECTING = ("transfer_to_", "transfer_back_to_", "handoff_to_", "write_todos")


def sample_from_messages(messages: Sequence[Any]) -> Sample:
    """A conversation, as agents take and give it, as a sample: what was asked last, and what was answered to it.

    ``messages`` are LangChain's, OpenAI's dicts, pairs of role and text, or a mapping that has them under
    ``"messages"``. The turns before the question are its ``history``; what tools gave before the answer are its
    ``contexts`` (``None`` where no tool was asked). A message that only calls tools is no answer.

    >>> turns = [("user", "How tall?"), {"role": "tool", "content": "It is 29 m tall."}, ("assistant", "29 m.")]
    >>> sample_from_messages(turns).texts
    ('It is 29 m tall.',)

    Raises:
        InvalidDataError: where these are no messages.
    """
    listed = messages.get("messages") if isinstance(messages, Mapping) else messages
    turns = messages_of(listed)
    if turns is None or not isinstance(listed, Sequence):
        raise InvalidDataError("These are no messages: give a list of messages with `role` and `content`.")
    answer = closing_answer(listed)
    question = next((turn.content for turn in reversed(turns) if turn.role == "user"), None)
    contexts = tool_chunks_in(listed)
    ids = document_ids_of(contexts or ())
    history = turns_before(turns, question, answer)
    return Sample(
        question=question,
        answer=answer,
        contexts=contexts,
        retrieved_doc_ids=ids or None,
        history=history or None,
    )


def closing_answer(messages: Sequence[Any]) -> str | None:
    """The model's last text after the last question; ``None`` where it goes on to call a tool."""
    for message in reversed(messages):
        role = _role_of(message)
        if role in USER_ROLES:
            return None
        if role in MODEL_ROLES:
            text = joined_parts(role_and_content(message)[1])
            if isinstance(message, (list, tuple)):
                text = message[1]
            if has_open_calls(message):
                return None
            if isinstance(text, str) and text.strip():
                return text
    return None


def has_open_calls(message: object) -> bool:
    """Whether a message asks for tools, so that it is no answer yet."""
    calls = message.get("tool_calls") if isinstance(message, Mapping) else getattr(message, "tool_calls", None)
    return bool(calls)


def directs_agents(tool: object) -> bool:
    """Whether a tool of this name hands over to another agent, or notes a plan: it gives nothing to answer from."""
    return isinstance(tool, str) and tool.startswith(_DIRECTING)


def tool_chunks_in(messages: object) -> tuple[Chunk, ...] | None:
    """What the tools in a list of messages gave, before the last answer; ``None`` where there is none of them."""
    listed = messages if _is_list(messages) else ()
    of_tools = [message for message in listed if _role_of(message) in _TOOL_ROLES]
    found = [message for message in of_tools if not directs_agents(_attribute(message, "name"))]
    return distinct(chunk for message in found for chunk in tool_chunks(message)) if found else None


def tool_chunks(result: Any, tools: Collection[str] | None = None) -> tuple[Chunk, ...]:
    """What a tool gave as chunks: the documents of its artifact, else the passages in its JSON or parts, else its text.

    ``result``: a tool's message (``()`` for other messages, for errors, and for tools that ``tools`` does not name, or
    without it for those that only direct agents), or what the tool returned.
    """
    role, content = role_and_content(result)
    if role is None or content is None:
        return _passages(result)
    name, status, artifact = (_attribute(result, each) for each in ("name", "status", "artifact"))
    if role not in _TOOL_ROLES or status == "error" or (directs_agents(name) if tools is None else name not in tools):
        return ()
    documents = _documents(artifact)
    return documents if documents else _passages(content)


def _documents(artifact: object) -> tuple[Chunk, ...]:
    listed = artifact if _is_list(artifact) else ()
    if not listed or not all(hasattr(each, "page_content") for each in listed):
        return ()
    return chunks_of(listed) or ()


def _passages(value: Any) -> tuple[Chunk, ...]:
    """The passages in what a tool returned: each element of a list of texts or of dicts with a text, else all of it."""
    if isinstance(value, str):
        if value.lstrip()[:1] in ("[", "{"):
            try:
                parsed = json.loads(value)
            except (ValueError, RecursionError):
                parsed = None
            found = _passages(parsed) if isinstance(parsed, (list, dict)) else ()
            if found:
                return found
        return (Chunk(value),) if value.strip() else ()
    if isinstance(value, Mapping):
        lists = [each for each in value.values() if _is_list(each) and each and isinstance(each[0], Mapping)]
        within = next((found for each in lists if (found := _passages(each))), ())
        if within or not value:
            return within
        if any(isinstance(value.get(key), str) for key in ("text", "page_content", "content")):
            return _chunks_or_none([value])
        return (Chunk(json.dumps(value, ensure_ascii=False, default=str)),)
    if _is_list(value) and value:
        parts = [part.get("text") if _is_text_part(part) else part for part in value]
        if all(isinstance(part, str) for part in parts):
            return tuple(chunk for part in parts for chunk in _passages(part))
        return _chunks_or_none(parts) or (Chunk(json.dumps(value, ensure_ascii=False, default=str)),)
    return (Chunk(str(value)),) if isinstance(value, (int, float)) and not isinstance(value, bool) else ()


def _chunks_or_none(value: Sequence[Any]) -> tuple[Chunk, ...]:
    try:
        return chunks_of(value) or ()
    except InvalidFieldError:
        return ()


def _is_text_part(part: object) -> bool:
    """Whether it is a part of a message's content, as the tools of a MCP server give them."""
    return isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, tuple))


def _attribute(message: object, name: str) -> Any:
    return message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)


def _role_of(message: object) -> object:
    if isinstance(message, (list, tuple)) and len(message) == 2:
        return message[0]
    return role_and_content(message)[0]
