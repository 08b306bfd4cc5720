"""One kind of task in a message: prompts, data blocks, shape of the reply, and how to read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from mlflow_ragmetrics.core.question import Answer, Question
from mlflow_ragmetrics.judges.prompt import Block
from mlflow_ragmetrics.judges.replies import Problem

__all__ = ["Part", "array_of", "entries_by_id", "text_in"]

_TEXT = {"type": "string"}


@dataclass(frozen=True)
class Part:
    """``read`` takes the reply's object and gives every question of the part its answer or its problem."""

    questions: tuple[Question, ...]
    prompts: tuple[str, ...]
    blocks: tuple[Block, ...]
    schema: Mapping[str, Any]
    read: Callable[[Mapping[str, Any]], dict[Question, Union[Answer, Problem]]]


def array_of(**properties: Any) -> dict[str, Any]:
    """The schema of an array of objects that have exactly these properties; ``str`` stands for a text."""
    shapes = {name: _TEXT if shape is str else shape for name, shape in properties.items()}
    entry = {"type": "object", "properties": shapes, "required": list(shapes), "additionalProperties": False}
    return {"type": "array", "items": entry}


def entries_by_id(data: Mapping[str, Any], key: str, asked: Sequence[str]) -> dict[str, Mapping[str, Any]] | Problem:
    """The entries of the array ``key`` by id, provided that the ids are exactly those asked, each once."""
    entries = data.get(key)
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        return Problem(f'"{key}" must be a list of objects')
    ids = [str(entry.get("id", "")).strip() for entry in entries]
    missing = [each for each in asked if each not in ids]
    if missing:
        return Problem(f'"{key}" has no entry with the id {", ".join(missing[:5])}')
    if len(ids) != len(asked):
        return Problem(f'"{key}" must have one entry for each of {", ".join(asked)} and no other')
    return dict(zip(ids, entries, strict=True))


def text_in(entry: Mapping[str, Any], name: str) -> str:
    """The text under ``name`` on one line, or ``""``."""
    value = entry.get(name)
    return " ".join(value.split()) if isinstance(value, str) else ""
