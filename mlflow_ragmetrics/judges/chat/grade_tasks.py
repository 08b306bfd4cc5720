"""Grades, sufficiency, nuggets and preferences: the parts of a message, and how to read the reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Union

from mlflow_ragmetrics.core.question import Finding, Grade, Nugget, Nuggets, Prefer, Question, Rating, Sufficiency, Tone
from mlflow_ragmetrics.errors import JudgeReplyError
from mlflow_ragmetrics.judges.chat.reply import (
    DECLINES,
    Problem,
    array_of,
    declines_in,
    entries_by_id,
    number_of,
    passage_quotes,
    reason_in,
    text_in,
)
from mlflow_ragmetrics.judges.chat.tasks import Block, Instruction, Part, Prompt, Task, history_block
from mlflow_ragmetrics.text.sentences import statements

_GRADES_SCHEMA = {"grades": array_of(id=str, reason=str, grade={"type": "number"}, declines=DECLINES)}
_QUESTION_ID = "question"
_SUFFICIENCY_SCHEMA = {
    "sufficiency": array_of(id=str, quotes=array_of(passage=str, text=str), reason=str, sufficient={"type": "number"})
}
_NUGGETS_SCHEMA = {"nuggets": array_of(fact=str, vital={"type": "boolean"})}
_PREFERENCE_SCHEMA = {"preference": array_of(id=str, reason=str, better=str, readers={"type": "number"})}
_CHOICES = {"a": "first", "b": "second", "tie": "tie"}
_Graded = Union[Grade, Tone]
_GRADE_TOKENS, _QUOTE_TOKENS, _NUGGET_TOKENS = 120, 80, 30


def grades_part(questions: Sequence[_Graded]) -> Part:
    """Ask for grades of one answer, by several aspects or by several references."""
    grades = [question for question in questions if isinstance(question, Grade)]
    aspects = {question.aspect if isinstance(question, Grade) else "tone": question for question in questions}
    references = tuple(question.reference for question in grades if question.reference is not None)
    several = len(aspects) < len(questions)
    ids = {f"{grade.aspect}_{number}": grade for number, grade in enumerate(grades, 1)} if several else aspects
    prompts: list[Prompt] = [*sorted({"grades" if grade.rubric is None else "rubrics" for grade in grades})]
    for name, question in aspects.items():
        rubric = question.rubric if isinstance(question, Grade) else None
        prompts.append(name if rubric is None else Instruction(f"{name}: {rubric.strip()}"))
    if several:
        prompts.append("references")
    prompts.append("declines")
    forms = ",".join(f'{{"id":"{name}","reason":"…","grade":…,"declines":"…"}}' for name in ids)
    prompts.append(Instruction(f'{{"grades":[{forms}]}}'))
    blocks = []
    for name in ("question", "reference", "contexts", "answer"):
        texts = next((named for question in questions if (named := question.named_texts().get(name))), ())
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
    rating = Rating(entry.get("grade"), reason_in(entry))
    is_tone = isinstance(question, Tone)
    try:
        grade = rating.checked_tone(name) if is_tone else rating.checked_grade(name)
    except JudgeReplyError:
        allowed = "0, 0.5 or 1" if is_tone else "a number from 1 to 5"
        return Problem(f'the grade with the id "{name}" must be {allowed}')
    return replace(rating, value=grade, declines=declines_in(entry))


def sufficiency_part(questions: Sequence[Sufficiency]) -> Part:
    """Ask one question with its history and passages."""
    (question,) = questions
    blocks = [*history_block(question.history), Block(_QUESTION_ID, question.question)]
    blocks += [Block(f"p{number}", text) for number, text in enumerate(question.passages, 1)]

    def read(data: Mapping[str, Any]) -> dict[Sufficiency, Finding | Problem]:
        entries = entries_by_id(data, "sufficiency", [_QUESTION_ID])
        return {question: entries if isinstance(entries, Problem) else _finding(entries[_QUESTION_ID], question)}

    return Part(tuple(questions), ("sufficiency",), tuple(blocks), _SUFFICIENCY_SCHEMA, read)


def _finding(entry: Mapping[str, Any], question: Sufficiency) -> Finding | Problem:
    percent = number_of(entry.get("sufficient"))
    if percent is None or not 0 <= percent <= 100:
        return Problem('"sufficient" must be a number from 0 to 100')
    quotes, _ = passage_quotes(entry.get("quotes"), question.passages)
    share = percent if 0 < percent < 1 else percent / 100  # some models return a fraction anyway
    exact = tuple((n, text) for n, text in quotes.items() if text)
    return Finding("", reason_in(entry), round(share, 4), exact)


def nuggets_part(questions: Sequence[Nuggets]) -> Part:
    """Ask for the facts in one question's reference or passages."""
    (question,) = questions
    labels = ["reference" if question.from_reference else f"p{n}" for n in range(1, len(question.sources) + 1)]
    blocks = [Block("question", question.question), *map(Block, labels, question.sources)]

    def read(data: Mapping[str, Any]) -> dict[Nuggets, tuple[Nugget, ...] | Problem]:
        return {question: _nuggets(data.get("nuggets"))}

    return Part(tuple(questions), ("nuggets",), tuple(blocks), _NUGGETS_SCHEMA, read)


