"""Estimates the cost of an evaluation with a judge that counts its messages instead of sending them."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlflow_ragmetrics.core.question import Call, Claims, Extraction, Judge, Outcome, Question, Verify, passages_digest
from mlflow_ragmetrics.errors import JudgeReplyError
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from mlflow_ragmetrics.judges.chat.judge_options import Calls
from mlflow_ragmetrics.judges.chat.reply import tokens_in
from mlflow_ragmetrics.judges.chat.tasks import TASKS, answers_of, request_of

FEWEST_CLAIMS, MOST_CLAIMS = 1, 3
"""Claims per sentence in the lowest and the highest estimate of a plan."""
_USUAL_CLAIMS = 2
_BRIEF, _VERBOSE = 0.2, 1.5


@dataclass
class Plan:
    """The requests and tokens that a judge would need, and the cost if prices are known.

    These are lowest estimates, with one claim per sentence and brief reasons. ``most`` holds the highest ones, with
    three claims per sentence, long reasons and several quotes. Tokens are a quarter of the characters. If the model
    takes a schema, add ``schema_tokens``. Failed requests and second looks at doubtful replies are not included.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    schema_tokens: int = 0
    cost: float | None = None
    most: Plan | None = None


class PlanJudge(Judge):
    """Replaces a ``ChatJudge``: builds the same messages and counts them in ``plan``, but sends nothing.

    A reply that would not fit counts as truncated and requested again. The answers are placeholders (a fixed number of
    claims per sentence, each supported by the first passage), so that later questions are counted too. Scores from
    them mean nothing.
    """

    def __init__(self, judge: ChatJudge, claims_a_sentence: int = FEWEST_CLAIMS) -> None:
        self.judge = judge
        self.name = judge.name
        self.plan = Plan()
        self._claims = claims_a_sentence
        self._room = judge.new_room()
        self._lock = threading.Lock()

    def calls(self, pending: Sequence[Question[Any]], in_flight: Sequence[Question[Any]]) -> list[Call]:
        """Return the calls that the judge itself would make."""
        return self.judge.calls(pending, in_flight)

    def answer(self, questions: Sequence[Question[Any]]) -> list[Outcome]:
        """Count the messages that the judge would send, and return placeholders."""
        outcomes = answers_of(self.name, questions, self._room, self.judge.prompt_length, self._counted)
        return [outcomes[question] for question in questions]

    def _counted(self, questions: Sequence[Question[Any]]) -> dict[Question[Any], Outcome]:
        request = request_of(questions, self.judge.form)
        prompt = sum(tokens_in(text) for _, text in self.judge.messages(request))
        shares = [self._claims / _USUAL_CLAIMS if isinstance(question, Claims) else 1 for question in questions]
        usual = [TASKS[type(question)].reply(question, self.judge.form) for question in questions]
        wanted = sum(share * length for share, length in zip(shares, usual, strict=True))
        wanted = round(wanted * (_BRIEF if self._claims == FEWEST_CLAIMS else _VERBOSE))
        first, most = self.judge.allowances(self._room.needed(questions))
        limits = [wanted] if first is None else [first, most] if first < min(wanted, most) else [first]
        prices, plan = self.judge.usage.prices, self.plan
        with self._lock:
            plan.calls += len(limits)  # a truncated reply is requested again
            plan.prompt_tokens += len(limits) * prompt
            plan.completion_tokens += sum(min(wanted, limit) for limit in limits)
            plan.schema_tokens += len(limits) * tokens_in(json.dumps(request.reply_schema))
            if prices is not None:
                schemas = plan.schema_tokens if self._claims > FEWEST_CLAIMS else 0
                plan.cost = prices.cost(plan.prompt_tokens + schemas, plan.completion_tokens)
        if wanted > max(limits[-1], most):
            cut = JudgeReplyError(f"{self.name}: the reply would be cut short", code="cut_short")
            return dict.fromkeys(questions, cut)
        return {question: placeholder_of(question, self.judge.form, self._claims) for question in questions}


_NAMES = "-" * 16


def placeholder_of(question: Question[Any], calls: Calls, claims_a_sentence: int) -> object:
    """Return a placeholder answer: ``claims_a_sentence`` claims per sentence; several are longer than it."""
    answer = TASKS[type(question)].placeholder(question)
    if not isinstance(question, Claims):
        return answer
    if claims_a_sentence > 1:
        answer = tuple(f"{claim} {_NAMES} {n}" for claim in answer for n in range(claims_a_sentence))
    if calls != "single" or not question.passages:
        return answer
    findings = TASKS[Verify].placeholder(Verify(answer, question.passages))
    return Extraction(answer, (), findings, passages_digest(question.passages))
