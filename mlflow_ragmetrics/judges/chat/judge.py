"""A judge that is a language model: any LangChain chat model, or one named by a URI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

from mlflow_ragmetrics.core.judge import Call
from mlflow_ragmetrics.core.language import check_language
from mlflow_ragmetrics.core.options import check_arguments
from mlflow_ragmetrics.core.question import Embed, Outcome, Question
from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError, JudgeReplyError
from mlflow_ragmetrics.judges.chat.client import Connection, Terms, Turn
from mlflow_ragmetrics.judges.chat.grouping import Grouping, check_grouping, group_calls
from mlflow_ragmetrics.judges.chat.limits import Usage
from mlflow_ragmetrics.judges.chat.message import Result, Sheet, sheet_of
from mlflow_ragmetrics.judges.chat.models import ModelOptions, identity_of, name_of, open_model
from mlflow_ragmetrics.judges.chat.prompt import Prompts, fenced
from mlflow_ragmetrics.judges.chat.reply import Problem, Reply

__all__ = ["ChatJudge"]

_MORE_TOKENS = 4
_LONGEST_ECHO = 8000
_SHOWN = 160


class ChatJudge:
    """Answers questions with a chat model: a LangChain ``BaseChatModel``, or a URI such as ``"openai:/gpt-4o-mini"``.

    ``calls``: ``"full"`` (at most 8 calls a row) or ``"compact"`` (at most 4). ``language``: of reasons. ``prompts``: a
    folder whose files replace the built-in prompts of the same names. ``temperature``, ``max_tokens`` (0 and 1000 for
    a URI, else the model's own), ``seed``, ``base_url`` and ``api_key`` (never shown or stored): of the model.
    ``terms``: the fields of ``Terms`` (timeout, attempts, limits, budget, …). A model that ``max_tokens`` cuts short
    is asked once more with four times as many.
    """

    def __init__(
        self,
        model: Any,
        *,
        name: str | None = None,
        calls: str = "full",
        language: str = "en",
        prompts: str | Path | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        **terms: Any,
    ) -> None:
        agreed = Terms.of(terms)
        given = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed, "base_url": base_url}
        for option, value in (("name", name), ("api_key", api_key)):
            if not isinstance(value, (str, NoneType)):  # a key is not shown, whatever it is
                raise InvalidOptionError(f"ChatJudge: {option} must be text", param=option)
        checked = check_arguments("ChatJudge", ModelOptions, given)
        options = ModelOptions(**checked, timeout=agreed.timeout, api_key=api_key)
        self.grouping: Grouping = check_grouping(calls)
        self.language = check_language(language)
        self.prompts = Prompts.load(prompts)
        self.name = name or name_of(model)
        self.model, call_options = open_model(model, options)
        self._connection = Connection(self.name, self.model, call_options, agreed)
        self._more_tokens = _MORE_TOKENS * (max_tokens or getattr(self.model, "max_tokens", None) or 1000)
        self.fingerprint = ";".join(
            [
                identity_of(self.name, self.model, call_options),
                f"prompts={self.prompts.version}/{self.prompts.digest[:12]}",
                f"calls={self.grouping}",
                f"language={self.language}",
            ]
        )

    @property
    def usage(self) -> Usage:
        """What this judge has cost so far."""
        return self._connection.usage

    def calls(self, pending: Sequence[Question], in_flight: Sequence[Question]) -> list[Call]:
        """The calls to make now for one sample's pending questions; what is in none of them waits.

        ``in_flight`` are the sample's questions that are being asked already.
        """
        return group_calls(self.grouping, pending, in_flight)

    def answer(self, questions: Sequence[Question]) -> list[Outcome]:
        """One outcome a question; all are asked in one message, and once more where the reply cannot be used."""
        asked = [question for question in dict.fromkeys(questions) if not isinstance(question, Embed)]
        outcomes: dict[Question, Outcome] = {}
        try:
            outcomes = self._ask(sheet_of(asked)) if asked else {}
        except JudgeError as error:
            outcomes = dict.fromkeys(asked, error)
        stranger = JudgeError(f"{self.name}: a chat model makes no embeddings")
        return [outcomes.get(question, stranger) for question in questions]

    def turns(self, sheet: Sheet) -> list[Turn]:
        """The message for a sheet: the fixed part first, the fenced data after it."""
        return [("system", self.prompts.system(sheet.prompts, self.language)), ("human", fenced(sheet.blocks))]

    def _ask(self, sheet: Sheet) -> dict[Question, Outcome]:
        turns = self.turns(sheet)
        reply = self._connection.reply(turns, sheet.schema)
        results = _read(sheet, reply)
        if reply.cut and _problem_in(results):
            reply = self._connection.reply(turns, sheet.schema, max_tokens=self._more_tokens)
            results = _read(sheet, reply)
        problem = _problem_in(results)
        if problem and not reply.refused and not reply.cut:
            self.usage.add(repairs=1)
            repair: list[Turn] = [("ai", reply.text[:_LONGEST_ECHO] or "{}"), ("human", self.prompts.repair(problem))]
            reply = self._connection.reply([*turns, *repair], sheet.schema)
            again = _read(sheet, reply)
            results = {q: again[q] if isinstance(result, Problem) else result for q, result in results.items()}
        return {q: self._failure(r, reply) if isinstance(r, Problem) else r for q, r in results.items()}

    def _failure(self, problem: Problem, reply: Reply) -> JudgeReplyError:
        began = redact(" ".join(reply.text.split()))[:_SHOWN]
        if reply.refused:
            return JudgeReplyError(f"{self.name} refused to answer: {began!r}", code="refused")
        if reply.cut:
            message = f"{self.name}: the reply was cut short at {self._more_tokens} tokens; raise max_tokens"
            return JudgeReplyError(message, code="cut_short")
        message = f"{self.name}: the reply cannot be used, asked twice: {problem.text}; it began {began!r}"
        return JudgeReplyError(message, code="unusable")


def _read(sheet: Sheet, reply: Reply) -> dict[Question, Result]:
    if reply.refused or reply.data is None:
        problem = Problem("it holds no JSON object of the form asked for")
        return {question: problem for part in sheet.parts for question in part.questions}
    return sheet.read(reply.data)


def _problem_in(results: Mapping[Question, Result]) -> str | None:
    return next((result.text for result in results.values() if isinstance(result, Problem)), None)
