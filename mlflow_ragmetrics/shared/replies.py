"""Judges' replies read with care: verdicts, grades and chunk numbers, never guessed at."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import repeat
from typing import get_args

from mlflow_ragmetrics.core.language import Text, say
from mlflow_ragmetrics.core.question import Finding, Rating, Related
from mlflow_ragmetrics.core.score import Evidence, Item, Verdict
from mlflow_ragmetrics.errors import JudgeReplyError

__all__ = ["Warnings", "read_findings", "read_grade", "read_related", "read_tone"]

Warnings = tuple[tuple[str, Text], ...]

_CLAIM_VERDICTS: dict[str, Verdict] = {word: word for word in get_args(Verdict)[:3]}
_GRADE = re.compile(r"([+-]?\d+(?:[.,]\d+)?)\s*(?:(?:/|out of|of|из)\s*5(?:[.,]0+)?)?\.?", re.IGNORECASE)
_TONES = (0.0, 0.5, 1.0)


def read_findings(
    claims: Sequence[str], findings: Sequence[Finding], passages: int | None = None
) -> tuple[tuple[Item, ...], Warnings]:
    """One item a claim, and warnings about what the judge left out.

    Verdicts are read in any case; a missing or an unknown one is NEUTRAL, with a warning; extra ones are ignored.
    ``passages`` is the number of chunks that evidence may point to; ``None``: the evidence is no chunk.
    """
    missing = max(0, len(claims) - len(findings))
    padded = [*findings[: len(claims)], *[Finding("")] * missing]
    verdicts = [_CLAIM_VERDICTS.get(str(f.verdict).strip().rstrip(".").upper()) for f in padded]
    unknown = [f.verdict for f, verdict in zip(findings, verdicts, strict=False) if verdict is None]
    items = tuple(map(_item, claims, padded, verdicts, repeat(passages)))
    warnings: list[tuple[str, Text]] = []
    if missing:
        warnings.append(("verdict_missing", say("reading.missing", n=missing)))
    if unknown:
        named = ", ".join(repr(str(word)) for word in dict.fromkeys(unknown))
        warnings.append(("verdict_unknown", say("reading.unknown", n=len(unknown), named=named)))
    return items, tuple(warnings)


def _item(claim: str, finding: Finding, verdict: Verdict | None, passages: int | None) -> Item:
    evidence = [
        Evidence(None if passages is None else number, None, quote)
        for number, quote in finding.quotes
        if passages is None or 1 <= number <= passages
    ]
    graded = finding.support is not None and 0 <= finding.support <= 1
    support = finding.support if graded else None
    return Item("claim", claim, verdict or "NEUTRAL", finding.reason, support, tuple(evidence))


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
        raise JudgeReplyError(f"{metric}: the judge's grade {rating.value!r} is no number from 1 to 5", metric=metric)
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
