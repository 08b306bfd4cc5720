"""Finds questions, answers, passages and history in the inputs and outputs of chains and in chat messages."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from mlflow_ragmetrics.core.score import Chunk, Message, Sample
from mlflow_ragmetrics.errors import InvalidDataError, InvalidFieldError
from mlflow_ragmetrics.rows.aliases import ALIASES, ALIASES_BY_NATURE, with_accepted_names
from mlflow_ragmetrics.rows.passages import TEXT_KEYS, chunks_of, distinct, document_ids_of
from mlflow_ragmetrics.rows.values import decoded, is_list, is_missing, mapping_of
from mlflow_ragmetrics.text.non_answers import is_bare_courtesy
from mlflow_ragmetrics.text.sentences import sentences
from mlflow_ragmetrics.text.shown import shown

QUESTION_KEYS = ("question", "query", "input", *ALIASES["question"], "content")
_OUTPUT_KEYS = ("answer", "output", "response", "content", *ALIASES["answer"])
_ANSWER_KEYS = (*_OUTPUT_KEYS, "output_text", "structured_response", "parsed", *ALIASES_BY_NATURE["answer"])
_REFERENCE_KEYS = ("reference", *ALIASES["reference"], *ALIASES_BY_NATURE["reference"], *_OUTPUT_KEYS)
USER_ROLES = frozenset({"user", "human"})
MODEL_ROLES = frozenset({"assistant", "ai", "AIMessageChunk"})
_THOUGHTS = frozenset({"thinking", "reasoning", "redacted_thinking"})
_DEEPEST = 6


def question_in(value: object) -> object:
    """The question in chain ``inputs``: a mapping's question, or its last user message; ``value`` if none."""
    return _levels(value, QUESTION_KEYS, USER_ROLES)[-1]


def answer_in(value: object) -> object:
    """The answer in chain ``outputs``: a mapping's answer, or its last model message; ``value`` if none."""
    return _levels(value, _ANSWER_KEYS, MODEL_ROLES)[-1]


def citations_in(value: object) -> list[Any]:
    """The citations of the answer in chain ``outputs``, from the first of these places:

    - ``citations`` in the answer's mapping, for structured output (numbers, ids or mappings)
    - ``citations`` (Anthropic) or ``annotations`` (OpenAI) in the message's content blocks, with the block's text
    - ``citations`` in the message's ``additional_kwargs`` (Cohere)
    """
    value = _as_mapping(value)
    for level in () if isinstance(value, str) else _levels(value, _ANSWER_KEYS, MODEL_ROLES):
        inner = _as_mapping(level)
        listed = inner.get("citations") if isinstance(inner, Mapping) else None
        if is_list(listed) and listed:
            return [_as_mapping(citation) for citation in listed]
        citations = _mappings_in(attribute_of(attribute_of(inner, "additional_kwargs"), "citations"))
        for block in _mappings_in(attribute_of(inner, "content")):
            cited = _mappings_in(block.get("citations") or block.get("annotations"))
            citations += [{**citation, "text": block.get("text")} for citation in cited if _cites(citation)]
        if citations:
            return citations
    return []


def thoughts_in(value: object) -> str:
    """A reasoning model's thoughts in the blocks of the answer's message or next to its content; ``""`` if none."""
    for level in _levels(_as_mapping(value), _ANSWER_KEYS, MODEL_ROLES):
        blocks = _mappings_in(level if is_list(level) else attribute_of(level, "content"))
        thoughts = [
            block.get("thinking") or block.get("reasoning") or block.get("text")
            for block in blocks
            if block.get("type") in _THOUGHTS
        ]
        extra = attribute_of(level, "additional_kwargs")
        thoughts += [attribute_of(part, "reasoning_content") for part in (level, extra)]
        if texts := [text for text in thoughts if isinstance(text, str) and text.strip()]:
            return "\n".join(texts)
    return ""


def _mappings_in(value: object) -> list[Any]:
    return [entry for entry in value if isinstance(entry, Mapping)] if is_list(value) else []


def fields_of(value: Any) -> Any:
    """A pydantic model or dataclass of the application as a mapping; anything else unchanged."""
    kind = type(value)
    if hasattr(kind, "lc_id"):  # messages, prompts and documents of LangChain
        return value
    if hasattr(kind, "model_fields"):
        return dict(value)
    if is_dataclass(kind) and not hasattr(kind, "goto"):  # LangGraph's Command
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return value


def _as_mapping(value: object) -> Any:
    """A structured output, or its JSON, as a mapping; anything else unchanged."""
    return (mapping_of(value) or value) if isinstance(value, str) else fields_of(value)


