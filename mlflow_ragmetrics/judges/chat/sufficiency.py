"""Whether passages suffice to answer a question, as a part of a message and as read from its reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlflow_ragmetrics.core.question import Finding, Sufficiency
from mlflow_ragmetrics.judges.chat.message import Block, Part
from mlflow_ragmetrics.judges.chat.quotes import found_in
from mlflow_ragmetrics.judges.chat.reply import Problem, array_of, entries_by_id, text_in

__all__ = ["sufficiency_part"]

_ID = "question"
_SCHEMA = {
    "sufficiency": array_of(id=str, quotes=array_of(passage=str, text=str), reason=str, sufficient={"type": "number"})
}


def sufficiency_part(questions: Sequence[Sufficiency]) -> Part:
    """One question with its history and passages; these questions are asked alone."""
    (question,) = questions
    blocks = [Block("history", "\n".join(question.history))] if question.history else []
    blocks.append(Block(_ID, question.question))
    blocks += [Block(f"p{number}", text) for number, text in enumerate(question.passages, 1)]

    def read(data: Mapping[str, Any]) -> dict[Sufficiency, Finding | Problem]:
        entries = entries_by_id(data, "sufficiency", [_ID])
        return {question: entries if isinstance(entries, Problem) else _finding(entries[_ID], question.passages)}

    return Part(tuple(questions), ("sufficiency",), tuple(blocks), _SCHEMA, read)


def _finding(entry: Mapping[str, Any], passages: Sequence[str]) -> Finding | Problem:
    given = entry.get("sufficient")
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given <= 100:
        return Problem('"sufficient" must be a number from 0 to 100')
    share = float(given) if 0 < given < 1 else given / 100  # some models give a fraction, whatever they are asked for
    return Finding("", text_in(entry, "reason"), round(share, 4), _quotes(entry.get("quotes"), passages))


def _quotes(given: object, passages: Sequence[str]) -> tuple[tuple[int, str], ...]:
    """The quotes that are in the passages they name."""
    found: dict[int, str] = {}
    for quote in given if isinstance(given, list) else []:
        if not isinstance(quote, Mapping):
            continue
        label, text = str(quote.get("passage")).strip().lstrip("pP"), text_in(quote, "text").strip(" \"'“”«»…")
        number = int(label) if label.isdecimal() and len(label) < 8 else 0
        if 1 <= number <= len(passages) and text and found_in(passages[number - 1], text):
            found.setdefault(number, text)
    return tuple(found.items())
