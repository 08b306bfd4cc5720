"""What a call retrieved, and what of it stood in the prompts of the model calls that led to the answer."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlflow_ragmetrics.adapters.langchain.recorder import Exchange, Step
from mlflow_ragmetrics.core.score import Chunk
from mlflow_ragmetrics.rows.aliases import ALIASES, ALIASES_BY_NATURE
from mlflow_ragmetrics.rows.messages import directs_agents, joined_parts, tool_chunks
from mlflow_ragmetrics.rows.values import are_texts, chunks_of, distinct

_CONTEXT_NAMES = frozenset({"contexts", *ALIASES["contexts"], *ALIASES_BY_NATURE["contexts"]})
_SHORT = 20  # characters: shorter texts stand somewhere only as words, or lines, of their own
_SHORTEST_PART = 25
_DEEPEST = 2


@dataclass(frozen=True)
class Found:
    """The chunks that a call ``retrieved`` and those that its model has ``seen``, each in rank order and once.

    ``None``: not known, or nothing of the kind happened; ``()``: retrieval gave nothing. ``why`` says in a sentence
    why ``contexts`` are not known, ``assumed`` why they are all that was retrieved, as in ``Sample.contexts_assumed``.
    """

    retrieved: tuple[Chunk, ...] | None = None
    seen: tuple[Chunk, ...] | None = None
    contexts: tuple[Chunk, ...] | None = None
    why: str = "no step gave documents or texts"
    assumed: str | None = None


def found_in(exchange: Exchange, answer: str | None, tools: Collection[str] | None = None) -> Found:
    """What ``exchange`` retrieved and what the model that gave ``answer`` saw of it.

    Documents come from retrievers, tools, steps and the call's outputs, else its inputs; texts from tools (all, or
    those named by ``tools``), and from steps under a name for contexts. Where a later step gives a selection of what
    was found before, as a reranker does, it stands for these. What an earlier call left in the state counts only where
    the model saw it, and what a failed attempt found does not count at all. Where it is not known which model calls
    led to the answer, everything that was retrieved is taken as its contexts, and marked so.
    """
    steps = [step for step in exchange.steps if not exchange.is_within(step.run_id, exchange.failed)]
    lists, given = _documents(exchange, steps, tools)
    asked_of_models = [step for step in steps if step.kind == "model"]
    calls = leading_calls(asked_of_models, answer)
    texts = _Texts.of(exchange, steps, tools)
    if calls is None:
        retrieved = _handed_on(lists, ()) if any(lists) else None
        retrieved = retrieved or texts.of_tools or texts.in_outputs or (() if lists else None)
        assumed = "no_call_matches" if asked_of_models else "no_model_call"
        return Found(retrieved, None, retrieved, assumed=assumed if retrieved else None)
    prompts = [" ".join(prompt.split()) for call in calls for prompt in map(_text_of, call.value)]
    replies = [text for call in calls for text in replies_of(call.reply)]
    seen = _seen([*(chunk for found in lists for chunk in found), *given], prompts)
    retrieved = _handed_on(lists, tuple(seen)) if lists else None
    rank = {_key(chunk): place for place, chunk in enumerate(retrieved or ())}
    chosen = [seen[key] for key in sorted(seen, key=lambda key: rank.get(key, len(rank)))]
    asked = [message for call in calls for message in call.value if getattr(message, "type", None) == "tool"]
    earlier = [chunk for message in asked for chunk in tool_chunks(message, tools)]
    for group in (texts.of_tools, earlier, texts.in_steps):
        whole = group is texts.in_steps  # a text of which a part stands there by chance is no passage
        chosen += _uncovered(_seen(group, prompts, whole).values(), chosen, replies)
    retrieved = retrieved or texts.of_tools or retrieved
    if chosen or not lists:
        contexts = distinct(chosen) if chosen else None
        return Found(retrieved, contexts, contexts)
    if not lists[-1] or not any(lists):
        return Found(retrieved, (), ())
    return Found(retrieved, (), None, "nothing of what was retrieved stands in the prompts that led to the answer")


def document_lists(value: Any, name: object = None, depth: int = 0) -> Iterator[list[Any]]:
    """Each list of LangChain documents in ``value``: itself, its entries, a message's artifact, a command's update.

    Pairs of a document and its score count as the document. An empty list counts under a name for contexts.
    """
    if isinstance(value, (list, tuple)):
        documents = [_document(each) for each in value]
        if documents and None not in documents:
            yield documents
        elif not value:
            yield from ([],) if name in _CONTEXT_NAMES else ()
        elif depth < _DEEPEST:
            for each in value:
                if isinstance(each, (list, tuple, Mapping)):
                    yield from document_lists(each, None, depth + 1)
    elif isinstance(value, Mapping):
        for key, each in value.items() if depth <= _DEEPEST else ():
            yield from document_lists(each, key, depth + 1)
    elif hasattr(value, "page_content"):
        yield [value]
    elif getattr(value, "artifact", None) is not None:
        yield from document_lists(value.artifact, None, depth + 1)
    elif isinstance(getattr(value, "update", None), Mapping):
        yield from document_lists(value.update, None, depth)


def leading_calls(calls: Sequence[Step], answer: str | None) -> Sequence[Step] | None:
    """The model calls that led to ``answer``, in order: the one that gave it, and those whose replies stand in the
    prompts of others that led to it. ``None`` where no call gave it.
    """
    done = [call for call in calls if call.reply is not None]
    ranks = [max((_likeness(text, answer or "") for text in replies_of(call.reply)), default=0) for call in done]
    if not any(ranks):
        return None
    last = max(range(len(done)), key=lambda place: (ranks[place], place))
    leading = [done[last]]
    prompts = [_text_of(asked) for asked in done[last].value]
    for call in reversed(done[:last]):
        if any(_stands_in(text, prompt) for text in replies_of(call.reply) for prompt in prompts):
            leading.append(call)
            prompts += map(_text_of, call.value)
    return leading[::-1]


def replies_of(result: Any, calls: bool = True) -> Iterator[str]:
    """The texts in what a model gave: of its messages, and with ``calls`` of the arguments of its tool calls."""
    for generation in (each for group in getattr(result, "generations", ()) for each in group):
        message = getattr(generation, "message", None)
        text = _text_of(message) if message is not None else str(getattr(generation, "text", ""))
        if text.strip():
            yield text
        for call in getattr(message, "tool_calls", ()) if calls else ():
            yield from _strings(call.get("args"))


def seen_in(text: str, prompts: Sequence[str]) -> str | None:
    """What of ``text`` stands in ``prompts`` (whose white space is single): all of it, however it was escaped, else
    its beginning and the sentences that do. ``None``: nothing of it.
    """
    plain = " ".join(text.split())
    pattern = re.compile(rf"(?<!\w){re.escape(plain)}(?!\w)") if len(plain) < _SHORT else None
    for form in _forms(text):
        if any(form in prompt if pattern is None else pattern.search(prompt) for prompt in prompts):
            return text
    longest = max((_common_beginning(plain, prompt) for prompt in prompts), default=0)
    parts = [plain[:longest].rstrip()] if longest >= _SHORTEST_PART else []
    rest = plain[longest:] if parts else plain
    parts += [each for each in _sentences(rest) if any(each in prompt for prompt in prompts)]
    return " ".join(parts) or None


_Key = tuple[str | None, str]


def _key(chunk: Chunk) -> _Key:
    return chunk.id, chunk.text


def _document(value: Any) -> Any:
    if hasattr(value, "page_content"):
        return value
    is_pair = isinstance(value, (list, tuple)) and len(value) == 2 and isinstance(value[1], (int, float))
    return value[0] if is_pair and hasattr(value[0], "page_content") else None


def _documents(
    exchange: Exchange, steps: Sequence[Step], tools: Collection[str] | None
) -> tuple[list[tuple[Chunk, ...]], list[Chunk]]:
    """The lists of documents that the call gave, in order, and those that it found in its inputs or state."""
    lists: list[tuple[Chunk, ...]] = []
    found: set[_Key] = set()
    given: dict[_Key, Chunk] = {}
    ends = Step("output", exchange.run_id, exchange.outputs)
    for step in (Step("input", exchange.run_id, exchange.inputs), *steps, ends):
        if step.kind == "model" or (step.kind == "tool" and tools is not None and step.name not in tools):
            continue
        value = [*step.value] if step.kind == "retriever" else step.value
        inside = [[]] if step.kind == "retriever" and not value else document_lists(value)
        for chunks in (chunks_of(documents) or () for documents in inside):
            if step.kind == "input":
                given.update({_key(chunk): chunk for chunk in chunks if _key(chunk) not in found})
                continue
            own = step.kind in ("retriever", "tool")
            fresh = tuple(chunk for chunk in chunks if own or _key(chunk) in found or _key(chunk) not in given)
            if fresh or not chunks:
                lists.append(fresh)
                found.update(map(_key, fresh))
    if not lists:
        lists = [chunks for documents in document_lists(exchange.inputs) if (chunks := chunks_of(documents) or ())]
    return lists, list(given.values())


def _handed_on(lists: Sequence[Sequence[Chunk]], seen: Collection[_Key]) -> tuple[Chunk, ...]:
    """What retrieval handed on: a selection of what was found before stands for the lists from which it was made,
    unless the model saw more of them.
    """
    kept: list[Sequence[Chunk]] = []
    before: list[list[_Key]] = []
    known: set[_Key] = set()
    for chunks in lists:
        keys = list(map(_key, chunks))
        if not keys or keys in before:
            continue
        before.append(keys)
        if not known.issuperset(keys):
            kept.append(chunks)
            known.update(keys)
            continue
        replaced = [each for each in kept if not set(keys).isdisjoint(map(_key, each))]
        if not any(_key(chunk) in seen and _key(chunk) not in keys for each in replaced for chunk in each):
            kept = [*(each for each in kept if not any(each is other for other in replaced)), chunks]
    return distinct(chunk for chunks in kept for chunk in chunks)


@dataclass(frozen=True)
class _Texts:
    """The texts that are no documents: what tools gave, and what steps and outputs have under a name for contexts."""

    of_tools: tuple[Chunk, ...] = ()
    in_steps: list[Chunk] = field(default_factory=list)
    in_outputs: tuple[Chunk, ...] = ()

    @classmethod
    def of(cls, exchange: Exchange, steps: Sequence[Step], tools: Collection[str] | None) -> _Texts:
        of_tools = [
            chunk
            for step in steps
            if step.kind == "tool"
            and (not directs_agents(step.name) if tools is None else step.name in tools)
            and not any(document_lists(step.value))
            for chunk in tool_chunks(step.value)
        ]
        in_steps = [
            *(chunk for step in steps if step.kind == "output" for chunk in _listed_texts(step.value)),
            *_named_texts(exchange.inputs),
            *(chunk for step in steps if step.kind in ("input", "output") for chunk in _named_texts(step.value)),
        ]
        return cls(distinct(of_tools), in_steps, distinct(_named_texts(exchange.outputs)))


def _named_texts(value: Any) -> Iterator[Chunk]:
    for name, each in value.items() if isinstance(value, Mapping) else ():
        if name in _CONTEXT_NAMES and each and isinstance(each, (str, list, tuple)) and are_texts(each):
            yield from chunks_of(each) or ()


def _listed_texts(value: Any) -> Iterator[Chunk]:
    lists = value.values() if isinstance(value, Mapping) else [value]
    for each in lists:
        if isinstance(each, (list, tuple)) and each:
            texts = [part[0] if isinstance(part, (list, tuple)) and len(part) == 2 else part for part in each]
            if all(isinstance(text, (str, dict)) for text in texts) and are_texts(texts):
                yield from chunks_of(texts) or ()


def _seen(chunks: Iterable[Chunk], prompts: Sequence[str], as_whole: bool = False) -> dict[_Key, Chunk]:
    """Of ``chunks`` those that stand in ``prompts``, ``as_whole`` or each with as much of its text as does.

    A part that belongs to another chunk, which stands there as a whole, is no part of this one.
    """
    found = {_key(chunk): (chunk, seen_in(chunk.text, prompts)) for chunk in distinct(chunks)}
    whole = [chunk.text for chunk, text in found.values() if text == chunk.text]
    return {
        key: chunk if text == chunk.text else Chunk(text, chunk.id, chunk.metadata)
        for key, (chunk, text) in found.items()
        if text == chunk.text
        or (text is not None and not as_whole and not any(text in " ".join(each.split()) for each in whole))
    }


def _uncovered(chunks: Iterable[Chunk], chosen: Sequence[Chunk], replies: Sequence[str]) -> list[Chunk]:
    """Those that are neither made of what is ``chosen`` already, nor a part of it, nor of a model's making."""
    texts = [" ".join(chunk.text.split()) for chunk in chosen]
    parts = list(filter(None, map(_sentences, texts)))
    fresh: list[Chunk] = []
    for chunk in chunks:
        plain = " ".join(chunk.text.split())
        made = any(text in plain or plain in text or form in plain for text in texts for form in _forms(text))
        made = made or any(all(part in plain for part in sentences) for sentences in parts)
        if not made and not any(_stands_in(text, plain) or plain in " ".join(text.split()) for text in replies):
            fresh.append(chunk)
            texts.append(plain)
    return fresh


