"""Sends a judge's requests to its model, within its budget, and counts usage."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.rate_limiters import InMemoryRateLimiter
from pydantic_core import to_json

from mlflow_ragmetrics.core.safe_text import said_in
from mlflow_ragmetrics.engine.program import ChargesCaller, charge, warn_caller
from mlflow_ragmetrics.engine.threads import ThreadTimeoutError, pause, run_in_thread
from mlflow_ragmetrics.errors import BudgetExceededError, JudgeError, JudgeReplyError
from mlflow_ragmetrics.judges.chat.capabilities import (
    LEFT_OUT,
    ChatMessage,
    JudgeModel,
    Manner,
    untraced,
    without,
)
from mlflow_ragmetrics.judges.chat.judge_options import JudgeOptions
from mlflow_ragmetrics.judges.chat.reply import Reply, read_reply, reply_in_error, tokens_in
from mlflow_ragmetrics.judges.chat.retry import (
    Breaker,
    Retry,
    TokenLimiter,
    failure_of,
    may_be_charged,
    retry_after,
    status_of,
)

_PATIENCE = 1.0


_COUNTS = (
    "calls", "prompt_tokens", "completion_tokens", "cached_tokens", "estimated_calls", "retries", "repairs",
)  # fmt: skip


@dataclass(eq=False)
class Request:
    """An unanswered request and the most tokens that it may cost."""

    prompt: int
    completion: int


class Usage(ChargesCaller):
    """Counts the requests and tokens of ``judge``, within its budget; safe to use from many threads.

    ``calls`` counts requests sent, answered or not. ``estimated_calls`` counts those without token counts from the
    provider; their tokens are estimated as a quarter of the characters. ``options`` has the prices and the
    limits on what the judge may spend over its life.
    """

    def __init__(self, judge: str, options: JudgeOptions) -> None:
        self.judge, self.options, self.prices = judge, options, options.prices
        self._counts = Counter(dict.fromkeys(_COUNTS, 0))
        self._open: dict[Request, None] = {}
        self._lost: dict[Request, None] = {}
        self._underestimated = 1.0
        self._changed = threading.Condition()

    def add(self, **counts: int) -> None:
        """Add to the named counts."""
        with self._changed:
            self._counts.update(counts)
        charge(counts)

    def snapshot(self) -> dict[str, float]:
        """Return all counts by name, and ``cost`` if prices are known."""
        with self._changed:
            counts: dict[str, float] = dict(self._counts)
            cost = self._cost()
        return counts if cost is None else {**counts, "cost": cost}

    def begin_call(self, prompt_tokens: int, most_tokens: int) -> Request:
        """Count a request before it is sent; raise ``BudgetExceededError`` if the budget does not cover it.

        Open requests and lost replies count at their highest possible cost. If only open requests are in the way, wait
        for their answers.
        """
        request = Request(prompt_tokens, most_tokens)
        with self._changed:
            while True:
                if self.options.max_calls is not None and self._counts["calls"] >= self.options.max_calls:
                    raise self._exceeded(f"max_calls={self.options.max_calls} is reached")
                if self._covers([*self._open, *self._lost, request]):
                    break
                if not self._open or not self._covers([*self._lost, request]):
                    limit = f"max_cost={self.options.max_cost} is reached, or one more call could exceed it"
                    raise self._exceeded(limit)
                self._changed.wait(_PATIENCE)
            self._counts["calls"] += 1
            self._open[request] = None
        charge({"calls": 1})
        return request

    def end_call(self, request: Request, *, lost: bool = False) -> None:
        """End a request; a ``lost`` one brought no reply but may be charged."""
        with self._changed:
            if self._open.pop(request, request) is None and lost:
                self._lost[request] = None
            self._changed.notify_all()

    def answered(self, request: Request, *, prompt: int, completion: int, cached: int, estimated: bool) -> None:
        """Count the actual tokens of a request instead of its highest possible cost."""
        counts = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "cached_tokens": cached,
            "estimated_calls": int(estimated),
        }
        with self._changed:
            self._open.pop(request, None)
            self._underestimated = max(self._underestimated, prompt / max(1, request.prompt))
            self._counts.update(counts)
            self._changed.notify_all()
        cost = {} if self.prices is None else {"cost": self.prices.cost(prompt, completion, cached)}
        charge({**counts, **cost})

    def _covers(self, unanswered: list[Request]) -> bool:
        """Whether the budget covers these requests at their highest possible cost."""
        if self.prices is None or self.options.max_cost is None:
            return True
        prompts = self._underestimated * sum(request.prompt for request in unanswered)
        most = self.prices.cost(prompts, sum(request.completion for request in unanswered))
        return (self._cost() or 0.0) + most <= self.options.max_cost

    def _exceeded(self, limit: str) -> BudgetExceededError:
        message = f"{self.judge}: {limit}; earlier answers are kept, and a higher limit lets you continue"
        return BudgetExceededError(message, fatal=True, code="budget")

    def _cost(self) -> float | None:
        return None if self.prices is None else self.prices.cost(*map(self._counts.__getitem__, _COUNTS[1:4]))


_SLICE = 0.25
_LONG_PROMPT = 1000
_TRUNCATED = 0.4
_LEAST_SHARE = 20  # a count below a twentieth of the estimate contradicts the text


class ModelClient:
    """Gets replies from ``model``, a LangChain chat model, called with ``call_options``.

    Safe to use from many threads. ``usage`` counts requests and tokens. Features that the model rejects (structured
    output, a system turn, a temperature) are left out of later requests. A ``Breaker`` stops repeated failures.
    """

    def __init__(self, name: str, model: Any, call_options: Mapping[str, Any], options: JudgeOptions) -> None:
        self.name = name
        self.usage = Usage(name, options)
        # waiting for the model's own limiter inside a call would look like a slow reply
        own_limiter = model.rate_limiter if isinstance(model, BaseChatModel) else None
        self._request_limiters = [] if own_limiter is None else [own_limiter]
        self.model = JudgeModel(model if own_limiter is None else without(model, "rate_limiter"), call_options)
        self._call_options = call_options
        self._timeout, self._trace = options.timeout, options.trace
        self._manner = Manner(structured=options.structured)
        if options.requests_per_minute is not None:
            self._request_limiters.append(InMemoryRateLimiter(requests_per_second=options.requests_per_minute / 60))
        self._limiter = TokenLimiter(options.tokens_per_minute)
        self._breaker = Breaker(name)
        self._retry = Retry(options.retries, sleep=self._sleep, passes=self._breaker.is_passing)
        self._warned = False

    def reply(self, messages: Sequence[ChatMessage], schema: Mapping[str, Any], **options: Any) -> Reply:
        """Return the reply to ``messages``; raise ``JudgeError`` without one, fatal if retrying cannot help."""
        window = self.model.window
        prompt = sum(tokens_in(text) for _, text in messages)
        if window is not None and prompt > window:
            message = f"{self.name}: the question has about {prompt:,} tokens, but the model accepts {window:,}; use a"
            raise JudgeReplyError(f"{message} model with a larger window, or shorter chunks", code="too_long")
        try:
            return self._retry.run(lambda: self._attempt(messages, schema, options), before_retry=self._before_retry)
        except Exception as error:  # third-party clients may raise anything
            attempts = self._retry.options.attempts if self._retry.worth_it(error) else 1
            raise failure_of(self.name, error, attempts) from None

    def _attempt(self, messages: Sequence[ChatMessage], schema: Mapping[str, Any], options: Mapping[str, Any]) -> Reply:
        """Send a request; if the model rejects a feature, send it again without that feature.

        If that succeeds and the error named the feature, later requests omit it too.
        """
        manner = self._manner
        rejections: dict[tuple[str, bool], Exception] = {}
        while True:
            self._breaker.check()
            try:
                reply = self._sent(manner, messages, schema, {**self._call_options, **options})
            except Exception as error:
                rejected = manner.after(error)
                if rejected is None:
                    self._breaker.failed(error)
                    raise
                manner = replace(manner, **{rejected[0]: False})
                rejections[rejected] = error
                continue
            self._manner = replace(self._manner, **{name: False for name, is_stated in rejections if is_stated})
            self._breaker.succeeded()
            for (name, is_stated), rejection in rejections.items():
                often = "is left out of later requests" if is_stated else "was left out of a request"
                warn_caller(f"{self.name}: {LEFT_OUT[name]} {often}: {said_in(rejection)}")
            return reply

    def _sent(
        self, manner: Manner, messages: Sequence[ChatMessage], schema: Mapping[str, Any], arguments: Mapping[str, Any]
    ) -> Reply:
        said = manner.messages(messages)
        prompt = sum(tokens_in(text) for _, text in said)
        self._wait_for_turn(prompt)
        # other alphabets have fewer characters per token, and the schema is charged too
        priced = sum(len(text.encode()) for _, text in said) // 3 + tokens_in(to_json(schema).decode())
        request = self.usage.begin_call(priced, self.model.most_tokens(arguments))
        try:
            reply = self._received(*self.model.for_call(manner, said, schema, arguments), said, schema["properties"])
        except BaseException as error:
            self.usage.end_call(request, lost=may_be_charged(error))
            raise
        self._count(request, reply, prompt)
        return reply

    def _received(
        self, model: Any, arguments: Mapping[str, Any], messages: Sequence[ChatMessage], keys: Collection[str]
    ) -> Reply:
        human_text = next((text for role, text in messages if role == "human"), "")

        def call() -> Any:
            with nullcontext() if self._trace else untraced():
                return model.invoke(list(messages), **arguments)

        try:
            return read_reply(run_in_thread(call, self._timeout), keys, human_text)
        except ThreadTimeoutError as error:
            raise JudgeError(str(error), code="timeout") from None
        except Exception as error:
            ended = reply_in_error(error, keys)
            if ended is None:
                raise
            return ended

    def _sleep(self, seconds: float) -> None:
        """Wait before another attempt; raise if the run ended or the breaker has opened."""
        while seconds > 0:
            if (opened := self._breaker.opened) is not None:  # read once: another thread may close it
                raise opened
            pause(min(seconds, _SLICE))
            seconds -= _SLICE

    def _wait_for_turn(self, tokens: int) -> None:
        for limiter in self._request_limiters:
            while not limiter.acquire(blocking=False):
                self._sleep(_SLICE / 10)
        while (seconds := self._limiter.enter(tokens)) > 0:
            self._sleep(seconds)

    def _before_retry(self, error: BaseException, seconds: float) -> None:
        self.usage.add(retries=1)
        if status_of(error) == 429 or retry_after(error) is not None:
            self._limiter.hold(seconds)

    def _count(self, request: Request, reply: Reply, prompt: int) -> None:
        received = tokens_in(reply.text)
        reported, output = reply.tokens.get("input", 0), reply.tokens.get("output", 0)
        is_credible = reported * _LEAST_SHARE >= prompt and output * _LEAST_SHARE >= received
        self.usage.answered(
            request,
            prompt=reported if is_credible else max(reported, prompt),
            completion=output if is_credible else max(output, received),
            cached=reply.tokens.get("cached", 0),
            estimated=not is_credible,
        )
        if prompt > _LONG_PROMPT and 0 < reported < _TRUNCATED * prompt and not self._warned:
            self._warned = True
            message = f"{self.name}: the server counted {reported:,} of about {prompt:,} prompt tokens; it may truncate"
            warn_caller(f"{message} prompts silently: raise its context window")
