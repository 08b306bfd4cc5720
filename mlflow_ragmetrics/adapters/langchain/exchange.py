"""One call of a chain: its steps, the texts that it retrieved, and those that were in the prompts for its answer."""

from __future__ import annotations

import html
import re
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, takewhile
from typing import Any, Literal
from uuid import UUID

from mlflow_ragmetrics.core.score import Chunk
from mlflow_ragmetrics.rows.aliases import ALIASES, ALIASES_BY_NATURE
from mlflow_ragmetrics.rows.chat_messages import (
    directs_agents,
    is_turn,
    joined_parts,
    rested_on,
    role_and_content,
    tool_chunks,
    tool_chunks_by_turn,
)
from mlflow_ragmetrics.rows.passages import TEXT_KEYS, are_texts, chunks_of, distinct

_CONTEXT_NAMES = frozenset({"contexts", *ALIASES["contexts"], *ALIASES_BY_NATURE["contexts"]})
_SHORT = 20  # characters; shorter texts match only as whole words or lines
_SHORTEST_PART, _SHORTEST_END = 25, 10
_DEEPEST = 2


Kind = Literal["input", "output", "retriever", "tool", "model"]


@dataclass(eq=False)
class Step:
    """An event within a call, in the order in which events began or, for outputs, ended.

    ``kind``: ``"input"`` and ``"output"`` of an inner chain; ``"retriever"`` and ``"tool"``, with their result as
    ``value``; ``"model"``, with its prompt as ``value`` and its answer as ``reply``. ``name``: the tool's
    name. ``known``: the time at which the value or reply became available.
    """

    kind: Kind
    run_id: UUID
    value: Any = None
    name: str = ""
    reply: Any = None
    known: float = 0.0


@dataclass(eq=False)
class Exchange:
    """One call of a chain: its raw inputs and outputs, and the steps in between.

    ``parents`` maps each inner run to the run around it; ``failed`` lists runs that raised. A ``left`` call has no
    answer: it was interrupted, or nobody read its stream to the end. ``trace_id``: the chain's MLflow trace;
    ``traceable`` is False if there is a trace with an unknown id. ``live``: the MLflow run for its scores.
    """

    run_id: UUID
    inputs: Any
    metadata: Mapping[str, Any]
    outputs: Any = None
    tags: Sequence[str] = ()
    name: str | None = None
    thread: Any = None
    steps: list[Step] = field(default_factory=list)
    parents: dict[UUID, UUID | None] = field(default_factory=dict)
    failed: set[UUID] = field(default_factory=set)
    left: bool = False
    trace_id: str | None = None
    traceable: bool = True
    live: Any = None
    began: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0

    def is_within(self, run_id: UUID | None, runs: Container[UUID]) -> bool:
        """Whether ``run_id`` is one of ``runs`` or inside one."""
        while run_id is not None:
            if run_id in runs:
                return True
            run_id = self.parents.get(run_id)
        return False


@dataclass(frozen=True)
class Found:
    """The chunks that a call ``retrieved`` and the ``contexts`` that its model saw, in rank order without repeats.

    ``None``: unknown, or there was no retrieval; ``()``: retrieval found nothing. ``why``: a sentence on why
    ``contexts`` are unknown. ``assumed``: why they are everything retrieved, as in ``Sample.contexts_assumed``.
    """

    retrieved: tuple[Chunk, ...] | None = None
    contexts: tuple[Chunk, ...] | None = None
    why: str = "no retriever, tool, step, input or output gave documents or texts"
    assumed: str | None = None


