"""What an evaluation would cost, before anything is spent: a judge that prices its messages instead of sending them."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlflow_ragmetrics.core.judge import Call
from mlflow_ragmetrics.core.question import (
    Answer,
    Claims,
    Embed,
    Finding,
    Grade,
    Outcome,
    Question,
    Rating,
    Related,
    RelatedChunks,
    Tone,
    Verify,
)
from mlflow_ragmetrics.core.text import sentences
from mlflow_ragmetrics.judges.chat.judge import ChatJudge
from mlflow_ragmetrics.judges.chat.limits import tokens_in
from mlflow_ragmetrics.judges.chat.message import sheet_of

__all__ = ["Plan", "PlanJudge", "plan_judge"]

_REASON = 60
_QUOTE = 40


@dataclass
class Plan:
    """Requests and tokens that a judge would need, by kind of question, and the cost where the prices are known.

    Tokens are a quarter of the characters; those of replies assume one claim a sentence and brief reasons.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    schema_tokens: int = 0
    cost: float | None = None

    def as_dict(self) -> dict[str, float]:
        """All figures by name; ``cost`` only where it is known."""
        return {name: value for name, value in vars(self).items() if value is not None}


class PlanJudge:
    """Takes the place of a ``ChatJudge``: renders the same messages, counts them in ``plan``, sends nothing.

    Its answers are placeholders (each sentence a claim, each claim supported by the first passage), so that every
    later question is asked as well; scores made of them mean nothing. ``calls_made`` lists (kinds, prompt tokens).
    """

    def __init__(self, judge: ChatJudge) -> None:
        self.judge = judge
        self.name = judge.name
        self.plan = Plan()
        self.calls_made: list[tuple[tuple[str, ...], int]] = []
        self._lock = threading.Lock()

    def calls(self, pending: Sequence[Question], in_flight: Sequence[Question]) -> list[Call]:
        """The calls that the judge itself would make."""
        return self.judge.calls(pending, in_flight)

    def answer(self, questions: Sequence[Question]) -> list[Outcome]:
        """Placeholders; the message that would have been sent is counted."""
        asked = [question for question in questions if not isinstance(question, Embed)]
        answers = [_placeholder(question) for question in asked]
        if asked:
            sheet = sheet_of(asked)
            prompt = sum(tokens_in(text) for _, text in self.judge.turns(sheet))
            replied = sum(_reply_tokens(answer) for answer in answers)
            self._count(tuple(question.kind for question in asked), prompt, replied, sheet.schema)
        return answers

    def _count(self, kinds: tuple[str, ...], prompt: int, replied: int, schema: Mapping[str, Any]) -> None:
        prices = self.judge.usage.prices
        with self._lock:
            plan = self.plan
            plan.calls += 1
            plan.prompt_tokens += prompt
            plan.completion_tokens += replied
            plan.schema_tokens += tokens_in(json.dumps(schema))
            if prices is not None:
                plan.cost = prices.cost(plan.prompt_tokens + plan.schema_tokens, plan.completion_tokens)
            self.calls_made.append((kinds, prompt))


def plan_judge(judge: ChatJudge) -> PlanJudge:
    """A judge to put in the place of ``judge``; after an evaluation with it, ``plan`` says what it would have cost."""
    return PlanJudge(judge)


def _placeholder(question: Question) -> Answer:
    if isinstance(question, Claims):
        return tuple(dict.fromkeys(sentences(question.text)))
    if isinstance(question, Verify):
        quotes = ((1, question.passages[0][:_QUOTE]),) if question.passages else ()
        return tuple(Finding("SUPPORTED", "-" * _REASON, None, quotes) for _ in question.claims)
    if isinstance(question, RelatedChunks):
        return tuple(Related(i, text[:_QUOTE], "-" * _REASON) for i, text in enumerate(question.chunks, 1))
    if isinstance(question, Grade):
        return Rating(3.0, "-" * _REASON)
    return Rating(0.5, "-" * _REASON) if isinstance(question, Tone) else None


def _reply_tokens(answer: Answer) -> int:
    return tokens_in(str(answer))
