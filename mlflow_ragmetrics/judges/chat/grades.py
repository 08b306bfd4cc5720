"""Grades of an answer, as part of a message and as read from its reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union

from mlflow_ragmetrics.core.question import Grade, Rating, Tone
from mlflow_ragmetrics.errors import JudgeReplyError
from mlflow_ragmetrics.judges.chat.message import Block, Instruction, Part, Prompt
from mlflow_ragmetrics.judges.chat.reply import Problem, array_of, entries_by_id, text_in

__all__ = ["grades_part"]

_GRADES_SCHEMA = {"grades": array_of(id=str, reason=str, grade={"type": "number"})}
_Graded = Union[Grade, Tone]


def grades_part(questions: Sequence[_Graded]) -> Part:
    """Grades of one answer: one question per aspect, or one per reference, all about the same other texts."""
    grades = [question for question in questions if isinstance(question, Grade)]
    aspects = {question.aspect if isinstance(question, Grade) else "tone": question for question in questions}
    references = tuple(question.reference for question in grades if question.reference is not None)
    several = len(aspects) < len(questions)
    ids = {f"{grade.aspect}_{number}": grade for number, grade in enumerate(grades, 1)} if several else aspects
    prompts: list[Prompt] = []
    if any(question.rubric is None for question in grades):
        prompts.append("grades")
    if any(question.rubric is not None for question in grades):
        prompts.append("rubrics")
    for name, question in aspects.items():
        own = question.rubric if isinstance(question, Grade) else None
        prompts.append(name if own is None else Instruction(f"{name}: {own.strip()}"))
    if several:
        prompts.append("references")
    forms = ",".join(f'{{"id":"{name}","reason":"…","grade":…}}' for name in ids)
    prompts.append(Instruction(f'{{"grades":[{forms}]}}'))
    blocks = []
    for name in ("question", "reference", "contexts", "answer"):
        texts = next((each for question in questions if (each := question.named_texts().get(name))), ())
        labels = [f"p{number}" for number in range(1, len(texts) + 1)] if name == "contexts" else [name]
        if name == "reference" and several:
            texts, labels = references, [f"reference {number}" for number in range(1, len(references) + 1)]
        blocks += [Block(label, text) for label, text in zip(labels, texts, strict=False)]

    def read(data: Mapping[str, Any]) -> dict[_Graded, Rating | Problem]:
        entries = entries_by_id(data, "grades", list(ids))
        if isinstance(entries, Problem):
            return dict.fromkeys(questions, entries)
        return {question: _rating(question, name, entries[name]) for name, question in ids.items()}

    return Part(tuple(questions), tuple(prompts), tuple(blocks), _GRADES_SCHEMA, read)


def _rating(question: _Graded, name: str, entry: Mapping[str, Any]) -> Rating | Problem:
    given = Rating(entry.get("grade"), text_in(entry, "reason"))
    is_tone = isinstance(question, Tone)
    try:
        grade = given.tone(name) if is_tone else given.grade(name)
    except JudgeReplyError:
        allowed = "0, 0.5 or 1" if is_tone else "a number from 1 to 5"
        return Problem(f'the grade with the id "{name}" must be {allowed}')
    if not is_tone and str(given.value).strip() == "1.0":  # the best of a scale from 0 to 1, or the worst of ours?
        return Problem(f'the grade with the id "{name}" must be a whole number from 1 (worst) to 5 (best)')
    return Rating(grade, given.reason)