def found_in(exchange: Exchange, answer: str | None, tools: Collection[str] | None = None) -> Found:
    """Return what ``exchange`` retrieved, and what the model saw of it before giving ``answer``.

    Documents come from retrievers, tools, steps and the outputs, else from the inputs. Texts come from tools (all, or
    those in ``tools``) and from steps under a name for contexts, unless a model wrote them. If a later step selects
    from earlier results, as a reranker does, the selection replaces them. Results of failed attempts are ignored.
    Passages of an earlier turn count only if the answer's claims rest on them. If no model call matches the answer,
    all retrieved passages become its contexts, and ``assumed`` says so.
    """
    steps = [step for step in exchange.steps if not exchange.is_within(step.run_id, exchange.failed)]
    lasting = replace(exchange, steps=steps)
    lists, listed_chunks = _documents(lasting, tools)
    models = [step for step in steps if step.kind == "model"]
    closing = _closing_result(exchange.outputs, answer)
    calls = leading_calls(models, answer, least=1 if closing is None else 3)
    of_tools, in_steps, known = _texts(lasting, tools)
    if calls is None:
        of_tools = tuple(chunk for chunk in of_tools if chunk.text not in (closing, closing and answer))
        retrieved = _handed_on(lists, ()) if any(lists) else None
        retrieved = retrieved or of_tools or distinct(_texts_in(exchange.outputs)) or (() if lists else None)
        assumed = "no_call_matches" if models else "no_model_call"
        return Found(retrieved, retrieved, assumed=assumed if retrieved else None)
    prompts = [reading for call in calls for message in call.value for reading in readings(_text_of(message))]
    chosen = _seen([*(chunk for chunks in lists for chunk in chunks), *listed_chunks], prompts)
    retrieved = _handed_on(lists, tuple(chosen)) if lists else None
    chosen = {key: chosen[key] for key in (*map(_key, retrieved or ()), *chosen) if key in chosen}
    by_turn = [tool_chunks_by_turn(call.value, tools) for call in calls]
    current, earlier = ([chunk for turns in by_turn for chunk in turns[place]] for place in (0, 1))
    of_tools = distinct((*(chunk for chunk in current if chunk in of_tools), *of_tools))  # tools may run in parallel
    this_turn, earlier = ([chunk for chunk in group if chunk.text not in known] for group in (current, earlier))
    for group in (of_tools, this_turn, earlier, in_steps):
        # a text that only shares a part with the prompts by chance is not a passage
        chosen |= _uncovered(_seen(group, prompts, as_whole=group is in_steps), chosen.values())
    kept = _kept_before(exchange).union(map(_key, earlier))
    kept -= {_key(chunk) for group in (*lists, of_tools, this_turn) for chunk in group}
    of_this_turn = [chunk for key, chunk in chosen.items() if key not in kept]
    before = [chunk for key, chunk in chosen.items() if key in kept]
    of_this_turn += rested_on(answer or "", of_this_turn, before)
    retrieved = retrieved or of_tools or retrieved
    if of_this_turn or not lists:
        return Found(retrieved, distinct(of_this_turn) if of_this_turn or before else None)
    if not lists[-1] or not any(lists):
        return Found(retrieved, ())
    return Found(retrieved, None, "none of the retrieved text is in the prompts that led to the answer")


def document_lists(value: Any, name: object = None, depth: int = 0) -> Iterator[list[Any]]:
    """Yield each list of LangChain documents in ``value``: itself, its entries, artifacts and command updates.

    A pair of a document and its score counts as the document. An empty list counts under a name for contexts.
    """
    if isinstance(value, (list, tuple)):
        documents = [entry[0] if _is_scored(entry) else entry for entry in value]
        if documents and all(hasattr(document, "page_content") for document in documents):
            yield documents
        elif not value:
            yield from ([],) if name in _CONTEXT_NAMES else ()
        elif depth < _DEEPEST:
            for entry in value:
                if isinstance(entry, (list, tuple, Mapping)):
                    yield from document_lists(entry, None, depth + 1)
    elif isinstance(value, Mapping):
        for key, entry in value.items() if depth <= _DEEPEST else ():
            yield from document_lists(entry, key, depth + 1)
    elif hasattr(value, "page_content"):
        yield [value]
    elif getattr(value, "artifact", None) is not None:
        yield from document_lists(value.artifact, None, depth + 1)
    elif isinstance(getattr(value, "update", None), Mapping):
        yield from document_lists(value.update, None, depth)


def _closing_result(outputs: Any, answer: str | None) -> str | None:
    """Return the text of the tool that gave the answer (``return_direct``), which is no passage for it."""
    messages = messages_among(outputs)
    role, content = role_and_content(messages[-1]) if messages else (None, None)
    return content if role == "tool" and isinstance(content, str) and (answer or "") in content else None


def messages_among(value: Any) -> Sequence[Any]:
    """Return the messages of a chain's inputs, outputs or state, if there are any."""
    messages = value.get("messages") if isinstance(value, Mapping) else value
    return messages if isinstance(messages, (list, tuple)) else ()


def leading_calls(calls: Sequence[Step], answer: str | None, least: int = 1) -> Sequence[Step] | None:
    """Return the model calls that led to ``answer``, in order: the one that gave it, and those whose replies are in the
    prompts of other leading calls. ``None`` if no reply is at least this (``least``) like it.
    """
    done = [call for call in calls if call.reply is not None]
    written = [_written_in(call.reply) for call in done]
    ranks = [max((_likeness(text, answer or "") for text in texts), default=0) for texts in written]
    if max(ranks, default=0) < least:
        return None
    last = max(range(len(done)), key=lambda place: (ranks[place], place))
    leading = [done[last]]
    prompts = [_text_of(message) for message in done[last].value]
    for call, texts in reversed(list(zip(done[:last], written, strict=False))):
        if any(_stands_in(text, prompt) for text in texts for prompt in prompts):
            leading.append(call)
            prompts += map(_text_of, call.value)
    return leading[::-1]


