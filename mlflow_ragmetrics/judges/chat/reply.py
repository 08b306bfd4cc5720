"""What a chat model sent back: its JSON, found tolerantly, and why there is none (cut short, refused)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from mlflow_ragmetrics.text.sentences import has_content, normalize


def tokens_in(text: str) -> int:
    """The tokens of a text, estimated as a quarter of its characters, rounded up."""
    return -(-len(text) // 4)


_DECODER = json.JSONDecoder(strict=False)
_CUT = {"length", "max_tokens", "max_output_tokens", "model_length"}
_FILTERED = {"content_filter", "refusal", "safety", "recitation", "prohibited_content", "blocklist"}
_THOUGHT = re.compile(r"^.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_THINKING = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_FENCED = re.compile(r"```[A-Za-z]*\s*(\{.*?\})\s*```", re.DOTALL)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_WASTED = 10
_COUNTED_AT_ONCE = 64
_WASTED_ANYHOW = 1_000_000
_REFUSAL = re.compile(
    r"^\W*(?:i['’]?m (?:very |really )?sorry|sorry|i (?:can(?:no|['’])t|am unable|am not able|won['’]t|must decline)"
    r"|извините|простите|к сожалению|я не могу)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Problem:
    """Why a reply cannot be used, in words of ours: none of the reply's own text is in it."""

    text: str


@dataclass(frozen=True)
class Reply:
    """A chat model's reply: its text, its JSON object where there is one, and what it cost.

    ``cut``: the limit on tokens ended it. ``refused``: the model, or its provider's filter, would not answer.
    ``tokens`` has ``input``, ``output`` and ``cached`` where the provider tells.
    """

    text: str
    data: Mapping[str, Any] | None = None
    cut: bool = False
    refused: bool = False
    tokens: Mapping[str, int] = field(default_factory=dict)


def read_reply(message: Any, keys: Collection[str] = ()) -> Reply:
    """What a LangChain message says, whether as text, as blocks or as the arguments of a tool call.

    ``keys`` are those that the object wanted may have.
    """
    said = _text_of(message).strip()
    whole = _whole_object(said)
    text = said if whole is not None else _THOUGHT.sub("", said).strip()
    calls = getattr(message, "tool_calls", None) or []
    facts = getattr(message, "response_metadata", None) or {}
    ended = str(facts.get("finish_reason") or facts.get("stop_reason") or facts.get("done_reason") or "").lower()
    extra = getattr(message, "additional_kwargs", None) or {}
    refused = bool(extra.get("refusal")) or ended in _FILTERED or _has_refusal_block(message)
    cut = ended in _CUT
    declined = _REFUSAL.match(text) is not None
    if calls:
        data = calls[0].get("args")
    elif whole is not None and not declined and not whole.keys().isdisjoint(keys):
        data = whole
    else:  # beside a refusal, or before a cut, stand quotes and drafts
        data = None if declined or (cut and not _is_object(text)) else parse_object(text, keys)
    return Reply(
        text=text or str(extra.get("refusal") or ""),
        data=data if isinstance(data, Mapping) else None,
        cut=cut and not refused,
        refused=refused or (data is None and not cut and declined),
        tokens=_tokens_of(message),
    )


def reply_in_error(error: BaseException, keys: Collection[str] = ()) -> Reply | None:
    """The reply inside a client's exception about how the reply ended (OpenAI's raise these); else ``None``."""
    kind = type(error).__name__
    if kind == "ContentFilterFinishReasonError":
        return Reply("", refused=True)
    if kind != "LengthFinishReasonError":
        return None
    completion = getattr(error, "completion", None)
    choices = getattr(completion, "choices", None) or []
    text = (choices[0].message.content or "") if choices else ""
    usage = getattr(completion, "usage", None)
    tokens = {"input": usage.prompt_tokens, "output": usage.completion_tokens, "cached": 0} if usage else {}
    return Reply(text, parse_object(text, keys) if _is_object(text.strip()) else None, cut=True, tokens=tokens)


def parse_object(text: str, keys: Collection[str] = ()) -> dict[str, Any] | None:
    """The one JSON object with any of ``keys`` that ends ``text`` or stands alone in a fence; else ``None``.

    What is quoted on the way is not an answer, nor is a draft in thoughts that do not end. Two different objects are
    none: a reply that quotes a forged one beside its own must not be read by the wrong one.

    >>> parse_object('Here you are: ```json {"grade": 4,} ``` Anything else?')
    {'grade': 4}
    >>> parse_object('The text says {"grade": 5}, which I do not follow.') is None
    True
    """
    if _THINKING.search(text) and not _is_object(text.strip()):
        return None
    for candidate in (text, _TRAILING_COMMA.sub(r"\1", text)):
        objects = _objects(candidate)
        if objects is None:
            return None
        found = [each for each in objects if not keys or not each[0].keys().isdisjoint(keys)]
        if not found:
            continue
        value = found[0][0]
        if any(each[0] != value for each in found):
            return None
        fences = [match.span(1) for match in _FENCED.finditer(candidate)]
        stands = any(not candidate[end:].strip(" \t\r\n`") or (start, end) in fences for _, start, end in found)
        return value if stands else None
    return None


def _is_object(text: str) -> bool:
    return _whole_object(text) is not None


