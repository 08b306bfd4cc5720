"""Answers as JSON, in the type that the question says, checked when they are read back."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from mlflow_ragmetrics.core.question import Question

__all__ = ["decode", "encode"]

A = TypeVar("A")


@lru_cache(maxsize=64)
def _adapter(answer_type: Any) -> TypeAdapter[Any]:
    return TypeAdapter(answer_type)


def encode(question: Question[A], answer: A) -> str | None:
    """The answer as JSON, or ``None`` for a kind that is not stored or an answer that is not of its type."""
    if not question.stored:
        return None
    adapter = _adapter(question.answer_type())
    try:
        return adapter.dump_json(adapter.validate_python(answer), warnings=False).decode()
    except ValueError:
        return None


def decode(question: Question[A], text: str) -> A | None:
    """The answer that ``encode`` wrote, or ``None`` where it does not fit the question."""
    try:
        answer: A = _adapter(question.answer_type()).validate_json(text)
    except ValidationError:
        return None
    return answer if question.fits(answer) else None