def _likeness(reply: str, answer: str) -> int:
    """How surely ``answer`` was made from ``reply``: 0 (not at all) to 4 (it is the same)."""
    given, said = (" ".join(text.casefold().split()) for text in (reply, answer))
    if not given or not said:
        return 0
    if given == said:
        return 4
    if (said in given and len(said) > 3) or (given in said and 2 * len(given) >= len(said)):
        return 3
    first, second = set(re.findall(r"\w+", given)), set(re.findall(r"\w+", said))
    return 1 if second and 2 * len(first & second) >= max(2, len(second)) and len(first) > 1 else 0


def _stands_in(reply: str, prompt: str) -> bool:
    """Whether a model's reply was put into ``prompt``: one of a word or two only as a line, or the end of one."""
    plain = " ".join(reply.split())
    if len(plain) >= _SHORT:
        spaced = " ".join(prompt.split())
        return any(form in spaced for form in _forms(reply))
    return re.search(rf"(?m)(?:^|[:>-])\s*{re.escape(plain)}\s*$", prompt) is not None


def _forms(text: str) -> Iterator[str]:
    """The text as it may stand in a prompt: as it is, or escaped for JSON, Python or HTML; white space is single."""
    forms = [text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]]
    yield from dict.fromkeys(" ".join(each.split()) for each in (*forms, html.escape(text)))


def _sentences(text: str) -> list[str]:
    """The sentences of ``text`` that are long enough to stand somewhere not by chance."""
    return [part for each in re.split(r"(?<=[.!?。！？])\s+", text) if len(part := each.strip()) >= _SHORTEST_PART]


def _common_beginning(text: str, prompt: str) -> int:
    """How many characters of the beginning of ``text`` stand in ``prompt``."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if text[:middle] in prompt else (low, middle - 1)
    return low


def _text_of(asked: Any) -> str:
    """The text of a message, or a prompt."""
    if isinstance(asked, str):
        return asked
    content = joined_parts(getattr(asked, "content", ""))
    return content if isinstance(content, str) else ""


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _strings(each)