def replies_of(result: Any) -> list[str]:
    """Return the texts of a model's reply."""
    return [text for message in replied(result) if (text := _text_of(message)).strip()]


def replied(result: Any) -> Iterator[Any]:
    """Yield the messages of a model's reply, or its texts if it has no messages."""
    for generation in (answer for group in getattr(result, "generations", ()) for answer in group):
        yield getattr(generation, "message", None) or str(getattr(generation, "text", ""))


def _arguments_of(result: Any) -> list[str]:
    """Return the texts in the arguments of a model's tool calls."""
    calls = [call for message in replied(result) for call in getattr(message, "tool_calls", ())]
    return [text for call in calls for text in _strings(call.get("args"))]


def _written_in(result: Any) -> list[str]:
    """Return everything that a model wrote: its texts and arguments, and their lines."""
    texts = [*replies_of(result), *_arguments_of(result)]
    return [*texts, *(line for text in texts for line in text.splitlines() if line.strip())]


def seen_in(text: str, prompts: Sequence[str]) -> str | None:
    """Return the part of ``text`` in ``prompts`` (with single spaces): all of it, else its beginning and the sentences
    found there. A sentence that was edited, as by masking a name, counts. ``None`` if nothing is there.
    """
    plain = " ".join(text.split())
    if any(_count(plain, prompt) for prompt in prompts):
        return text
    longest = max((_common_beginning(plain, prompt) for prompt in prompts), default=0)
    begin, end = _sentence_around(plain, longest)
    longest = end if _is_edited(plain[begin:end].strip(), prompts) else longest
    parts = [plain[:longest].rstrip()] if longest >= _SHORTEST_PART else []
    rest = plain[longest:] if parts else plain
    for sentence in _sentences(rest):
        if any(sentence in prompt for prompt in prompts) or _is_edited(sentence, prompts):
            parts.append(sentence)
    return " ".join(parts) or None


_Key = tuple[str | None, str]


def _key(chunk: Chunk) -> _Key:
    return chunk.id, chunk.text


