"""A judge that is a language model (any LangChain chat model, or one named by a URI), and the plan of its cost."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_ragmetrics.core.question import (
    Call,
    Claims,
    Declined,
    Declines,
    Extraction,
    Finding,
    Grade,
    Judge,
    Outcome,
    Question,
    Rating,
    Verify,
    passages_digest,
)
from mlflow_ragmetrics.core.safe_text import redact
from mlflow_ragmetrics.engine.memory import Recent
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError, JudgeReplyError
from mlflow_ragmetrics.judges.chat.claim_tasks import decided
from mlflow_ragmetrics.judges.chat.client import ModelClient, Usage
from mlflow_ragmetrics.judges.chat.judge_options import MOST_AGREED, Calls, judge_options, priced
from mlflow_ragmetrics.judges.chat.models import UnidentifiedError, identity_of, name_of, open_model
from mlflow_ragmetrics.judges.chat.reply import ChatMessage, Reply, most_tokens_in, tokens_in
from mlflow_ragmetrics.judges.chat.tasks import (
    TASKS,
    Block,
    Instruction,
    Part,
    Prompt,
    Reading,
    Result,
    Room,
    answers_of,
    group_calls,
    request_of,
)
from mlflow_ragmetrics.text.messages import check_language

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from typing_extensions import Unpack

    from mlflow_ragmetrics.judges.chat.judge_options import JudgeKeywords


_log = logging.getLogger(__name__)
_MORE_TOKENS = 4
_ENOUGH_TOKENS = 8000  # only a model with a higher limit of its own is asked for more
_USUAL_TOKENS = 1000
_SPARE = 2  # an unused allowance costs nothing; a truncated reply is paid for twice
_TOO_MANY_TOKENS = re.compile(r"max_\w*tokens|num_predict|context|token limit", re.IGNORECASE)
_TOO_LONG = re.compile(r"context[ _](?:length|size|window)|too long|too many (?:input )?tokens|n_ctx", re.IGNORECASE)
_REFUSED = ("http_400", "http_413", "http_422")
_LONGEST_ECHO = 8000
_SHOWN = 160
_MOST_DOUBTS = 12
_REMEMBERED = 20_000


class ChatJudge(Judge):
    """Answers questions with a chat model: a LangChain ``BaseChatModel``, or a URI such as ``"openai:/gpt-4o-mini"``.

    ``language``: the language of reasons. ``options``: the fields of ``JudgeOptions``. ``calls``: ``"full"`` (at most 9
    calls per row), ``"compact"`` (at most 5), ``"single"`` (claims and their verdicts in one call) or ``"auto"`` (the
    cheapest form for most data, now ``"single"``). ``support_threshold``: a claim with at least this support (0 to 1)
    is SUPPORTED. ``prompts``: a folder of text files that replace the built-in prompts
    of the same names. ``name``: the judge's name in results. The model takes ``temperature``, ``max_tokens``, ``seed``,
    ``base_url`` and ``api_key`` (never shown or stored). Requests take ``timeout``, ``attempts``, ``retry``,
    ``requests_per_minute``, ``tokens_per_minute``, ``max_calls``, ``max_cost``, ``prices``, ``trace`` and
    ``structured``. ``InvalidOptionError`` names a wrong option. A long reply may use up to four times ``max_tokens``,
    but no more than 8,000 tokens unless ``max_tokens`` is higher. Longer replies and prompts are divided.
    """

    usage: Usage
    knows_declines = True

    def __init__(self, model: Any, *, language: str = "en", **options: Unpack[JudgeKeywords]) -> None:
        self.options = priced(judge_options(options), model)
        self.language = check_language(language)
        self.prompts = Prompts(self.options.prompts)
        self.form: Calls = MOST_AGREED if self.options.calls == "auto" else self.options.calls
        self.name = self.options.name or name_of(model)
        self.model, call_options = open_model(model, self.options)
        self._client = ModelClient(self.name, self.model, call_options, self.options)
        self.usage = self._client.usage
        limit = self._client.model.longest_reply or _USUAL_TOKENS
        self._most_tokens = max(limit, min(_MORE_TOKENS * limit, _ENOUGH_TOKENS))
        self._room = self.new_room()
        self._declines = Recent[tuple[str, str | None], Declines](_REMEMBERED)
        self.fingerprint = self._identified(call_options)

    def _identified(self, call_options: Mapping[str, Any]) -> str | None:
        try:
            identity = identity_of(self.name, self.model, {**call_options, "structured": self.options.structured})
        except UnidentifiedError as error:
            reason = "because part of the model cannot be identified"
            _log.info("%s: answers are not cached, %s: %s", self.name, reason, error)
            return None
        prompts = f"prompts={self.prompts.version}/{self.prompts.digest[:12]}"
        options = f"calls={self.form};language={self.language};support={self.options.support_threshold:g}"
        return ";".join([identity, prompts, options])

    def calls(self, pending: Sequence[Question[Any]], in_flight: Sequence[Question[Any]]) -> list[Call]:
        """Return the calls to make now for one sample's pending questions; the other questions wait.

        ``in_flight``: the sample's questions that are already being asked.
        """
        others = [self.form_of(question) for question in pending if not isinstance(question, Declined)]
        if others or any(not isinstance(question, Declined) for question in in_flight):
            return group_calls(self.form, others, in_flight)
        return [tuple(pending)] if pending else []

    def answer(self, questions: Sequence[Question[Any]]) -> list[Outcome]:
        """Return one outcome per question; a call's questions go into one message, and again if the reply is bad."""
        asked_questions = [self.form_of(question) for question in questions if not isinstance(question, Declined)]
        outcomes = answers_of(self.name, asked_questions, self._room, self.prompt_length, self._outcomes)
        for question, outcome in outcomes.items():
            self._remember_declines(question, outcome)
        for question in questions:
            if isinstance(question, Declined):
                unknown = JudgeError("no reply has said whether the answer declines")
                outcomes[question] = self._declines.get((question.answer, question.question), unknown)
        return [outcomes[question] for question in questions]

    def form_of(self, question: Question[Any]) -> Question[Any]:
        """Return the question as it is asked: claims are judged by their passages only with ``calls="single"``."""
        if isinstance(question, Claims) and self.form != "single":
            return replace(question, passages=())
        return question

    def _remember_declines(self, question: Question[Any], outcome: Outcome) -> None:
        """Keep whether an answer declines, by the replies so far; a list of claims decides over a grade."""
        word = outcome.declines if isinstance(outcome, (Extraction, Rating)) else None
        if word is not None and isinstance(question, Claims):
            self._declines[question.text, question.question] = word
        elif word is not None and isinstance(question, Grade):
            self._declines.setdefault((question.answer, question.question), word)

    def new_room(self) -> Room:
        """Return the limits of replies and prompts; a known window keeps room for a usual reply."""
        window, reply = self._client.model.window, self._client.model.longest_reply or _USUAL_TOKENS
        return Room(self.form, self._most_tokens, None if window is None else max(window // 2, window - reply))

    def prompt_length(self, questions: Sequence[Question[Any]]) -> int:
        """Return the tokens of the prompt for ``questions``, estimated high enough for any alphabet."""
        return most_tokens_in(self.messages(request_of(questions, self.form)))

    def allowances(self, needed: int) -> tuple[int | None, int]:
        """Return the token limits of the first and the second attempt; a usual reply has ``needed`` tokens.

        The first is ``None`` if the model has no limit.
        """
        limit = self._client.model.longest_reply
        return (None if limit is None else max(limit, min(_SPARE * needed, self._most_tokens))), self._most_tokens

    def messages(self, request: Part) -> list[ChatMessage]:
        """Return the messages of a request: the fixed part, then the fenced data with a reminder that it is data."""
        data = f"{fenced(request.blocks)}\n{self.prompts.texts['reminder']}"
        return [("system", self.prompts.system(request.prompts, self.language)), ("human", data)]

    def _outcomes(self, questions: Sequence[Question[Any]]) -> dict[Question[Any], Outcome]:
        try:
            return self._ask(request_of(questions, self.form), self._room.needed(questions))
        except JudgeError as error:
            if error.code in _REFUSED and _TOO_LONG.search(str(error)):
                error = JudgeReplyError(str(error), code="too_long")
            return dict.fromkeys(questions, error)

    def _ask(self, request: Part, needed: int) -> dict[Question[Any], Outcome]:
        messages = self.messages(request)
        allowed, most = self.allowances(needed)
        reply = self._reply(messages, request.reply_schema, allowed)
        results = request.results(reply.data)
        if reply.cut and _problem_in(results) and (allowed or 0) < min(most, self._most_tokens):
            allowed = most
            reply = self._reply(messages, request.reply_schema, allowed)
            results = request.results(reply.data)
        problem = _problem_in(results)
        doubts = [doubt for result in results.values() if isinstance(result, Reading) for doubt in result.doubts]
        if (problem or doubts) and not reply.refused and not reply.cut:
            self.usage.add(repairs=int(problem is not None))
            turn = self.prompts.texts["repair" if problem else "again"]
            turn = turn.replace("{problem}", problem or "; ".join(doubts[:_MOST_DOUBTS]))
            more: list[ChatMessage] = [("ai", reply.text[:_LONGEST_ECHO] or "{}"), ("human", turn)]
            try:
                reply = self._reply([*messages, *more], request.reply_schema, allowed)
                again = request.results(reply.data)
            except JudgeError:
                if problem:
                    raise
                again = results
            results = {question: _better(result, again[question]) for question, result in results.items()}
        return {question: self._outcome(result, reply) for question, result in results.items()}

    def _reply(self, messages: Sequence[ChatMessage], schema: Mapping[str, Any], allowed: int | None) -> Reply:
        """Get a reply of at most ``allowed`` tokens; if the model rejects that limit, use its own from now on."""
        limit = self._client.model.longest_reply
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
        if isinstance(result, JudgeReplyError):
            return self._failure(result, reply)
        answer, threshold = result.answer, self.options.support_threshold
        if isinstance(answer, Extraction):
            if (answer.unclaimed or answer.at_odds) and not answer.claims:
                message = f"{self.name}: two replies contain no claims, though the text makes some"
                return JudgeReplyError(message, code="claims_missing")
            findings = tuple(decided(finding, threshold) for finding in answer.findings)
            is_plain = Extraction(answer.claims, sentences=answer.sentences) == answer
            return answer.claims if is_plain else replace(answer, findings=findings)
        if isinstance(answer, tuple):
            return tuple(decided(part, threshold) if isinstance(part, Finding) else part for part in answer)
        return answer

    def _failure(self, problem: JudgeReplyError, reply: Reply) -> JudgeReplyError:
        began = redact(" ".join(reply.text.split()))[:_SHOWN]
        if reply.refused:
            return JudgeReplyError(f"{self.name} refused to answer: {began!r}", code="refused")
        if reply.cut:
            message = f"{self.name}: the reply was cut short at {self._most_tokens:,} tokens; raise max_tokens"
            return JudgeReplyError(message, code="cut_short")
        message = f"{self.name}: no usable reply in two attempts: {problem}; it began {began!r}"
        return JudgeReplyError(message, code="unusable")


def _problem_in(results: Mapping[Question[Any], Result]) -> str | None:
    return next((str(result) for result in results.values() if isinstance(result, JudgeReplyError)), None)


def _better(first: Result, second: Result) -> Result:
    """Return the better of two readings; among verdicts, replace only the doubtful ones."""
    if isinstance(first, JudgeReplyError):
        return second
    if not first.doubts or isinstance(second, JudgeReplyError):
        return first
    if isinstance(first.answer, tuple) and isinstance(second.answer, tuple):
        return Reading(tuple(new if old.at_odds else old for old, new in zip(first.answer, second.answer, strict=True)))
    return first if len(second.doubts) > len(first.doubts) else second


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


class PlanJudge(ChatJudge):
    """Replaces a ``ChatJudge``: builds the same messages and counts them in ``plan``, but sends nothing.

    A reply that would not fit counts as truncated and requested again. The answers are placeholders (a fixed number of
    claims per sentence, each supported by the first passage), so that later questions are counted too. Scores from
    them mean nothing. Use it in one thread.
    """

    def __init__(self, judge: ChatJudge, claims_a_sentence: int = FEWEST_CLAIMS) -> None:
        vars(self).update(vars(judge), knows_declines=False, fingerprint=None)
        self.plan = Plan()
        self._claims = claims_a_sentence
        self._room = self.new_room()

    def _ask(self, request: Part, needed: int) -> dict[Question[Any], Outcome]:
        prompt = sum(tokens_in(text) for _, text in self.messages(request))
        shares = [self._claims / _USUAL_CLAIMS if isinstance(question, Claims) else 1 for question in request.questions]
        usual = [TASKS[type(question)].reply(question) for question in request.questions]
        wanted = sum(share * length for share, length in zip(shares, usual, strict=True))
        wanted = round(wanted * (_BRIEF if self._claims == FEWEST_CLAIMS else _VERBOSE))
        first, most = self.allowances(needed)
        limits = [wanted] if first is None else [first, most] if first < min(wanted, most) else [first]
        prices, plan = self.usage.prices, self.plan
        plan.calls += len(limits)  # a truncated reply is requested again
        plan.prompt_tokens += len(limits) * prompt
        plan.completion_tokens += sum(min(wanted, limit) for limit in limits)
        plan.schema_tokens += len(limits) * tokens_in(json.dumps(request.reply_schema))
        if prices is not None:
            schemas = plan.schema_tokens if self._claims > FEWEST_CLAIMS else 0
            plan.cost = prices.cost(plan.prompt_tokens + schemas, plan.completion_tokens)
        if wanted > max(limits[-1], most):
            raise JudgeReplyError(f"{self.name}: the reply would be cut short", code="cut_short")
        return {question: self._placeholder(question) for question in request.questions}

    def _placeholder(self, question: Question[Any]) -> object:
        """Return an answer; if a sentence has several claims, they are longer than it."""
        answer = TASKS[type(question)].placeholder(question)
        if isinstance(question, Claims) and self._claims > 1:
            answer = tuple(f"{claim} {'-' * 16} {n}" for claim in answer for n in range(self._claims))
        if isinstance(question, Claims) and question.passages:
            findings = TASKS[Verify].placeholder(Verify(answer, question.passages))
            return Extraction(answer, (), findings, passages_digest(question.passages))
        return answer


VERSION = "6"
"""The version of the built-in prompts; it is logged and part of every cache key."""

_MARK_DIGITS = 16


class Prompts:
    """Prompt texts by name: the built-in ones; files in ``folder`` replace those of the same names.

    ``digest``: SHA-256 over all texts, 64 hex digits. ``version`` is ``"6"`` for the built-in prompts and
    ``"6+<8 hex digits>"`` if any were replaced. ``InvalidOptionError`` if the folder does not exist or has a text file
    that is not a prompt.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        replaced = {} if folder is None else _texts_in(Path(folder))
        unknown = sorted(replaced.keys() - _built_in().keys())
        if unknown:
            known = ", ".join(f"{name}.txt" for name in sorted(_built_in()))
            message = f"prompts={str(folder)!r}: {unknown[0]}.txt is not a prompt; use one of {known}"
            raise InvalidOptionError(message, param="prompts")
        self.texts = {**_built_in(), **replaced}
        self.digest = hashlib.sha256(repr(sorted(self.texts.items())).encode()).hexdigest()
        self.version = VERSION if self.texts == _built_in() else f"{VERSION}+{self.digest[:8]}"

    def system(self, prompts: Sequence[Prompt], language: str) -> str:
        """Return the fixed start of a message: the rules, then the questions, with examples in ``language``."""
        wanted = ["rules", *prompts, *(name for prompt in prompts if (name := f"{prompt}.{language}") in self.texts)]
        if "claims_form" not in prompts:
            wanted.append(f"language.{language}")
        return "\n".join(prompt.text if isinstance(prompt, Instruction) else self.texts[prompt] for prompt in wanted)


def mark_of(texts: Sequence[str]) -> str:
    """Return the fence of a message: 16 hex digits derived from its texts and found in none of them.

    It is not random, so equal questions give equal messages. No text can contain its own fence.
    """
    digest = hashlib.sha256("\x00".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
    folded = [text.lower() if text.isascii() else text.casefold() for text in texts]  # same result, much faster
    while any(digest[:_MARK_DIGITS] in text for text in folded):
        digest = hashlib.sha256(digest.encode()).hexdigest()
    return digest[:_MARK_DIGITS]


def fenced(blocks: Sequence[Block]) -> str:
    """Return the data part of a message: each text follows a line with the fence and the text's label."""
    mark = mark_of([block.text for block in blocks])
    lines = [f"[{mark} {block.label}]" + (f"\n{block.text}" if block.text else "") for block in blocks]
    return "\n".join([*lines, f"[{mark} end]"])


@lru_cache(maxsize=1)
def _built_in() -> Mapping[str, str]:
    return _texts_in(files("mlflow_ragmetrics.judges.chat") / "prompts")


def _texts_in(folder: Traversable) -> dict[str, str]:
    if not folder.is_dir():
        raise InvalidOptionError(f"prompts={str(folder)!r} is not a folder", param="prompts")
    prompts = {path.name: path for path in folder.iterdir() if path.name.endswith(".txt")}
    return {name[: -len(".txt")]: path.read_text(encoding="utf-8").strip() for name, path in prompts.items()}
