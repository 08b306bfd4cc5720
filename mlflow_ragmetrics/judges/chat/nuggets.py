"""The facts of a good answer, as a part of a message and as read from its reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlflow_ragmetrics.core.question import Nugget, Nuggets
from mlflow_ragmetrics.judges.chat.message import Block, Part
from mlflow_ragmetrics.judges.chat.reply import Problem, array_of, text_in

__all__ = ["nuggets_part"]

_SCHEMA = {"nuggets": array_of(fact=str, vital={"type": "boolean"})}


def nuggets_part(questions: Sequence[Nuggets]) -> Part:
    """One question with its reference or passages; these questions are asked alone."""
    (question,) = questions
    labels = ["reference" if question.from_reference else f"p{n}" for n in range(1, len(question.sources) + 1)]
    blocks = [Block("question", question.question), *map(Block, labels, question.sources)]

    def read(data: Mapping[str, Any]) -> dict[Nuggets, tuple[Nugget, ...] | Problem]:
        return {question: _nuggets(data.get("nuggets"))}

    return Part(tuple(questions), ("nuggets",), tuple(blocks), _SCHEMA, read)


def _nuggets(given: object) -> tuple[Nugget, ...] | Problem:
    """The facts, each once."""
    if not isinstance(given, list):
        return Problem('"nuggets" must be a list')
    found: dict[str, Nugget] = {}
    for entry in given:
        fact = text_in(entry, "fact") if isinstance(entry, Mapping) else ""
        vital = str(entry.get("vital")).strip().casefold() if isinstance(entry, Mapping) else ""
        if not any(map(str.isalnum, fact)) or vital not in ("true", "false"):
            return Problem('each of the "nuggets" must have a fact in words, and vital as true or false')
        found.setdefault(fact, Nugget(fact, vital == "true"))
    return tuple(found.values())
