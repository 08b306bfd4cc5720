"""Estimates the cost of an evaluation with a judge that counts its messages instead of sending them."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlflow_ragmetrics.core.judge import Call, Judge
from mlflow_ragmetrics.core.question import Claims, Extraction, Outcome, Question, Verify, passages_digest
from mlflow_ragmetrics.errors import JudgeReplyError
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from mlflow_ragmetrics.judges.chat.claim_tasks import all_supported
from mlflow_ragmetrics.judges.chat.judge_options import Calls
from mlflow_ragmetrics.judges.chat.reply import tokens_in
from mlflow_ragmetrics.judges.chat.tasks import answers_of, distinct_statements, known_task, request_of

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

    def as_dict(self) -> dict[str, float]:
        """Return all figures by name, the highest estimates under ``most_``; ``cost`` only if prices are known."""
        own = {name: value for name, value in vars(self).items() if name != "most" and value is not None}
        more = {} if self.most is None else self.most.as_dict()
        return {**own, **{f"most_{name}": value for name, value in more.items()}}


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
        return answers_of(self.name, questions, self._room, self.judge.prompt_length, self._counted)

    def _counted(self, questions: Sequence[Question[Any]]) -> dict[Question[Any], Outcome]:
        calls = self.judge.form
        request = request_of(questions, calls)
        prompt = sum(tokens_in(text) for _, text in self.judge.messages(request))
        wanted = self._replied(questions)
        first, most = self.judge.allowances(self._room.needed(questions))
        fits = first is None or wanted <= first
        self._count(prompt, wanted if first is None else min(wanted, first), request.reply_schema)
        if not fits and first is not None and first < most:  # truncated, then requested again
            self._count(prompt, min(wanted, most), request.reply_schema)
        if not fits and wanted > most:
            cut = JudgeReplyError(f"{self.name}: the reply would be cut short", code="cut_short")
            return dict.fromkeys(questions, cut)
        return {each: placeholder_of(each, calls, self._claims) for each in questions}

    def _replied(self, questions: Sequence[Question[Any]]) -> int:
        usual = [
            known_task(each).reply(each, self._room.calls)
            * (self._claims / _USUAL_CLAIMS if isinstance(each, Claims) else 1)
            for each in questions
        ]
        return round(sum(usual) * (_BRIEF if self._claims == FEWEST_CLAIMS else _VERBOSE))

    def _count(self, prompt: int, replied: int, schema: Mapping[str, Any]) -> None:
        prices = self.judge.usage.prices
        with self._lock:
            plan = self.plan
            plan.calls += 1
            plan.prompt_tokens += prompt
            plan.completion_tokens += replied
            plan.schema_tokens += tokens_in(json.dumps(schema))
            if prices is not None:
                schemas = plan.schema_tokens if self._claims > FEWEST_CLAIMS else 0
                plan.cost = prices.cost(plan.prompt_tokens + schemas, plan.completion_tokens)


_NAMES = "-" * 16


def placeholder_of(question: Question[Any], calls: Calls, claims_a_sentence: int) -> object:
    """Return a placeholder answer: ``claims_a_sentence`` claims per sentence; several are longer than it."""
    if not isinstance(question, Claims):
        return known_task(question).placeholder(question)
    claims = tuple(distinct_statements(question.text))
    if claims_a_sentence > 1:
        claims = tuple(f"{claim} {_NAMES} {n}" for claim in claims for n in range(claims_a_sentence))
    if calls != "single" or not question.passages:
        return claims
    findings = all_supported(Verify(claims, question.passages))
    return Extraction(claims, (), findings, passages_digest(question.passages))