def _cites(entry: Mapping[Any, Any]) -> bool:
    return "cite" in str(entry) or "citation" in str(entry.get("type", "citation"))


def reference_in(value: object) -> object:
    """The reference in expected outputs; ``value`` if there is none."""
    return _levels(value, _REFERENCE_KEYS, MODEL_ROLES)[-1] if isinstance(value, Mapping) else value


def messages_of(value: object) -> tuple[Message, ...] | None:
    """``value`` as messages, without empty ones; ``None`` if it is not a list of messages.

    A message is a ``Message``, a mapping with ``role`` (or ``type``) and ``content``, an object with ``type`` and
    ``content`` (LangChain), or a pair of role and text. A pair of other texts is a question and its answer.

    >>> messages_of([("human", "Hi"), {"role": "assistant", "content": "Hello"}])
    (Message(role='user', content='Hi'), Message(role='assistant', content='Hello'))
    """
    value = decoded(mapping_of(value).get("messages", value))
    if not is_list(value):
        return () if isinstance(value, str) and not value.strip() else None
    messages: list[Message] = []
    for element in value:
        turns = _turns_of(element)
        if turns is None:
            return None
        messages += turns
    return tuple(message for message in messages if message.content.strip())


def messages_in(value: object) -> tuple[Message, ...] | None:
    """The messages in chain ``inputs`` that contain the question; ``None`` if there are none."""
    for level in _levels(_as_mapping(value), QUESTION_KEYS, USER_ROLES):
        if is_list(level) or (isinstance(level, Mapping) and not is_missing(level.get("messages"))):
            return messages_of(level)
    return None


def turns_before(messages: Sequence[Message], question: str | None, answer: str | None) -> tuple[Message, ...]:
    """The messages before the last one that asks ``question``; all messages if none does.

    If that question already has a reply other than ``answer``, it is an earlier turn, and all messages are returned.
    """
    user_texts = [message.content.strip() if message.role == "user" else None for message in messages]
    positions = [place for place, text in enumerate(user_texts) if question is not None and text == question.strip()]
    if not positions:
        return tuple(messages)
    replies = [message.content.strip() for message in messages[positions[-1] + 1 :] if message.role == "assistant"]
    if replies and answer is not None and answer.strip() not in replies:
        return tuple(messages)
    return tuple(messages[: positions[-1]])


def _levels(value: object, keys: Sequence[str], roles: frozenset[str]) -> list[object]:
    """``value`` and the nested mappings, messages and contents on the way to the text."""
    levels = [value]
    while len(levels) <= _DEEPEST and not isinstance(levels[-1], str):
        inner = _inside(levels[-1], keys, roles)
        if is_missing(inner):
            break
        levels.append(inner)
    return levels


def _inside(value: object, keys: Sequence[str], roles: frozenset[str]) -> object:
    """The next inner level of ``value``, or ``None``."""
    value = fields_of(value)
    if is_list(value) and not is_turn(value):
        is_content = bool(value) and all(isinstance(part, Mapping) and "role" not in part for part in value)
        return joined_parts(value) if is_content and any(map(_is_text_part, value)) else _last_message(value, roles)
    role, content = role_and_content(value)
    has_content = not is_missing(content) and bool(content)
    if not isinstance(value, Mapping) or (has_content and role in roles):
        return joined_parts(content)
    if _is_text_part(value):
        return joined_parts([value])
    value = with_accepted_names(value)
    inner = next((value[key] for key in keys if not is_missing(value.get(key))), None)
    if inner is None:
        choices = [attribute_of(choice, "message") for choice in _mappings_in(value.get("choices"))[:1]]
        inner = _last_message(value["messages"] if is_list(value.get("messages")) else choices, roles)
    return inner


def _last_message(messages: Iterable[object], roles: frozenset[str]) -> object:
    """The last non-empty message of these roles."""
    last = None
    for message in messages:
        role, content = role_and_content(message)
        if role in roles and content:
            last = message
    return last


def role_and_content(message: object) -> tuple[str | None, Any]:
    """The role and content of a message or of a pair of role and text; ``(None, None)`` for anything else."""
    if is_list(message):
        return (message[0], message[1]) if len(message) == 2 and isinstance(message[0], str) else (None, None)
    role = attribute_of(message, "role" if isinstance(message, Message) else "type")
    content = attribute_of(message, "content")
    if isinstance(message, Mapping):  # OpenTelemetry calls the content parts
        role, content = message.get("role", role), message.get("content", message.get("parts"))
    return role if isinstance(role, str) else None, content