def _nuggets(entries: object) -> tuple[Nugget, ...] | Problem:
    """Read the facts, without repeats."""
    if not isinstance(entries, list):
        return Problem('"nuggets" must be a list')
    nuggets: dict[str, Nugget] = {}
    for entry in entries:
        fact = text_in(entry, "fact") if isinstance(entry, Mapping) else ""
        vital = str(entry.get("vital")).strip().casefold() if isinstance(entry, Mapping) else ""
        if not any(map(str.isalnum, fact)) or vital not in ("true", "false"):
            return Problem('each of the "nuggets" must have a fact in words, and vital as true or false')
        nuggets.setdefault(fact, Nugget(fact, vital == "true"))
    return tuple(nuggets.values())


_MOST_NUGGETS = 20


def preference_part(questions: Sequence[Prefer]) -> Part:
    """Ask which of two answers, A or B, is better."""
    (question,) = questions
    blocks = [*history_block(question.history), Block(_QUESTION_ID, question.question)]
    blocks += [Block(f"p{number}", text) for number, text in enumerate(question.contexts, 1)]
    blocks += [Block("reference", text) for text in question.references]
    blocks += [Block("answer A", question.first), Block("answer B", question.second)]
    rubric: Prompt = "preference_rubric" if question.rubric is None else Instruction(f"rubric: {question.rubric}")

    def read(data: Mapping[str, Any]) -> dict[Prefer, Finding | Problem]:
        entries = entries_by_id(data, "preference", [_QUESTION_ID])
        return {question: entries if isinstance(entries, Problem) else _preferred(entries[_QUESTION_ID])}

    return Part(tuple(questions), ("preference", rubric, "preference_form"), tuple(blocks), _PREFERENCE_SCHEMA, read)


def _preferred(entry: Mapping[str, Any]) -> Finding | Problem:
    better = _CHOICES.get(text_in(entry, "better").casefold().removeprefix("answer").strip(" .[]"))
    if better is None:
        return Problem('"better" must be A, B or tie')
    readers = number_of(entry.get("readers"))
    share = 50.0 if better == "tie" else readers if readers is None or readers > 1 else 100 * readers
    if share is None or not 50 <= share <= 100:
        return Problem('"readers" must be a number from 50 to 100, of the readers who choose the better answer')
    return Finding(better, reason_in(entry), round(share / 100, 4))


def _grades_conflict(question: Grade, other: Grade) -> bool:
    """Whether both grade the same aspect or use different texts; grades by several references do not conflict."""
    if replace(question, reference=other.reference) == other:
        return question.rubric is not None or None in (question.reference, other.reference)
    pairs = [(getattr(question, name), getattr(other, name)) for name in ("question", "reference", "contexts")]
    return question.aspect == other.aspect or any(None not in pair and pair[0] != pair[1] for pair in pairs)


TASKS: dict[type[Question[Any]], Task[Any]] = {
    Grade: Task(
        grades_part,
        placeholder=lambda question: Rating(3.0),
        # relevance is graded without the reference
        shares=lambda question, calls: (question.answer, question.aspect if question.rubric is None else "rubrics"),
        conflict=_grades_conflict,
        reply=lambda question, calls: _GRADE_TOKENS,
    ),
    Tone: Task(grades_part, placeholder=lambda question: Rating(0.5), reply=lambda question, calls: _GRADE_TOKENS),
    Sufficiency: Task(
        sufficiency_part,
        placeholder=lambda question: Finding("", "", 1.0),
        reply=lambda question, calls: _GRADE_TOKENS + _QUOTE_TOKENS,
    ),
    Nuggets: Task(
        nuggets_part,
        placeholder=lambda question: tuple(map(Nugget, statements("\n".join(question.sources))[:_MOST_NUGGETS])),
        reply=lambda question, calls: _MOST_NUGGETS * _NUGGET_TOKENS,
    ),
    Prefer: Task(
        preference_part,
        placeholder=lambda question: Finding("first", "", 1.0),
        reply=lambda question, calls: _GRADE_TOKENS,
    ),
}