def _is_scored(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and isinstance(value[1], (int, float))


def _documents(exchange: Exchange, tools: Collection[str] | None) -> tuple[list[tuple[Chunk, ...]], list[Chunk]]:
    """Return the lists of documents that the call returned, in order, and those from its inputs or state."""
    lists: list[tuple[Chunk, ...]] = []
    from_steps: set[_Key] = set()
    unlisted: dict[_Key, Chunk] = {}
    begins, ends = Step("input", exchange.run_id, exchange.inputs), Step("output", exchange.run_id, exchange.outputs)
    for step in (begins, *exchange.steps, ends):
        if step.kind == "model" or (step.kind == "tool" and tools is not None and step.name not in tools):
            continue
        value = [*step.value] if step.kind == "retriever" else step.value
        inside = [[]] if step.kind == "retriever" and not value else document_lists(value)
        for chunks in (chunks_of(documents) or () for documents in inside):
            if step.kind == "input":
                unlisted.update({_key(chunk): chunk for chunk in chunks if _key(chunk) not in from_steps})
                continue
            own = step.kind in ("retriever", "tool")
            fresh = tuple(chunk for chunk in chunks if own or _key(chunk) in from_steps or _key(chunk) not in unlisted)
            if fresh or not chunks:
                lists.append(fresh)
                from_steps.update(map(_key, fresh))
    if not lists:
        lists = [chunks for documents in document_lists(exchange.inputs) if (chunks := chunks_of(documents) or ())]
    return lists, list(unlisted.values())


def _handed_on(lists: Sequence[Sequence[Chunk]], seen: Collection[_Key]) -> tuple[Chunk, ...]:
    """Return the final retrieved chunks: a selection from earlier lists replaces them, unless the model saw more of the
    earlier ones.
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
        replaced = [group for group in kept if not set(keys).isdisjoint(map(_key, group))]
        if not any(_key(chunk) in seen and _key(chunk) not in keys for group in replaced for chunk in group):
            kept = [*(group for group in kept if not any(group is other for other in replaced)), chunks]
    return distinct(chunk for chunks in kept for chunk in chunks)


def _texts(exchange: Exchange, tools: Collection[str] | None) -> tuple[tuple[Chunk, ...], list[Chunk], set[str]]:
    """Return the texts that are not documents, from tools and from inputs and steps (under a name for contexts, or as
    a list), and all texts examined. A text before a model's reply cannot come from it; a text after the reply that is
    made of it is not a passage.
    """
    of_tools: list[Chunk] = []
    in_steps = list(_texts_in(exchange.inputs))
    known = {chunk.text for chunk in in_steps}
    done: list[Step] = []
    written: list[str] = []
    for step in sorted(exchange.steps, key=lambda step: step.known):
        if step.kind == "model":
            done.append(step)
            written += [text for text in _written_in(step.reply) if not any(text in line for line in known)]
        elif step.kind == "tool":
            if directs_agents(step.name) if tools is None else step.name not in tools:
                continue
            inner = [call for call in done if exchange.is_within(call.run_id, {step.run_id})]
            wrote = [*chain(*(replies_of(call.reply) for call in inner), *(_arguments_of(call.reply) for call in done))]
            chunks = () if any(document_lists(step.value)) else tool_chunks(step.value)
            of_tools += [chunk for chunk in chunks if not _is_made_of(wrote, chunk.text)]
            known.update(chunk.text for chunk in chunks)
        elif step.kind != "retriever":
            read_chunks = distinct(_texts_in(step.value, listed=step.kind == "output"))
            fresh = [chunk for chunk in read_chunks if chunk.text not in known]
            in_steps += [chunk for chunk in fresh if not _is_made_of(written, chunk.text)]
            known.update(chunk.text for chunk in fresh)
    return distinct(of_tools), in_steps, known


def _texts_in(value: Any, listed: bool = False) -> Iterator[Chunk]:
    """Yield the texts under a name for contexts; with ``listed``, also those of any list of texts."""
    for name, each in value.items() if isinstance(value, Mapping) else [(None, value)]:
        if isinstance(each, (list, tuple)) and (listed or name in _CONTEXT_NAMES) and not any(map(is_turn, each)):
            each = [part[0] if _is_scored(part) else part for part in each]
        elif not (isinstance(each, str) and name in _CONTEXT_NAMES):
            continue
        plain = name in _CONTEXT_NAMES or all(
            isinstance(text, str) or (isinstance(text, dict) and not text.keys().isdisjoint(TEXT_KEYS)) for text in each
        )
        if each and plain and are_texts(each):
            yield from chunks_of(each) or ()


def _kept_before(exchange: Exchange) -> set[_Key]:
    """Return what a thread's state held when the call began, unless the call resumes an interrupted turn."""
    has_thread = exchange.thread or exchange.metadata.get("thread_id")
    if not has_thread or exchange.inputs is None or hasattr(exchange.inputs, "resume"):
        return set()
    begun = [step.value for step in takewhile(lambda step: step.kind == "input", exchange.steps)]
    kept, given = ({_key(chunk) for value in values for chunk in _held(value)} for values in (begun, [exchange.inputs]))
    return kept - given


def _held(value: Any) -> Iterator[Chunk]:
    yield from _texts_in(value)
    for documents in document_lists(value):
        yield from chunks_of(documents) or ()


def _seen(chunks: Iterable[Chunk], prompts: Sequence[str], as_whole: bool = False) -> dict[_Key, Chunk]:
    """Return the ``chunks`` found in ``prompts``, whole if ``as_whole``, else with the part of the text found there.

    A part of another chunk that was found whole does not count for this one. Chunks with the same text count as often
    as the text occurs.
    """
    seen_texts = {_key(chunk): (chunk, seen_in(chunk.text, prompts)) for chunk in distinct(chunks)}
    whole = Counter(" ".join(chunk.text.split()) for chunk, text in seen_texts.values() if text == chunk.text)
    shown = {text: max(_count(text, prompt) for prompt in prompts) if n > 1 else 1 for text, n in whole.items()}
    seen: dict[_Key, Chunk] = {}
    for key, (chunk, text) in seen_texts.items():
        plain = " ".join(chunk.text.split())
        if text == chunk.text and shown[plain]:
            shown[plain] -= 1
            seen[key] = chunk
        elif text != chunk.text and text and not as_whole and not any(text in other for other in whole):
            seen[key] = Chunk(text, chunk.id, chunk.metadata)
    return seen


def _uncovered(chunks: Mapping[_Key, Chunk], chosen: Iterable[Chunk]) -> dict[_Key, Chunk]:
    """Return the chunks that neither consist of ``chosen`` texts nor are part of one."""
    texts = [" ".join(chunk.text.split()) for chunk in chosen]
    parts = [pieces for text in texts if (pieces := _sentences(text))]
    fresh: dict[_Key, Chunk] = {}
    for key, chunk in chunks.items():
        forms = readings(chunk.text)
        is_copied = any(
            text == form or (len(text) >= _SHORT and text in form) or (len(form) >= _SHORT and form in text)
            for text in texts
            for form in forms
        )
        if not is_copied and not any(all(part in forms[0] for part in sentences) for sentences in parts):
            fresh[key] = chunk
            texts.append(forms[0])
    return fresh


def _is_made_of(replies: Sequence[str], text: str) -> bool:
    """Whether ``text`` is in one of ``replies``, or at least two thirds of its words come from them."""
    replies = [" ".join(reply.split()) for reply in replies]
    for form in readings(text) if replies else ():
        left = form
        for reply in sorted(replies, key=len, reverse=True):
            if form in reply:
                return True
            left = re.sub(rf"(?<!\w){re.escape(reply)}(?!\w)", " ", left)
        if 3 * len(left.split()) <= len(form.split()):
            return True
    return False


def _likeness(reply: str, answer: str) -> int:
    """Return how likely ``answer`` was made from ``reply``: 0 (not at all) to 4 (identical)."""
    first_text, said = (" ".join(text.casefold().split()) for text in (reply, answer))
    if not first_text or not said:
        return 0
    if first_text == said:
        return 4
    if (said in first_text and len(said) > 3) or (first_text in said and 2 * len(first_text) >= len(said)):
        return 3
    first, second = set(re.findall(r"\w+", first_text)), set(re.findall(r"\w+", said))
    return 1 if second and 2 * len(first & second) >= max(2, len(second)) and len(first) > 1 else 0


def _stands_in(reply: str, prompt: str) -> bool:
    """Whether a model's reply is part of ``prompt``; a very short one must be a line or the end of one."""
    plain = " ".join(reply.split())
    if len(plain) >= _SHORT:
        return any(plain in reading for reading in readings(prompt))
    return re.search(rf"(?m)(?:^|[:>-])\s*{re.escape(plain)}\s*$", prompt) is not None


@lru_cache(maxsize=256)
def readings(text: str) -> tuple[str, ...]:
    """Return ``text`` as it is, and without JSON, Python and XML escapes, each with single spaces."""
    unescaped = _ESCAPE.sub(_character, text)
    forms = (text, html.unescape(text), unescaped, html.unescape(unescaped))
    return tuple(dict.fromkeys(" ".join(form.split()) for form in forms))


_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|x([0-9a-f]{2})|(.))", re.IGNORECASE)
_BLANKS = {"n": "\n", "t": "\t", "r": "\r"}


