"""What an evaluation would cost, before anything is spent: a judge that prices its messages instead of sending them."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlflow_ragmetrics.core.html import render
from mlflow_ragmetrics.core.judge import Call, Judge
from mlflow_ragmetrics.core.question import Outcome, Question
from mlflow_ragmetrics.judges.chat.judge import ChatJudge
from mlflow_ragmetrics.judges.chat.limits import tokens_in
from mlflow_ragmetrics.judges.chat.tasks import joined, no_task, pieces_of, placeholder_of, request_of, task_of

__all__ = ["Plan", "PlanJudge", "Plans"]


@dataclass
class Plan:
    """Requests and tokens that a judge would need, by kind of question, and the cost where the prices are known.

    Tokens are a quarter of the characters; those of replies assume one claim per sentence and brief reasons.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    schema_tokens: int = 0
    cost: float | None = None

    def as_dict(self) -> dict[str, float]:
        """All figures by name; ``cost`` only where it is known."""
        return {name: value for name, value in vars(self).items() if value is not None}


class Plans(dict[str, Plan]):
    """The plan of each language model by its name; empty where none is asked."""

    def _repr_html_(self) -> str:
        if not self:
            lines = [{"text": "No language model is asked: nothing is sent, and it costs nothing.", "style": ""}]
            return render("views/cell.html", title="", lines=lines, tables=[], notes=[], folded=[])
        columns = ("model", "calls", "prompt tokens", "reply tokens", "dollars")
        rows = [
            (
                name,
                f"{plan.calls:,}",
                f"{plan.prompt_tokens + plan.schema_tokens:,}",
                f"{plan.completion_tokens:,}",
                "not known" if plan.cost is None else f"{plan.cost:.4f}",
            )
            for name, plan in self.items()
        ]
        notes = ["At most; answers that are cached cost nothing. Nothing was sent."]
        notes += [_PRICES] if any(plan.cost is None for plan in self.values()) else []
        table = {"columns": columns, "rows": rows, "numbers": columns[1:], "styles": {}}
        return render("views/cell.html", title="What it would take", lines=[], tables=[table], notes=notes, folded=[])


_PRICES = "For the money give the suite prices={'input': …, 'output': …}, in dollars per million tokens."


class PlanJudge(Judge):
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

    def calls(self, pending: Sequence[Question[Any]], in_flight: Sequence[Question[Any]]) -> list[Call]:
        """The calls that the judge itself would make."""
        return self.judge.calls(pending, in_flight)

    def answer(self, questions: Sequence[Question[Any]]) -> list[Outcome]:
        """Placeholders; the message that would have been sent is counted."""
        calls = self.judge.options.calls
        pieces = {question: pieces_of(question, calls) for question in questions if task_of(question) is not None}
        answers = {each: placeholder_of(each, calls) for asked in pieces.values() for each in asked}
        for turn in range(max(map(len, pieces.values()), default=0)):
            call = [each[turn] for each in pieces.values() if turn < len(each)]
            request = request_of(call, calls)
            prompt = sum(tokens_in(text) for _, text in self.judge.messages(request))
            replied = sum(tokens_in(str(answers[each])) for each in call)
            self._count(tuple(question.kind for question in call), prompt, replied, request.schema)
        return [
            joined([answers[each] for each in pieces[question]]) if question in pieces else no_task(self.name, question)
            for question in questions
        ]

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
