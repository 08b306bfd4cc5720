"""Reads a chat model's reply: finds its JSON tolerantly, or the reason why there is none (truncated, refused)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any

import json_repair

from mlflow_ragmetrics.core.question import Declines
from mlflow_ragmetrics.errors import JudgeReplyError
from mlflow_ragmetrics.text.words import STOP_WORDS, has_content, normalised, terms


def tokens_in(text: str) -> int:
    """The tokens of a text, estimated as a quarter of its characters, rounded up."""
    return -(-len(text) // 4)


ChatMessage = tuple[str, str]
"""A message as LangChain accepts it: a role (``"system"``, ``"human"``, ``"ai"``) and a text."""


def most_tokens_in(messages: Sequence[ChatMessage]) -> int:
    """The tokens of messages, estimated high enough for any alphabet, with fewer characters per token than English."""
    return sum(len(text.encode("utf-8", "replace")) for _, text in messages) // 3


_CUT = {"length", "max_tokens", "max_output_tokens", "model_length"}
_FILTERED = {
    "content_filter", "content_filtered", "guardrail_intervened", "refusal", "safety", "recitation",
    "prohibited_content", "blocklist",
}  # fmt: skip
_ENDINGS = ("finish_reason", "stop_reason", "stopReason", "done_reason")
_THOUGHTS = r"think(?:ing)?|thoughts?|reasoning"
_THOUGHT = re.compile(
    rf"^.*(?:</(?:{_THOUGHTS})>|\[/think\]|◁/think▷|<\|channel\|>final[^{{}}]{{0,200}}?<\|message\|>)",
    re.DOTALL | re.IGNORECASE,
)
_THINKING = re.compile(rf"<(?:{_THOUGHTS})>|\[think\]|◁think▷|<\|channel\|>", re.IGNORECASE)
_STOP_TOKENS = re.compile(
    r"(?:\s{0,9}(?:</s>|<[|｜][\w▁]{1,40}[|｜]>|<(?:end_of_turn|eos)>|\[/INST\])){1,9}$", re.IGNORECASE
)
_TAGGED = re.compile(
    r"<(tool_call|function_call|answer|output|response|result|json)>(.*)</\1>", re.DOTALL | re.IGNORECASE
)
_WRAPPERS = ("output", "properties", "arguments", "parameters", "response", "result", "reply", "answer", "json", "data")
_FENCE = re.compile(r"(```|~~~)[A-Za-z]{0,20}\s*$")
_NEAR = 200  # characters around an object that show whether it is part of a sentence
_OPENING = re.compile(r"[{\[]")
_BRACKET_OR_TEXT = re.compile(r'[{}\[\]]|"(?:[^"\\]|\\.)*"?', re.DOTALL)  # an unclosed text runs to the end
_LOOSE = str.maketrans("", "", " \t\r\n\"'`\\,")
_READERS: tuple[Callable[[str], Any], ...] = (
    json.JSONDecoder(strict=False).decode,
    partial(json_repair.loads, strict=True),  # strict: never merges several values
)
_REFUSAL = re.compile(
    r"^\W*(?:i['’]?m (?:very |really )?sorry|sorry|i (?:can(?:no|['’])t|am unable|am not able|won['’]t|must decline)"
    r"|извините|простите|к сожалению|я не могу)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Reply:
    """A chat model's reply: its text, its JSON object if it has one, and its tokens.

    ``cut``: the token limit ended it. ``refused``: the model or its provider's filter declined to answer. ``tokens``
    has ``input``, ``output`` and ``cached`` if the provider reports them.
    """

    text: str
    data: Mapping[str, Any] | None = None
    cut: bool = False
    refused: bool = False
    tokens: Mapping[str, int] = field(default_factory=dict)


def read_reply(message: Any, keys: Collection[str] = (), asked: str = "") -> Reply:
    """Read a LangChain message: its text, its blocks or the arguments of its first tool call.

    ``keys``: the keys that the object may have. ``asked``: the data of the request; an object copied from it is never
    the reply.
    """
    content = getattr(message, "content", message)
    parts = [content] if isinstance(content, str) else content or []
    blocks = [part if isinstance(part, dict) else {"text": part} for part in parts]
    calls = [*(getattr(message, "tool_calls", None) or []), *(getattr(message, "invalid_tool_calls", None) or [])]
    text = "".join(block["text"] for block in blocks if isinstance(block.get("text"), str)).strip()
    if calls:
        arguments = calls[0].get("args")
        text = arguments.strip() if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    is_whole = _is_object(text)
    if not is_whole:
        text = _STOP_TOKENS.sub("", _THOUGHT.sub("", text)).strip()
        tagged = _TAGGED.fullmatch(text)  # one tag around the whole rest
        text = tagged[2].strip() if tagged else text
    facts = getattr(message, "response_metadata", None) or {}
    endings = [*map(facts.get, _ENDINGS), (facts.get("incomplete_details") or {}).get("reason")]
    ended = str(next(filter(None, endings), "")).lower()
    refusal = str((getattr(message, "additional_kwargs", None) or {}).get("refusal") or "")
    refused = bool(refusal) or ended in _FILTERED or any(block.get("type") == "refusal" for block in blocks)
    cut = ended in _CUT
    declined = not is_whole and _REFUSAL.match(text) is not None
    # refusals and truncated replies may contain quotes and drafts
    data = None if declined or refused or (cut and not _is_object(text)) else parse_object(text, keys, asked)
    usage = getattr(message, "usage_metadata", None) or {}
    cached = (usage.get("input_token_details") or {}).get("cache_read")
    counts = {"input": usage.get("input_tokens"), "output": usage.get("output_tokens"), "cached": cached}
    return Reply(
        text=text or refusal,
        data=data,
        cut=cut and not refused,
        refused=refused or (declined and not cut),
        tokens={name: count for name, count in counts.items() if isinstance(count, int) and count > 0},
    )


def reply_in_error(error: BaseException, keys: Collection[str] = ()) -> Reply | None:
    """Read the reply from a client's exception about how it ended (OpenAI raises these); else ``None``."""
    kind = type(error).__name__
    if kind == "ContentFilterFinishReasonError":
        return Reply("", refused=True)
    if kind != "LengthFinishReasonError":
        return None
    completion = getattr(error, "completion", None)
    choices, usage = getattr(completion, "choices", None), getattr(completion, "usage", None)
    message = SimpleNamespace(
        content=choices[0].message.content if choices else None,
        response_metadata={"finish_reason": "length"},
        usage_metadata={"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens} if usage else {},
    )
    return read_reply(message, keys)


def parse_object(text: str, keys: Collection[str] = (), asked: str = "") -> dict[str, Any] | None:
    """Return the one JSON object with any of ``keys``, from a fence or from ``text`` outside its sentences.

    Outside fences, it must begin ``text`` or end it, or stand on lines of its own. Returns ``None`` if there is none.
    Ignores objects copied from ``asked``, the data of the request, and those quoted in a sentence or in unfinished
    thoughts. Two different objects also give ``None``: one may be a quoted forgery. Near-JSON is repaired.

    >>> parse_object('Here you are: ```json {"grade": 4,} ``` Anything else?')
    {'grade': 4}
    >>> parse_object('The text says {"grade": 5}, which I do not follow.') is None
    True
    """
    text = text.strip()
    is_whole = _is_object(text)
    if _THINKING.search(text) and not is_whole:
        return None
    data, reply, is_apart = _loose(asked), None, False
    last = len(text.rstrip("` \t\r\n"))
    for begin, end in [(0, len(text))] if is_whole else _spans(text):
        value = _shaped(_read(text[begin:end]), keys, data)
        if value is None or _is_part(text[begin:end], data):
            continue
        if reply not in (None, value):
            return None
        reply, is_apart = value, is_apart or end >= last or _is_apart(text, begin, end)
    return reply if is_apart else None


def _is_apart(text: str, begin: int, end: int) -> bool:
    """Whether the object between ``begin`` and ``end`` fills a fence, or is outside the sentences of ``text``."""
    before, after = text[max(0, begin - _NEAR) : begin], text[end : end + _NEAR]
    fence = _FENCE.search(before)
    if fence is not None and after.lstrip().startswith(fence[1]):
        return True
    before, after = before.rstrip(" \t`"), after.lstrip(" \t\r`")
    is_first = not before and begin <= _NEAR
    return (is_first or before.endswith("\n")) and (after.startswith("\n") or (is_first and after[:1].isupper()))


def _is_object(text: str) -> bool:
    """Whether the text is one JSON object from its first character to its last."""
    try:
        return text.startswith("{") and isinstance(_READERS[0](text), dict)
    except (ValueError, RecursionError):
        return False


def _read(source: Any) -> Any:
    """Parse a text with JSON or near-JSON; ``None`` if it is neither. Other values stay."""
    for read in _READERS if isinstance(source, str) else ():
        try:
            return read(source)
        except (ValueError, RecursionError):
            continue
    return None if isinstance(source, str) else source


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of outermost brackets that are closed."""
    position = begin = depth = 0
    while mark := (_BRACKET_OR_TEXT if depth else _OPENING).search(text, position):
        position = mark.end()
        if mark[0] in ("{", "["):
            begin = begin if depth else mark.start()
            depth += 1
        elif mark[0] in ("}", "]"):
            depth -= 1
            if not depth:
                yield begin, position


def _shaped(value: Any, keys: Collection[str], asked: str) -> dict[str, Any] | None:
    """Return the object in the requested form; accepts a bare list, a list as text, entries keyed by id, and an object
    in a wrapper such as ``{"output": {…}}``, unless it is copied from ``asked``."""
    if isinstance(value, list) and len(keys) == 1 and value and all(isinstance(entry, dict) for entry in value):
        value = value[0] if len(value) == 1 and not value[0].keys().isdisjoint(keys) else dict.fromkeys(keys, value)
    if isinstance(value, dict) and keys and value.keys().isdisjoint(keys):
        wrapped = next((value[name] for name in _WRAPPERS if isinstance(value.get(name), (dict, str))), None)
        value = _read(wrapped)
        if not isinstance(value, dict) or value.keys().isdisjoint(keys) or _is_part(json.dumps(value), asked):
            return None
    if not isinstance(value, dict):
        return None
    return {key: _entries(entry) if key in keys else entry for key, entry in value.items()}


def _entries(value: Any) -> Any:
    parsed = _read(value)
    value = parsed if isinstance(parsed, (list, dict)) else value
    if isinstance(value, dict) and value and all(isinstance(entry, dict) for entry in value.values()):
        return [{"id": name, "passage": name, **entry} for name, entry in value.items()]
    return value


def _is_part(source: str, asked: str) -> bool:
    """Whether the loose text ``asked`` contains the JSON ``source``, whatever the spacing and quoting."""
    return bool(asked) and any(
        _loose(form) in asked for form in (source, json.dumps(_read(source), ensure_ascii=False))
    )


def _loose(text: str) -> str:
    return text.translate(_LOOSE).casefold()


_TEXT = {"type": "string"}
DECLINES = {"type": "string", "enum": ["yes", "partly", "no"]}


def array_of(**properties: Any) -> dict[str, Any]:
    """Return the schema of an array of objects with exactly these properties; ``str`` means a text."""
    shapes = {name: _TEXT if shape is str else shape for name, shape in properties.items()}
    entry = {"type": "object", "properties": shapes, "required": list(shapes), "additionalProperties": False}
    return {"type": "array", "items": entry}


_LONGEST_REASON = 4000
_LABEL = re.compile(r"\W*(?:(?:p|passage|doc|document|context|source)\W*)?(\d{1,7})\W*", re.IGNORECASE)


class Entry(dict[str, Any]):
    """An object in a list of the reply; its fields are read tolerantly."""

    def text(self, name: str) -> str:
        """Return the text under ``name`` on one line, or ``""``."""
        value = self.get(name)
        return " ".join(value.split()) if isinstance(value, str) else ""

    @property
    def reason(self) -> str:
        """The reason; a very long one is cut, and says so."""
        reason = self.text("reason")
        left_out = len(reason) - _LONGEST_REASON
        return reason if left_out <= 0 else f"{reason[:_LONGEST_REASON]} [… {left_out:,} characters cut]"

    @property
    def declines(self) -> Declines | None:
        """The word under ``declines``; ``None`` for anything but yes, partly and no."""
        words: dict[str, Declines] = {"yes": "yes", "true": "yes", "partly": "partly", "no": "no", "false": "no"}
        return words.get(str(self.get("declines")).strip(" .").casefold())

    def is_true(self, name: str, default: bool | None = None) -> bool | None:
        """Return true or false, also as text; ``None`` for anything else."""
        return {"true": True, "false": False}.get(str(self.get(name, default)).strip().casefold())

    def number(self, name: str) -> float | None:
        """Return the number under ``name``, also from a text such as ``"85%"``; else ``None``."""
        value = self.get(name)
        try:
            return None if value is None or isinstance(value, bool) else float(str(value).strip().rstrip("%"))
        except ValueError:
            return None

    @property
    def passage(self) -> int:
        """The number in a passage's label, such as 3 for ``p3``, ``[p3]`` or ``passage 3``; 0 if there is none."""
        match = _LABEL.fullmatch(str(self.get("passage")))
        return int(match[1]) if match else 0

    def quote(self, name: str, passage: str) -> str:
        """Return the text under ``name`` without quotation marks; ``""`` if ``passage`` does not contain it."""
        quote = self.text(name).strip(" \"'“”«»…")
        return quote if found_in(passage, quote) else ""

    def quotes(self, passages: Sequence[str], first: int = 1) -> tuple[dict[int, str], bool]:
        """Return the quotes by passage number, from 1, and whether any meaningful words are quoted.

        ``first``: the number in the first passage's label. A quote that is not in its passage becomes ``""``. A quote
        of function words alone shows nothing and is ignored.
        """
        quotes: dict[int, str] = {}
        quoted = False
        listed = self.get("quotes")
        for entry in [Entry(entry) for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []:
            text = entry.text("text")
            if any(map(str.isdecimal, text)) or not STOP_WORDS.issuperset(terms(text)):
                quoted = True
                number = entry.passage - first + 1
                if 1 <= number <= len(passages):
                    quotes[number] = quotes.get(number) or entry.quote("text", passages[number - 1])
        return quotes, quoted


def entries_in(data: Mapping[str, Any], key: str) -> list[Entry]:
    """Return the entries of the array ``key``; ``JudgeReplyError`` if they are not objects."""
    entries = data.get(key)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise JudgeReplyError(f'"{key}" must be a list of objects')
    return list(map(Entry, entries))


def entries_by_id(data: Mapping[str, Any], key: str, asked: Sequence[str]) -> dict[str, Entry]:
    """Return the entries of the array ``key`` by id: ``t1``, ``T1`` or ``1``.

    ``JudgeReplyError`` unless each id in ``asked`` occurs once.
    """
    entries = entries_in(data, key)
    known = {name: label for label in asked for name in (label[1:], label.casefold(), label)}
    reply_ids = [str(entry.get("id", "")).strip(" []") for entry in entries]
    ids = [known.get(reply_id) or known.get(reply_id.casefold()) or reply_id for reply_id in reply_ids]
    missing = [label for label in asked if label not in ids]
    if missing:
        raise JudgeReplyError(f'"{key}" has no entry with the id {", ".join(missing[:5])}')
    if len(ids) != len(asked):
        raise JudgeReplyError(f'"{key}" must have one entry for each of {", ".join(asked)} and no other')
    return dict(zip(ids, entries, strict=True))


_QUOTATION_MARKS = re.compile("[\"'`‚‛‟′″]")
_DASHES = re.compile("-+")
_ELLIPSIS = re.compile(r"[\[(]?(?:…|\.\.\.|\. \. \.)[\])]?")
_EDGES = " \t\r\n.,;:!?"


def found_in(passage: str, quote: str) -> bool:
    """Whether ``passage`` contains ``quote``; the parts around an ellipsis must occur in order.

    Ignores case, spacing, styles of quotation marks and dashes, and punctuation at the ends of parts.
    >>> found_in("It opens at 9 – on weekdays, that is – and closes at 5.", "“opens at 9 - on weekdays … closes at 5”")
    True
    """
    parts = [part for piece in _ELLIPSIS.split(quote) if has_content(part := _plain(piece).strip(_EDGES))]
    text, place = _plain(passage) if parts else "", 0
    for part in parts:
        at = text.find(part, place)
        if at < 0:
            return False
        place = at + len(part)
    return bool(parts)


@lru_cache(maxsize=256)
def _plain(text: str) -> str:
    return _DASHES.sub("-", _QUOTATION_MARKS.sub("", normalised(text))).casefold()