def _character(escape: re.Match[str]) -> str:
    code, other = escape[1] or escape[2], escape[3]
    return chr(int(code, 16)) if code else _BLANKS.get(other, other)


def _count(plain: str, prompt: str) -> int:
    """Return how often a text occurs in ``prompt``; a short one only as whole words."""
    if len(plain) >= _SHORT:
        return prompt.count(plain)
    return len(re.findall(rf"(?<!\w){re.escape(plain)}(?!\w)", prompt))


_BETWEEN = re.compile(r"(?<=[.!?。！？])\s+")


def _sentences(text: str) -> list[str]:
    """Return the sentences of ``text`` that are too long to match by chance."""
    return [part for piece in re.split(_BETWEEN, text) if len(part := piece.strip()) >= _SHORTEST_PART]


def _sentence_around(text: str, place: int) -> tuple[int, int]:
    """Return the begin and the end of the sentence at ``place``."""
    begins = [0, *(match.end() for match in re.finditer(_BETWEEN, text)), len(text)]
    return max(begin for begin in begins if begin <= place), next(each for each in begins if each >= place)


def _is_edited(sentence: str, prompts: Sequence[str]) -> bool:
    """Whether a prompt has ``sentence`` with some words in it changed, as by masking a name."""
    for prompt in prompts:
        begin = sentence[: _common_beginning(sentence, prompt)]
        behind = prompt[prompt.find(begin) + len(begin) :][: 2 * len(sentence)] if begin else prompt
        same = _common_beginning(sentence[::-1], behind[::-1])
        if same >= _SHORTEST_END and 3 * (len(begin) + same) >= 2 * len(sentence):
            return True
    return False


def _common_beginning(text: str, prompt: str) -> int:
    """Return how many characters of the beginning of ``text`` are in ``prompt``."""
    return bisect_left(range(1, len(text) + 1), True, key=lambda length: text[:length] not in prompt)


def _text_of(asked: Any) -> str:
    """Return the text of a message or prompt."""
    content = joined_parts(getattr(asked, "content", asked))
    return content if isinstance(content, str) else ""


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for entry in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _strings(entry)
