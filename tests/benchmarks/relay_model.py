"""A chat model whose replies come from files: its prompts are written to a folder, for anybody to answer.

A model that cannot be reached from this process, or a person, reads ``<digest>.prompt.txt`` and writes
``<digest>.reply.txt`` next to it. The digest is that of the messages, so equal prompts are answered once.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

__all__ = ["NotAnsweredYet", "RelayModel"]


class NotAnsweredYet(Exception):
    """The prompt is in the folder and has no reply."""


class RelayModel(BaseChatModel):
    """Writes prompts to ``folder`` and reads replies from it; ``asked`` holds the digests of the prompts that came.

    ``writes=False``: a prompt without a reply is only counted.
    """

    folder: Path
    writes: bool = True
    asked: set[str] = Field(default_factory=set)
    unanswered: set[str] = Field(default_factory=set)

    @property
    def _llm_type(self) -> str:
        return "relay"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        prompt = "\n\n".join(f"=== {message.type} ===\n{message.content}" for message in messages)
        digest = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self.asked.add(digest)
        reply = self.folder / f"{digest}.reply.txt"
        if not reply.exists():
            self.unanswered.add(digest)
            if self.writes:
                self.folder.mkdir(parents=True, exist_ok=True)
                (self.folder / f"{digest}.prompt.txt").write_text(prompt, encoding="utf-8", errors="replace")
            raise NotAnsweredYet(f"{digest} has no reply yet")
        return ChatResult(generations=[ChatGeneration(message=AIMessage(reply.read_text(encoding="utf-8").strip()))])
