"""Calls and tokens of one row, counted by ``suite.plan``, which renders every message and sends none."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from langchain_core.language_models import FakeListChatModel

import mlflow_ragmetrics as rm
from making.text import table
from mlflow_ragmetrics.selection import PRESETS

__all__ = ["ROW", "of_presets", "planned"]

CALLS = ("full", "compact", "single")
ROW = {
    "id": "tower",
    "question": "How high is the tower, and when was it built?",
    "answer": "The tower is 330 metres high [1]. It was built in 1889 [2]. It was painted green [5]. "
    "It stands in Paris [3].",
    "reference": "The tower is 330 metres high. It was built in 1889. It stands in Paris.",
    "contexts": [
        "The tower is 330 metres high.",
        "It was built in 1889.",
        "It stands in Paris.",
        "A bridge.",
        "A park.",
    ],
    "retrieved_doc_ids": ["a", "b"],
    "gold_doc_ids": ["a"],
}


@cache
def planned(metrics: str | Sequence[str]) -> list[tuple[str, str, str, str]]:
    """For each value of ``calls``: the value, the calls, the prompt tokens and the tokens of the schemas."""
    lines = []
    for calls in CALLS:
        judge = rm.ChatJudge(FakeListChatModel(responses=["{}"]), name="model", calls=calls)
        suite = rm.Suite.preset(metrics, judge=judge) if isinstance(metrics, str) else rm.Suite(metrics, judge=judge)
        plan = suite.plan([ROW])["model"]
        figures = [_span(plan, name) for name in ("calls", "prompt_tokens", "schema_tokens")]
        lines.append((f'`calls="{calls}"`', figures[0], figures[1], figures[2]))
    return lines


def _span(plan: Any, name: str) -> str:
    """The least, and the most if it is more."""
    least, most = getattr(plan, name), getattr(plan.most or plan, name)
    return f"{least:,}" if most <= least else f"{least:,} to {most:,}"


def of_presets() -> str:
    """The cost of each preset that asks a judge, as a table."""
    rows = [(f"`{preset}`", *line) for preset in PRESETS for line in planned(preset) if line[1] != "0"]
    return table(("suite", "setting", "calls", "prompt tokens", "schema tokens"), rows)
