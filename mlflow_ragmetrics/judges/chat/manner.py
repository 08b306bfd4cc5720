"""How a model can be asked: what it turned out not to take is left out from then on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlflow_ragmetrics.judges.chat.failures import status_of
from mlflow_ragmetrics.judges.chat.message import ChatMessage

__all__ = ["Manner"]

_REJECTED = {400, 404, 415, 422, 501}
_STRUCTURE = re.compile(r"response_format|schema|tool|struct|json|function|parameter", re.IGNORECASE)
_SYSTEM = re.compile(
    r"system[ _-]?(role|message|prompt|instruction)|developer[ _-]?(role|message|instruction)|role\W+system"
    r"|system\W+(role|is|are|was)?\s*(not|un)|roles must alternate",
    re.IGNORECASE,
)
_TEMPERATURE = re.compile("temperature", re.IGNORECASE)


@dataclass(frozen=True)
class Manner:
    """What requests have: the schema of the reply, a system turn, a temperature; ``sync``: models have ``invoke``."""

    structured: bool = True
    system: bool = True
    temperature: bool = True
    sync: bool = True

    def after(self, error: BaseException) -> Manner | None:
        """The manner in which to ask instead, as the error says; ``None`` where no other may help."""
        if isinstance(error, NotImplementedError) and self.sync:
            return replace(self, sync=False)
        status = status_of(error)
        if status not in _REJECTED and not (status is None and isinstance(error, ValueError)):
            return None
        text = f"{error} {getattr(error, 'body', '')}"
        if self.temperature and _TEMPERATURE.search(text):
            return replace(self, temperature=False)
        if self.system and _SYSTEM.search(text):
            return replace(self, system=False)
        if self.structured and status is not None and (status != 404 or _STRUCTURE.search(text)):
            return replace(self, structured=False)
        return None

    def both(self, other: Manner) -> Manner:
        """What both have: two threads may learn of different things at once."""
        return Manner(
            self.structured and other.structured,
            self.system and other.system,
            self.temperature and other.temperature,
            self.sync and other.sync,
        )

    def messages(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """The messages, without lone surrogates, the system turn merged into the user's where there may be none."""
        clean = [(role, text.encode("utf-8", "replace").decode()) for role, text in messages]
        if self.system or len(clean) < 2 or clean[0][0] != "system":
            return clean
        return [(clean[1][0], f"{clean[0][1]}\n\n{clean[1][1]}"), *clean[2:]]

    def arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call, without a temperature that the model refuses."""
        return {name: value for name, value in arguments.items() if self.temperature or name != "temperature"}
