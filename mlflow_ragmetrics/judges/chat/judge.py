"""A judge that is a language model: any LangChain chat model, or one named by a URI."""

from __future__ import annotations

import logging
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.core.judge import Call, Judge
from mlflow_ragmetrics.core.question import Extraction, Finding, Outcome, Question
from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.errors import JudgeError, JudgeReplyError
from mlflow_ragmetrics.judges.chat.client import ModelClient
from mlflow_ragmetrics.judges.chat.evidence import decided
from mlflow_ragmetrics.judges.chat.fitting import Room, answers_in_calls
from mlflow_ragmetrics.judges.chat.identity import UnidentifiedError, identity_of
from mlflow_ragmetrics.judges.chat.limits import Usage
from mlflow_ragmetrics.judges.chat.message import ChatMessage, ChatRequest, Incomplete, Prompts, Result, fenced
from mlflow_ragmetrics.judges.chat.models import name_of, open_model
from mlflow_ragmetrics.judges.chat.options import Calls, judge_options
from mlflow_ragmetrics.judges.chat.reply import Problem, Reply
from mlflow_ragmetrics.judges.chat.tasks import no_task, request_of, task_of
from mlflow_ragmetrics.text.messages import check_language

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mlflow_ragmetrics.judges.chat.options import JudgeKeywords

_log = logging.getLogger(__name__)
_MORE_TOKENS = 4
_ENOUGH_TOKENS = 8000  # more than this is asked for only of a model that is made for it
_USUAL_TOKENS = 1000
_SPARE = 2  # what is allowed and not written costs nothing; what is cut is paid for twice
_TOO_MANY_TOKENS = re.compile(r"max_\w*tokens|num_predict|context|token limit", re.IGNORECASE)
_TOO_LONG = re.compile(r"context[ _](?:length|size|window)|too long|too many (?:input )?tokens|n_ctx", re.IGNORECASE)
_REFUSED = ("http_400", "http_413", "http_422")
_LONGEST_ECHO = 8000
_SHOWN = 160
_MOST_DOUBTS = 12


