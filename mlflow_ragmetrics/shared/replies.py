"""Grades, tones and chunk numbers as judges gave them, read with care and never guessed at."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from mlflow_ragmetrics.core.question import Rating, Related
from mlflow_ragmetrics.errors import JudgeReplyError

__all__ = ["read_grade", "read_related", "read_tone"]

_GRADE = re.compile(r"([+-]?\d+(?:[.,]\d+)?)\s*(?:(?:/|out of|of|из)\s*5(?:[.,]0+)?)?\.?", re.IGNORECASE)
_TONES = (0.0, 0.5, 1.0)


def read_related(related: Sequence[Related], chunks: int) -> dict[int, Related]:
    """The related chunks by number; repeated and unknown numbers are ignored."""
    found: dict[int, Related] = {}
    for each in related:
        if isinstance(each.chunk, int) and 1 <= each.chunk <= chunks:
            found.setdefault(each.chunk, each)
    return found


def read_grade(rating: Rating, metric: str) -> float:
    """A grade of 1 to 5, from a number or from text such as ``"4/5"``; else ``JudgeReplyError``, never clamped."""
    grade = _number(rating.value)
    if grade is None or not 1 <= grade <= 5:
        raise JudgeReplyError(
            f"{metric}: the judge's grade {rating.value!r} is not a number from 1 to 5", metric=metric
        )
    return grade


def read_tone(rating: Rating, metric: str) -> float:
    """A tone of 0, 0.5 or 1; else ``JudgeReplyError``."""
    tone = _number(rating.value)
    if tone not in _TONES:
        raise JudgeReplyError(f"{metric}: the judge's tone {rating.value!r} is none of 0, 0.5, 1", metric=metric)
    return tone


def _number(value: object) -> float | None:
    if isinstance(value, str):
        match = _GRADE.fullmatch(value.strip())
        return float(match[1].replace(",", ".")) if match else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:  # an int beyond all floats
        return None
    return number if math.isfinite(number) else None
