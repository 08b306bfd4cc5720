"""LangChain chat models without a network: one that obeys its message, and one with fixed replies."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

Reply = Callable[[list[BaseMessage]], Any]


class FakeChatModel(BaseChatModel):
    """Replies with the result of ``reply``: text, an ``AIMessage``, or an exception to raise."""

    reply: Any = Field(exclude=True)
    model: str = "fake"
    latency: float = Field(default=0.0, exclude=True)
    sent: list[list[BaseMessage]] = Field(default_factory=list, exclude=True)
    arguments: list[dict[str, Any]] = Field(default_factory=list, exclude=True)
    in_flight: int = Field(default=0, exclude=True)
    most_in_flight: int = Field(default=0, exclude=True)

    @property
    def _llm_type(self) -> str:
        return "fake"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model}

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        with _lock:
            self.sent.append(messages)
            self.arguments.append(kwargs)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.latency:
                time.sleep(self.latency)
            replied = self.reply(messages)
        finally:
            with _lock:
                self.in_flight -= 1
        if isinstance(replied, BaseException):
            raise replied
        message = replied if isinstance(replied, AIMessage) else AIMessage(replied)
        return ChatResult(generations=[ChatGeneration(message=message)])


FakeChatModel.__module__ = "langchain_fake"  # like LangChain's own: attributes set by tests affect no reply
_lock = threading.Lock()


def scripted(*replies: Any, **options: Any) -> FakeChatModel:
    """A model that gives these replies one after the other."""
    waiting = list(replies)
    return FakeChatModel(reply=lambda messages: waiting.pop(0), **options)


def dutiful(**options: Any) -> FakeChatModel:
    """A model that answers every question in the right form."""
    return FakeChatModel(reply=lambda said: json.dumps(dutiful_reply(said[0].content, said[1].content)), **options)


def blocks_in(data: str) -> list[tuple[str, str]]:
    """The labels and texts of a message, for a reader who has the fence."""
    mark = data[1:17]
    parts = re.split(rf"^\[{mark} (.*)\]$\n?", data, flags=re.MULTILINE)
    return [(label, text.rstrip("\n")) for label, text in zip(parts[1::2], parts[2::2], strict=True) if label != "end"]


def dutiful_reply(system: str, data: str) -> dict[str, Any]:
    """Each sentence is a claim, supported by the first passage; all passages are related; grade 4."""
    blocks = blocks_in(data)
    reply: dict[str, Any] = {}
    if '"texts"' in system:
        judged = {} if '"verdicts"' in system or '"support"' not in system else _judged(blocks, "p1")
        texts = [(label.split()[0], text) for label, text in blocks if re.fullmatch(r"t\d+( on .*)?", label)]
        reply["texts"] = [{"id": each, "claims": _claims(text, judged), "none": []} for each, text in texts]
    if '"verdicts"' in system:
        reply["verdicts"] = [verdict for label, text in blocks for verdict in _verdicts(label, text, blocks)]
    if '"related"' in system:
        passages = [label for label, _ in blocks if re.fullmatch(r"p\d+", label)]
        reply["related"] = [{"passage": label, "quote": "", "reason": "", "related": True} for label in passages]
    if '"grades"' in system:
        aspects = re.findall(r'{"id":"(\w+)","reason":"…","grade":…', system)
        reply["grades"] = [{"id": each, "reason": "Fair.", "grade": 0.5 if each == "tone" else 4} for each in aspects]
    return reply


def _judged(blocks: list[tuple[str, str]], passage: str) -> dict[str, Any]:
    quote = {"passage": passage, "text": dict(blocks).get(passage, "")[:40]}
    return {"quotes": [quote], "reason": "", "support": 90, "verdict": "SUPPORTED"}


def _claims(text: str, judged: dict[str, Any]) -> list[dict[str, Any]]:
    numbered = [line.split(": ", 1) for line in text.splitlines() if re.match(r"\d+: ", line)]
    return [{"claim": sentence, "sentences": [int(number)], **judged} for number, sentence in numbered]


def _verdicts(label: str, text: str, blocks: list[tuple[str, str]]) -> list[dict[str, Any]]:
    if not label.startswith("claims on "):
        return []
    judged = _judged(blocks, label.removeprefix("claims on ").split("-")[0])
    return [{"id": line.split(":")[0], **judged} for line in text.splitlines()]
