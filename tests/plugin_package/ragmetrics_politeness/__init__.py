"""How polite is an answer?"""

from __future__ import annotations

import re
from collections.abc import Sequence

import mlflow_ragmetrics as rm

__all__ = ["politeness"]


@rm.metric(aliases=("courtesy",), thresholds={"conservative": 0.9, "balanced": 0.5, "lenient": 0.1})
def politeness(answer: str, *, phrases: Sequence[str] = ("please", "thank you")) -> rm.Score:
    """The share of the polite ``phrases`` that the answer holds."""
    found = [phrase for phrase in phrases if re.search(rf"\b{re.escape(phrase)}\b", answer, re.IGNORECASE)]
    items = tuple(rm.Item("token", phrase, "FOUND" if phrase in found else "NOT_FOUND") for phrase in phrases)
    return rm.Score(value=len(found) / len(phrases), reason=f"{len(found)} of {len(phrases)} phrases", items=items)