class ChatJudge(Judge):
    """Answers questions with a chat model: a LangChain ``BaseChatModel``, or a URI such as ``"openai:/gpt-4o-mini"``.

    ``language``: of reasons. ``options``: the fields of ``JudgeOptions``. ``name``; ``calls``: ``"full"`` (at most 9
    calls per row), ``"compact"`` (at most 5) or ``"single"`` (claims and their verdicts in one call);
    ``support_threshold``: the support (0 to 1) from which a claim is SUPPORTED; ``prompts``: a folder whose files
    replace the built-in prompts of the same names; ``temperature``, ``max_tokens``, ``seed``, ``base_url`` and
    ``api_key`` (never shown or stored) of the model; ``timeout``, ``attempts``, ``retry``, ``requests_per_minute``,
    ``tokens_per_minute``, ``max_calls``, ``max_cost`` and ``prices`` of its requests; ``trace`` and ``structured``.
    ``InvalidOptionError`` names one that is wrong. A long reply is allowed up to four times ``max_tokens`` (at most
    8,000, where ``max_tokens`` is less); what needs more, or a longer prompt than the model takes, is asked in pieces.
    """

    usage: Usage

    def __init__(self, model: Any, *, language: str = "en", **options: Unpack[JudgeKeywords]) -> None:
        self.options = judge_options(options)
        self.language = check_language(language)
        self.prompts = Prompts.load(self.options.prompts)
        self.name = self.options.name or name_of(model)
        self.model, call_options = open_model(model, self.options)
        self._client = ModelClient(self.name, self.model, call_options, self.options)
        self.usage = self._client.usage
        limit = self._client.longest_reply or _USUAL_TOKENS
        self._most_tokens = max(limit, min(_MORE_TOKENS * limit, _ENOUGH_TOKENS))
        self._room = self.new_room()
        self.fingerprint = self._identified(call_options)

    def _identified(self, call_options: Mapping[str, Any]) -> str | None:
        try:
            identity = identity_of(self.name, self.model, {**call_options, "structured": self.options.structured})
        except UnidentifiedError as error:
            _log.info("%s: its answers are not cached, as %s, which nothing identifies", self.name, error)
            return None
        prompts = f"prompts={self.prompts.version}/{self.prompts.digest[:12]}"
        own = f"calls={self.options.calls};language={self.language};support={self.options.support_threshold:g}"
        return ";".join([identity, prompts, own])

    def calls(self, pending: Sequence[Question[Any]], in_flight: Sequence[Question[Any]]) -> list[Call]:
        """The calls to make now for one sample's pending questions; what is in none of them waits.

        ``in_flight`` are the sample's questions that are being asked already.
        """
        return group_calls(self.options.calls, pending, in_flight)

    def answer(self, questions: Sequence[Question[Any]]) -> list[Outcome]:
        """One outcome per question; all are asked in one message, and once more where the reply cannot be used."""
        asked = [question for question in dict.fromkeys(questions) if task_of(question) is not None]
        outcomes = answers_in_calls(asked, self._room, self.prompt_length, self._outcomes) if asked else {}
        return [outcomes[each] if each in outcomes else no_task(self.name, each) for each in questions]

    def new_room(self) -> Room:
        """How long replies and prompts of this model may be; a window that is known has room for a usual reply, too."""
        window = self._client.window
        prompt = None if window is None else max(window // 2, window - (self._client.longest_reply or _USUAL_TOKENS))
        return Room(self.options.calls, self._most_tokens, prompt)

    def prompt_length(self, questions: Sequence[Question[Any]]) -> int:
        """The tokens of the prompt that asks ``questions``; as many as they may be in any alphabet."""
        messages = self.messages(request_of(questions, self.options.calls))
        return sum(len(text.encode("utf-8", "replace")) for _, text in messages) // 3

    def allowances(self, needed: int) -> tuple[int | None, int]:
        """The tokens that a reply may have, of which ``needed`` are usual, and where it is cut short the second time.

        The first is ``None`` where nothing limits it.
        """
        limit = self._client.longest_reply
        return (None if limit is None else max(limit, min(_SPARE * needed, self._most_tokens))), self._most_tokens

    def messages(self, request: ChatRequest) -> list[ChatMessage]:
        """The messages of a request: the fixed part, then the fenced data and a reminder that it is data."""
        data = f"{fenced(request.blocks)}\n{self.prompts.texts['reminder']}"
        return [("system", self.prompts.system(request.prompts, self.language)), ("human", data)]

    def _outcomes(self, questions: Sequence[Question[Any]]) -> dict[Question[Any], Outcome]:
        try:
            return self._ask(request_of(questions, self.options.calls), self._room.needed(questions))
        except JudgeError as error:
            if error.code in _REFUSED and _TOO_LONG.search(str(error)):
                error = JudgeReplyError(str(error), code="too_long")
            return dict.fromkeys(questions, error)

    def _ask(self, request: ChatRequest, needed: int) -> dict[Question[Any], Outcome]:
        messages = self.messages(request)
        allowed, most = self.allowances(needed)
        reply = self._reply(messages, request.schema, allowed)
        results = _read(request, reply)
        if reply.cut and _problem_in(results) and (allowed or 0) < min(most, self._most_tokens):
            allowed = most
            reply = self._reply(messages, request.schema, allowed)
            results = _read(request, reply)
        problem = _problem_in(results)
        doubts = _doubts_in(results)
        if (problem or doubts) and not reply.refused and not reply.cut:
            self.usage.add(repairs=int(problem is not None))
            turn = self.prompts.turn("repair" if problem else "again", problem or "; ".join(doubts[:_MOST_DOUBTS]))
            more: list[ChatMessage] = [("ai", reply.text[:_LONGEST_ECHO] or "{}"), ("human", turn)]
            try:
                reply = self._reply([*messages, *more], request.schema, allowed)
                again = _read(request, reply)
            except JudgeError:
                if problem:
                    raise
                again = results
            results = {question: _better(result, again[question]) for question, result in results.items()}
        return {question: self._outcome(result, reply) for question, result in results.items()}

    def _reply(self, messages: Sequence[ChatMessage], schema: Mapping[str, Any], allowed: int | None) -> Reply:
        """A reply of so many tokens at most; a model that refuses as many is from then on given its own limit."""
        limit = self._client.longest_reply
        if allowed == limit or allowed is None or allowed > self._most_tokens:
            return self._client.reply(messages, schema)
        try:
            return self._client.reply(messages, schema, max_tokens=allowed)
        except JudgeError as error:
            if error.code not in _REFUSED or not _TOO_MANY_TOKENS.search(str(error)):
                raise
            reply = self._client.reply(messages, schema)
            self._most_tokens = self._room.reply = limit or _USUAL_TOKENS
            return reply

    def _outcome(self, result: Result, reply: Reply) -> Outcome:
        if isinstance(result, Problem):
            return self._failure(result, reply)
        answer = result.answer if isinstance(result, Incomplete) else result
        threshold = self.options.support_threshold
        if isinstance(answer, Extraction):
            if answer.unclaimed and not answer.claims:
                message = f"{self.name}: no claims of a text that asserts something, asked twice"
                return JudgeReplyError(message, code="claims_missing")
            findings = tuple(decided(finding, threshold) for finding in answer.findings)
            plain = answer.judged_by is None and not answer.unclaimed
            return answer.claims if plain else replace(answer, findings=findings)
        if isinstance(answer, tuple):
            return tuple(decided(each, threshold) if isinstance(each, Finding) else each for each in answer)
        return answer

    def _failure(self, problem: Problem, reply: Reply) -> JudgeReplyError:
        began = redact(" ".join(reply.text.split()))[:_SHOWN]
        if reply.refused:
            return JudgeReplyError(f"{self.name} refused to answer: {began!r}", code="refused")
        if reply.cut:
            message = f"{self.name}: the reply was cut short at {self._most_tokens:,} tokens; raise max_tokens"
            return JudgeReplyError(message, code="cut_short")
        message = f"{self.name}: the reply cannot be used, asked twice: {problem.text}; it began {began!r}"
        return JudgeReplyError(message, code="unusable")


def _read(request: ChatRequest, reply: Reply) -> dict[Question[Any], Result]:
    if reply.refused or reply.data is None:
        problem = Problem("it holds no JSON object of the form asked for")
        return {question: problem for part in request.parts for question in part.questions}
    return request.read(reply.data)


def _problem_in(results: Mapping[Question[Any], Result]) -> str | None:
    return next((result.text for result in results.values() if isinstance(result, Problem)), None)


def _doubts_in(results: Mapping[Question[Any], Result]) -> list[str]:
    return [doubt for result in results.values() if isinstance(result, Incomplete) for doubt in result.doubts]


def _better(first: Result, second: Result) -> Result:
    """The second reading of a reply's answer, unless the first one was better."""
    if isinstance(first, Problem):
        return second
    if not isinstance(first, Incomplete) or isinstance(second, Problem):
        return first
    return first if isinstance(second, Incomplete) and len(second.doubts) > len(first.doubts) else second


def group_calls(calls: Calls, pending: Sequence[Question[Any]], in_flight: Sequence[Question[Any]]) -> list[Call]:
    """The calls to make now for one sample's questions, as their tasks say; what is in none of them waits.

    Full: each question is asked alone, but for grades by rubrics of one's own on one answer. Compact: all claims share
    a call; everything about contexts shares one, and waits for the claims that are still being made; both directions
    between answer and reference share one. Single: claims, their verdicts and related chunks share one.
    """
    unanswered = {type(question) for question in (*pending, *in_flight)}
    groups: dict[Hashable, list[list[Question[Any]]]] = {}
    for question in pending:
        task = task_of(question)
        shared = None if task is None else task.shares(question, calls)
        if task is None or shared is None:
            groups[question] = [[question]]
        elif unanswered.isdisjoint(task.waits_for(calls)):
            candidates = groups.setdefault((task.part_in(calls), shared), [])
            room = next((call for call in candidates if _has_room(call, question)), None)
            candidates.append([question]) if room is None else room.append(question)
    return [tuple(call) for candidates in groups.values() for call in candidates]


def _has_room(call: Sequence[Question[Any]], question: Question[Any]) -> bool:
    tasks = [(each, task) for each in (*call, question) if (task := task_of(each)) is not None]
    mine = tasks[-1][1]
    if sum(task.size(each) for each, task in tasks) > mine.most:
        return False
    return not any(type(each) is type(question) and mine.conflict(question, each) for each in call)
