"""Grades against the rubrics, and the tone of an answer that gives none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union

from mlflow_ragmetrics.core.question import Grade, Question, Rating, Tone
from mlflow_ragmetrics.core.reading import read_grade, read_tone
from mlflow_ragmetrics.errors import JudgeReplyError
from mlflow_ragmetrics.judges.prompt import Block
from mlflow_ragmetrics.judges.replies import Problem
from mlflow_ragmetrics.judges.tasks.part import Part, array_of, entries_by_id, text_in

__all__ = ["grades_part"]

_SCHEMA = {"grades": array_of(id=str, reason=str, grade={"type": "number"})}
_Graded = Union[Grade, Tone]


def grades_part(questions: Sequence[_Graded]) -> Part:
    """Grades of one answer: at most one question an aspect, all about the same texts."""
    ids = {_id(question): question for question in questions}
    rubrics = ("grades", *ids) if "tone" not in ids else tuple(ids)

    def read(data: Mapping[str, Any]) -> dict[Question, Rating | Problem]:
        entries = entries_by_id(data, "grades", list(ids))
        if isinstance(entries, Problem):
            return dict.fromkeys(questions, entries)
        return {question: _rating(each, entries[each]) for each, question in ids.items()}

    return Part(tuple(questions), rubrics, tuple(_blocks(questions)), _SCHEMA, read)


def _id(question: _Graded) -> str:
    return question.aspect if isinstance(question, Grade) else "tone"


def _blocks(questions: Sequence[_Graded]) -> list[Block]:
    blocks = []
    for name in ("question", "reference", "answer"):
        given = [text for text in (getattr(question, name) for question in questions) if text is not None]
        blocks += [Block(name, text) for text in given[:1]]
    return blocks


def _rating(aspect: str, entry: Mapping[str, Any]) -> Rating | Problem:
    given = Rating(entry.get("grade"), text_in(entry, "reason"))
    try:
        grade = read_tone(given, aspect) if aspect == "tone" else read_grade(given, aspect)
    except JudgeReplyError:
        allowed = "0, 0.5 or 1" if aspect == "tone" else "a number from 1 to 5"
        return Problem(f'the grade with the id "{aspect}" must be {allowed}')
    return Rating(grade, given.reason)
