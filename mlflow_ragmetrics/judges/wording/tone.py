"""The tone of an answer that gives none: cautious, neutral or misleading."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["ToneFound", "tone_of"]

_SURE = re.compile(
    r"\b(?:definitely|certainly|obviously|clearly|undoubtedly|of course|guaranteed|without (?:a )?doubt|trust me"
    r"|точно|несомненно|безусловно|очевидно|конечно|определённо|определенно|гарантирую)\b",
    re.IGNORECASE,
)
_CAUTIOUS = re.compile(
    r"\b(?:don['’]?t know|do not know|not sure|unsure|uncertain|cannot|can['’]?t|could not|couldn['’]?t|unable|sorry"
    r"|unclear|unknown|no (?:relevant )?(?:information|answer|data)|not (?:mentioned|specified|provided|available)"
    r"|may|might"
    r"|не знаю|не уверен\w*|не могу|неизвестно|неясно|нет (?:информации|данных|ответа|сведений)|затрудня\w+"
    r"|к сожалению|извините|не указан\w*|не найден\w*|возможно)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ToneFound:
    """1.0 cautious, 0.5 neutral, 0.0 misleading, and the words that say so."""

    value: float
    kind: Literal["cautious", "neutral", "misleading"]
    words: str


def tone_of(answer: str) -> ToneFound:
    """Cautious where the answer admits that it does not know, misleading where it is only sure of itself."""
    cautious, sure = _CAUTIOUS.search(answer), _SURE.search(answer)
    if cautious is not None:
        return ToneFound(1.0, "cautious", cautious.group())
    if sure is not None:
        return ToneFound(0.0, "misleading", sure.group())
    return ToneFound(0.5, "neutral", "")
