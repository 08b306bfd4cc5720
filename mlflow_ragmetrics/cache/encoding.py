"""Answers as JSON: one shape a kind of question, checked when it is read back."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from mlflow_ragmetrics.core.question import Answer, Finding, Question, Rating, Related, Verify

__all__ = ["decode", "encode"]

_SHAPES: dict[str, Any] = {
    "claims": tuple[str, ...],
    "verify": tuple[Finding, ...],
    "related_chunks": tuple[Related, ...],
    "grade": Rating,
    "tone": Rating,
}


@lru_cache(maxsize=len(_SHAPES))
def _adapter(kind: str) -> TypeAdapter[Any] | None:
    return TypeAdapter(_SHAPES[kind]) if kind in _SHAPES else None


def encode(question: Question, answer: Answer) -> str | None:
    """The answer as JSON, or ``None`` for a kind that is not kept or an answer that has not its shape."""
    adapter = _adapter(question.kind)
    if adapter is None:
        return None
    try:
        return adapter.dump_json(adapter.validate_python(answer), warnings=False).decode()
    except (ValidationError, ValueError):
        return None


def decode(question: Question, text: str) -> Answer | None:
    """The answer that ``encode`` wrote, or ``None`` where it does not fit the question."""
    adapter = _adapter(question.kind)
    try:
        answer = None if adapter is None else adapter.validate_json(text)
    except ValidationError:
        return None
    if isinstance(question, Verify) and answer is not None and len(answer) != len(question.claims):
        return None
    return answer
