"""Texts split into atomic claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union

from mlflow_ragmetrics.core.question import Claims, Question
from mlflow_ragmetrics.judges.prompt import Block
from mlflow_ragmetrics.judges.replies import Problem
from mlflow_ragmetrics.judges.tasks.part import Part, array_of, entries_by_id

__all__ = ["claims_part"]

_SCHEMA = {"texts": array_of(id=str, claims={"type": "array", "items": {"type": "string"}})}
_Result = Union[tuple[str, ...], Problem]


def claims_part(questions: Sequence[Claims]) -> Part:
    """One text a question, ``t1`` and on. Each claim comes back on one line, repeats and blanks dropped."""
    ids = [f"t{number}" for number in range(1, len(questions) + 1)]

    def read(data: Mapping[str, Any]) -> dict[Question, _Result]:
        entries = entries_by_id(data, "texts", ids)
        if isinstance(entries, Problem):
            return dict.fromkeys(questions, entries)
        return {question: _claims(entries[each]) for each, question in zip(ids, questions, strict=True)}

    blocks = tuple(Block(each, question.text) for each, question in zip(ids, questions, strict=True))
    return Part(tuple(questions), ("claims",), blocks, _SCHEMA, read)


def _claims(entry: Mapping[str, Any]) -> _Result:
    claims = entry.get("claims")
    if not isinstance(claims, list) or not all(isinstance(claim, str) for claim in claims):
        return Problem('"claims" must be a list of strings')
    if any(claim.strip() and not any(map(str.isalnum, claim)) for claim in claims):
        return Problem("each claim must be a statement in words")  # small models give the form's own "…" back
    return tuple(dict.fromkeys(line for line in (" ".join(claim.split()) for claim in claims) if line))