def _turns_of(element: object) -> list[Message] | None:
    """One message, or two for a question and its answer; ``None`` if it is neither."""
    if is_list(element):
        if len(element) != 2 or not all(isinstance(entry, str) for entry in element):
            return None
        if element[0] not in USER_ROLES | MODEL_ROLES | {"system"}:
            return [Message("user", element[0]), Message("assistant", element[1])]
    role, content = role_and_content(element)
    if role is None:
        return None
    text = joined_parts(content)
    text = text if isinstance(text, str) else ""
    name = "user" if role in USER_ROLES else "assistant" if role in MODEL_ROLES else role
    return [Message(name, shown(text).text if name == "assistant" else text)]


def joined_parts(content: object) -> object:
    """The text of a message's content, which may be a list of parts (``{"type": "text", "text": …}``).

    Parts are joined without a separator, because providers cut them in mid-sentence.
    """
    if not is_list(content):
        return content
    texts = [joined_parts(_part_text(part)) if isinstance(part, Mapping) else part for part in content]
    return "".join(text for text in texts if isinstance(text, str)) or None


def _part_text(part: Mapping[str, Any]) -> object:
    """A text block's text, or the blocks of an Anthropic search result; ``None`` for a model's thoughts."""
    if part.get("type") in _THOUGHTS:
        return None
    return part.get("text", part.get("content") if part.get("type") in ("text", "search_result") else None)


_TOOL_ROLES = frozenset({"tool", "function"})
_DIRECTING = ("transfer_to_", "transfer_back_to_", "handoff_to_", "write_todos")


def sample_from_messages(messages: Sequence[Any]) -> Sample:
    """Convert an agent's conversation to a sample with its last question and the answer to it.

    ``messages`` are LangChain messages, OpenAI dicts, pairs of role and text, or a mapping with ``"messages"``. The
    turns before the question become ``history``. The results of tools since the question become ``contexts``,
    together with passages from earlier turns that the answer uses; without tool calls, ``contexts`` is ``None``. A
    message that only calls tools is not an answer.

    >>> turns = [("user", "How tall?"), {"role": "tool", "content": "It is 29 m tall."}, ("assistant", "29 m.")]
    >>> sample_from_messages(turns).texts
    ('It is 29 m tall.',)

    Raises:
        InvalidDataError: if these are not messages.
    """
    listed = messages.get("messages") if isinstance(messages, Mapping) else messages
    turns = messages_of(listed)
    if turns is None or not isinstance(listed, Sequence):
        raise InvalidDataError("These are not messages: give a list of messages with `role` and `content`.")
    output = closing_answer(listed)
    answer, thoughts = (None, "") if output is None else shown(output)
    thoughts = thoughts or thoughts_in(listed)
    question = next((turn.content for turn in reversed(turns) if turn.role == "user"), None)
    contexts = contexts_in(listed, answer)
    return Sample(
        question=question,
        answer=answer,
        contexts=contexts,
        retrieved_doc_ids=document_ids_of(contexts or ()) or None,
        history=turns_before(turns, question, answer) or None,
        metadata={"thoughts": thoughts} if thoughts.strip() else {},
    )


def closing_answer(messages: Sequence[Any]) -> str | None:
    """The model's last text after the last question; ``None`` if a tool call follows."""
    for message in reversed(messages):
        role, content = role_and_content(message)
        if role in USER_ROLES or (role in MODEL_ROLES and has_open_calls(message)):
            return None
        text = joined_parts(content)
        if role in MODEL_ROLES and isinstance(text, str) and text.strip():
            return text
    return None


def has_open_calls(message: object) -> bool:
    """Whether a message calls tools and so is not an answer yet."""
    return bool(attribute_of(message, "tool_calls"))


def directs_agents(tool: object) -> bool:
    """Whether the tool with this name hands over to another agent or stores a plan, and so returns no passages."""
    return isinstance(tool, str) and tool.startswith(_DIRECTING)


def contexts_in(messages: object, answer: object) -> tuple[Chunk, ...] | None:
    """The tools' passages for the last question, and earlier ones that ``answer`` uses; ``None`` without tools."""
    listed = messages if is_list(messages) else ()
    if not any(
        role_and_content(each)[0] in _TOOL_ROLES and not directs_agents(attribute_of(each, "name")) for each in listed
    ):
        return None
    now, earlier = tool_chunks_by_turn(listed)
    return (*now, *rested_on(answer if isinstance(answer, str) else "", now, earlier))