def _whole_object(text: str) -> dict[str, Any] | None:
    """What the text is where it is an object from its first character to its last."""
    try:
        value = _DECODER.decode(text) if text.startswith("{") else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _objects(text: str) -> list[tuple[dict[str, Any], int, int]] | None:
    """The objects in ``text`` with their places; ``None`` where it is built to take time without end.

    An object inside of what began as one and does not end is a part of an answer, and left out.
    """
    found: list[tuple[dict[str, Any], int, int]] = []
    wasted, most, unfinished = 0, _WASTED * len(text) + _WASTED_ANYHOW, 0
    position = text.find("{")
    while position != -1:
        try:
            value, end = _DECODER.raw_decode(text, position)
        except RecursionError:
            return None
        except json.JSONDecodeError as error:
            end = position + 1
            unfinished = max(unfinished, error.pos)
            wasted += error.pos - position + error.pos // _COUNTED_AT_ONCE  # the error counts lines from the start
        except ValueError:  # a number of more digits than Python reads
            end = position + 1
            wasted += len(text) - position
        else:
            if position >= unfinished:
                found.append((value, position, end))
        if wasted > most:
            return None
        position = text.find("{", end)
    return found


def _text_of(message: Any) -> str:
    content = getattr(message, "content", message)
    if isinstance(content, str):
        return content
    parts = [part.get("text") if isinstance(part, dict) else part for part in content or []]
    return "".join(part for part in parts if isinstance(part, str))


def _has_refusal_block(message: Any) -> bool:
    content = getattr(message, "content", None)
    blocks = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return any(block.get("type") == "refusal" for block in blocks)


def _tokens_of(message: Any) -> dict[str, int]:
    usage = getattr(message, "usage_metadata", None)
    if not usage:
        return {}
    cached = (usage.get("input_token_details") or {}).get("cache_read") or 0
    sent, received = usage.get("input_tokens") or 0, usage.get("output_tokens") or 0
    return {"input": int(sent), "output": int(received), "cached": int(cached)}


_TEXT = {"type": "string"}


def array_of(**properties: Any) -> dict[str, Any]:
    """The schema of an array of objects that have exactly these properties; ``str`` stands for a text."""
    shapes = {name: _TEXT if shape is str else shape for name, shape in properties.items()}
    entry = {"type": "object", "properties": shapes, "required": list(shapes), "additionalProperties": False}
    return {"type": "array", "items": entry}


def entries_by_id(data: Mapping[str, Any], key: str, asked: Sequence[str]) -> dict[str, Mapping[str, Any]] | Problem:
    """The entries of the array ``key`` by id, provided that the ids are exactly those asked, each once."""
    entries = data.get(key)
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        return Problem(f'"{key}" must be a list of objects')
    ids = [str(entry.get("id", "")).strip() for entry in entries]
    missing = [each for each in asked if each not in ids]
    if missing:
        return Problem(f'"{key}" has no entry with the id {", ".join(missing[:5])}')
    if len(ids) != len(asked):
        return Problem(f'"{key}" must have one entry for each of {", ".join(asked)} and no other')
    return dict(zip(ids, entries, strict=True))


def text_in(entry: Mapping[str, Any], name: str) -> str:
    """The text under ``name`` on one line, or ``""``."""
    value = entry.get(name)
    return " ".join(value.split()) if isinstance(value, str) else ""


_QUOTATION_MARKS = re.compile("[\"'`´‘’‚‛“”„‟«»‹›′″]")
_DASHES = re.compile("[-‐‑‒–—―−]+")
_ELLIPSIS = re.compile(r"[\[(]?(?:…|\.\.\.|\. \. \.)[\])]?")
_EDGES = " \t\r\n.,;:!?"


def found_in(passage: str, quote: str) -> bool:
    """Whether ``passage`` holds ``quote``, its parts in order where an ellipsis parts it.

    Case, spacing, kinds of quotation marks and dashes, and punctuation at the ends of a part do not count.

    >>> found_in("It opens at 9 – on weekdays, that is – and closes at 5.", "“opens at 9 - on weekdays … closes at 5”")
    True
    """
    parts = [part for each in _ELLIPSIS.split(quote) if has_content(part := _plain(each).strip(_EDGES))]
    text, place = _plain(passage) if parts else "", 0
    for part in parts:
        found = text.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return bool(parts)


@lru_cache(maxsize=256)
def _plain(text: str) -> str:
    folded = _DASHES.sub("-", _QUOTATION_MARKS.sub("", normalize("NFKC", text))).casefold()
    return " ".join(folded.split())


def passage_quotes(
    given: object, passages: Sequence[str], number_of: Callable[[object], int]
) -> tuple[dict[int, str], bool]:
    """The quotes of a reply by the number of their passage, and whether the reply quoted any words at all.

    ``number_of`` gives the number, from 1, of the passage with a label; 0 for none of them. A quote that its passage
    does not hold is ``""``.
    """
    found: dict[int, str] = {}
    quoted = False
    for quote in given if isinstance(given, list) else []:
        if isinstance(quote, Mapping):
            text = bare_quote(quote, "text")
            quoted = quoted or any(map(str.isalnum, text))
            number = number_of(quote.get("passage"))
            if number:
                found[number] = found.get(number) or (text if found_in(passages[number - 1], text) else "")
    return found, quoted


def bare_quote(entry: Mapping[str, Any], name: str) -> str:
    """The text under ``name`` without the quotation marks around it."""
    return text_in(entry, name).strip(" \"'“”«»…")


def number_in(label: object) -> int:
    """The number of a passage's label, such as 3 for ``p3``; 0 where it has none."""
    digits = str(label).strip().lstrip("pP")
    return int(digits) if digits.isdecimal() and len(digits) < 8 else 0