def tool_chunks_by_turn(
    messages: Sequence[Any], tools: Collection[str] | None = None
) -> tuple[tuple[Chunk, ...], tuple[Chunk, ...]]:
    """The passages returned by ``tools`` since the last question, and those returned before it."""
    asked = max((place for place, each in enumerate(messages) if role_and_content(each)[0] in USER_ROLES), default=0)
    turns = [
        [message for message in part if role_and_content(message)[0] in _TOOL_ROLES]
        for part in (messages[asked:], messages[:asked])
    ]
    now, earlier = (distinct(chunk for message in turn for chunk in tool_chunks(message, tools)) for turn in turns)
    return now, tuple(chunk for chunk in earlier if chunk not in now)


def rested_on(answer: str, now: Sequence[Chunk], earlier: Sequence[Chunk]) -> tuple[Chunk, ...]:
    """The ``earlier`` passages that match sentences of ``answer`` without a match in ``now``."""
    if not earlier:
        return ()
    from mlflow_ragmetrics.judges.lexical.grades import related_places
    from mlflow_ragmetrics.judges.lexical.support import source_of

    def related(text: str, chunks: Sequence[Chunk]) -> set[int]:
        source = source_of(tuple(chunk.text for chunk in chunks))
        return {place.passage for place, _ in related_places(text, source)}

    claims = [sentence for sentence in sentences(answer) if not (is_bare_courtesy(sentence) or sentence.endswith("?"))]
    places = related("\n".join(claim for claim in claims if not related(claim, now)), earlier)
    return tuple(chunk for place, chunk in enumerate(earlier, start=1) if place in places)


def is_turn(element: object) -> bool:
    """Whether it is a user, model or system message."""
    return role_and_content(element)[0] in (*USER_ROLES, *MODEL_ROLES, "system")


def tool_chunks(result: Any, tools: Collection[str] | None = None) -> tuple[Chunk, ...]:
    """A tool's result as chunks: its artifact's documents, else the passages in its JSON or parts, else its text.

    ``result`` is a tool's message or return value. Other messages, errors and tools that are not in ``tools`` give
    ``()``; if ``tools`` is ``None``, so do tools that only direct agents.
    """
    role, content = (None, None) if is_list(result) else role_and_content(result)
    if role is None or content is None:
        return _passages(result)
    name, status, artifact = (attribute_of(result, attribute) for attribute in ("name", "status", "artifact"))
    if role not in _TOOL_ROLES or status == "error" or (directs_agents(name) if tools is None else name not in tools):
        return ()
    for entries in artifact.values() if isinstance(artifact, Mapping) else [artifact]:
        if is_list(entries) and entries and all(hasattr(entry, "page_content") for entry in entries):
            return chunks_of(entries) or _passages(content)
    return _passages(content)


def _passages(value: Any) -> tuple[Chunk, ...]:
    """The passages in a tool's result: each element of a list of texts or dicts with text, else the whole result."""
    parsed = decoded(value)
    if elements := _elements_in(parsed):
        return elements
    is_escaped = isinstance(value, str) and "\\u" in value and parsed is not value
    if is_escaped or (isinstance(value, (Mapping, list, tuple)) and value):
        return (Chunk(json.dumps(parsed, ensure_ascii=False, default=str)),)
    is_text = isinstance(value, (str, int, float)) and not isinstance(value, bool) and str(value).strip()
    return (Chunk(str(value)),) if is_text else ()


def _elements_in(value: Any) -> tuple[Chunk, ...]:
    if isinstance(value, Mapping):
        lists = [entry for entry in value.values() if is_list(entry) and entry and not isinstance(entry[0], str)]
        if within := next((elements for entry in lists if (elements := _elements_in(entry))), ()):
            return within
        return _chunks_or_none([value]) if any(isinstance(value.get(key), str) for key in TEXT_KEYS) else ()
    if not is_list(value) or not value:
        return ()
    parts = [joined_parts(_part_text(part)) if _is_text_part(part) else part for part in value]
    if all(isinstance(part, str) for part in parts):
        return tuple(chunk for part in parts for chunk in _passages(part))
    return _chunks_or_none(parts) or tuple(chunk for part in parts if is_list(part) for chunk in _elements_in(part))


def _chunks_or_none(value: Sequence[Any]) -> tuple[Chunk, ...]:
    try:
        return chunks_of(value) or ()
    except InvalidFieldError:
        return ()


def _is_text_part(part: object) -> bool:
    """Whether it is a content part with text, such as those from tools of an MCP server."""
    return isinstance(part, Mapping) and "type" in part and isinstance(joined_parts(_part_text(part)), str)


def attribute_of(message: object, name: str) -> Any:
    """The entry of a mapping, or the attribute of an object; ``None`` if it is absent."""
    return message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)
