"""Sends a judge's requests to its model, within its budget, in the manner that the model supports, and counts usage."""

from __future__ import annotations

import inspect
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import tenacity
from langchain_core.language_models import BaseChatModel
from langchain_core.rate_limiters import BaseRateLimiter, InMemoryRateLimiter
from pydantic_core import to_json

from mlflow_ragmetrics.core.safe_text import said_in
from mlflow_ragmetrics.engine.program import ChargesCaller, charge, warn_caller
from mlflow_ragmetrics.engine.threads import ThreadTimeoutError, pause, run_in_thread
from mlflow_ragmetrics.errors import BudgetExceededError, JudgeError, JudgeReplyError
from mlflow_ragmetrics.judges.chat import failures
from mlflow_ragmetrics.judges.chat.judge_options import JudgeOptions
from mlflow_ragmetrics.judges.chat.reply import (
    ChatMessage,
    Reply,
    most_tokens_in,
    read_reply,
    reply_in_error,
    tokens_in,
)

_STEADY = 5.0
_PROBE = 2.0  # seconds between requests that try whether the model answers again


class Breaker:
    """Opens after the same failure several times in a row; while it is open, requests fail at once, fatally.

    An occasional request still passes, and its success closes the breaker. If the model has answered before, failures
    must last several seconds first, unless the quota is exhausted. ``opened``: the error of other requests.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._kind: failures.Kind | None = None
        self._failures = 0
        self._began = 0.0
        self.has_answered = False
        self.opened: JudgeError | None = None
        self._probe_at = 0.0
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise the error while the breaker is open, except for an occasional request."""
        with self._lock:
            if self.opened is None:
                return
            if time.monotonic() < self._probe_at:
                raise self.opened
            self._probe_at = time.monotonic() + _PROBE

    def succeeded(self) -> None:
        """Record a reply."""
        with self._lock:
            self._kind = self.opened = None
            self.has_answered = True

    def failed(self, error: BaseException) -> None:
        """Record a failed request; raise if the breaker is open."""
        kind = failures.kind_of(error)
        with self._lock:
            if kind is None:
                return
            if kind != self._kind:
                self._kind, self._failures, self._began = kind, 0, time.monotonic()
            self._failures += 1
            seconds = max(kind.seconds, _STEADY) if self.has_answered and kind is not failures.QUOTA else kind.seconds
            is_enough = self._failures >= kind.failures and time.monotonic() - self._began >= seconds
            if self.opened is None and not is_enough:
                return
            message = f"{self._name}: {kind.message}; {self._failures} requests in a row failed, and no more are sent"
            self.opened = JudgeError(f"{message}; earlier answers are kept", fatal=True, code=kind.code)
            self._probe_at = time.monotonic() + _PROBE
            raise self.opened from None


_MINUTE = 60.0


class TokenLimiter:
    """Limits the tokens sent in any 60 seconds to ``tokens_per_minute``.

    A request larger than the limit passes alone. ``hold`` pauses all requests, as ``Retry-After`` asks.
    """

    def __init__(self, tokens_per_minute: float | None = None, *, now: Callable[[], float] = time.monotonic) -> None:
        self.tokens = tokens_per_minute
        self._now = now
        self._passed: list[tuple[float, int]] = []
        self._held_until = 0.0
        self._lock = threading.Lock()

    def enter(self, tokens: int) -> float:
        """Seconds to wait before a request of ``tokens`` tokens; 0.0 counts it, and you may send it now."""
        with self._lock:
            now = self._now()
            self._passed = [(passed_at, spent) for passed_at, spent in self._passed if passed_at > now - _MINUTE]
            wait = self._held_until - now
            if self.tokens is not None:
                if self._passed and sum(spent for _, spent in self._passed) + tokens > self.tokens:
                    wait = max(wait, self._passed[0][0] + _MINUTE - now)
                if wait <= 0:
                    self._passed.append((now, tokens))
            return max(0.0, wait)

    def hold(self, seconds: float) -> None:
        """Let nothing pass for ``seconds`` from now."""
        with self._lock:
            self._held_until = max(self._held_until, self._now() + seconds)


def sendable(messages: Sequence[ChatMessage], features: Set[str]) -> list[ChatMessage]:
    """Return the messages without lone surrogates; without a system role, merge that turn into the user's."""
    clean = [(role, text.encode("utf-8", "replace").decode()) for role, text in messages]
    if "system" in features or len(clean) < 2 or clean[0][0] != "system":
        return clean
    return [(clean[1][0], f"{clean[0][1]}\n\n{clean[1][1]}"), *clean[2:]]


_OLLAMA_NAMES = {"max_tokens": "num_predict", "temperature": "temperature", "seed": "seed"}
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict")
_USUAL_MOST_TOKENS = 1000
_SMALLEST_WINDOW = 4096
_CANNOT = (TypeError, ValueError, RuntimeError, AttributeError, ImportError, LookupError)


def without(model: Any, field: str) -> Any:
    """Return the model with ``field`` set to ``None``; unchanged if it has no such field."""
    return model if getattr(model, field, None) is None else model.model_copy(update={field: None})


def with_structure(model: Any, schema: Mapping[str, Any]) -> Any:
    """Return the model bound to the schema, without LangChain's parser; unchanged if it cannot be bound."""
    try:
        accepted = inspect.signature(model.with_structured_output).parameters
        strict = {"strict": True} if "strict" in accepted else {}
        first = getattr(model.with_structured_output(dict(schema), **strict), "first", None)
    except _CANNOT:
        return model
    return first if hasattr(first, "bound") and hasattr(first, "invoke") else model


class JudgeModel:
    """A chat model and its call arguments: the limits of prompts and replies, and how to call it.

    ``longest_reply`` is the token limit of replies, ``window`` the longest prompt in tokens; both are ``None`` if the
    model does not report them.
    """

    def __init__(self, model: Any, arguments: Mapping[str, Any]) -> None:
        self._model = model
        fields = type(model).model_fields if isinstance(model, BaseChatModel) else {}
        self._is_ollama = {"num_ctx", "num_predict"} <= fields.keys()
        window = getattr(model, "num_ctx", None) or (getattr(model, "profile", None) or {}).get("max_input_tokens")
        self.window: int | None = window if isinstance(window, int) and window > 0 else None
        self._made: dict[tuple[object, ...], Any] = {}
        self._window = _SMALLEST_WINDOW
        self.longest_reply = _limit_in(arguments) or _limit_in({name: getattr(model, name, None) for name in _LIMITS})

    def most_tokens(self, arguments: Mapping[str, Any]) -> int:
        """Return the most tokens that a reply to this call may have, or the usual number without a limit."""
        return _limit_in(arguments) or self.longest_reply or _USUAL_MOST_TOKENS

    def for_call(
        self,
        features: Set[str],
        messages: Sequence[ChatMessage],
        schema: Mapping[str, Any],
        arguments: Mapping[str, Any],
    ) -> tuple[Any, dict[str, Any]]:
        """Return the model to call and its arguments.

        Ollama takes its options as fields and silently truncates long prompts. The context window therefore doubles as
        needed. It never shrinks, because Ollama reloads the model whenever the window changes.
        """
        has_temperature, is_structured = "temperature" in features, "structured" in features
        sent = {name: value for name, value in arguments.items() if has_temperature or name != "temperature"}
        settings: dict[str, Any] = {}
        if self._is_ollama:
            settings = {field: sent.pop(name) for name, field in _OLLAMA_NAMES.items() if name in sent}
            if self._model.num_ctx is None:
                wanted = most_tokens_in(messages) + self.most_tokens(arguments)
                while self._window < wanted:
                    self._window *= 2
                settings["num_ctx"] = self._window
        key = (to_json(schema) if is_structured else b"", has_temperature, *settings.items())
        if key not in self._made:
            model = self._model if has_temperature else without(self._model, "temperature")
            model = model.model_copy(update=settings) if settings else model
            self._made[key] = with_structure(model, schema) if is_structured else model
        return self._made[key], sent


def _limit_in(settings: Mapping[str, Any]) -> int | None:
    limits = [settings.get(name) for name in _LIMITS]
    return next((limit for limit in limits if isinstance(limit, int) and limit > 0), None)


@contextmanager
def untraced() -> Iterator[None]:
    """Disable MLflow and LangSmith tracing in this block and thread, if they are loaded."""
    with ExitStack() as stack:
        if "langsmith" in sys.modules:
            from langsmith import tracing_context

            stack.enter_context(tracing_context(enabled=False))
        if "mlflow" in sys.modules:
            import mlflow

            stack.enter_context(mlflow.tracing.context(enabled=False))
        yield


_PATIENCE = 1.0
_LEAST_SHARE = 20  # a count below a twentieth of the estimate contradicts the text
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
            while not self._covers([*self._open, *self._lost, request]):
                if not self._open or not self._covers([*self._lost, request]):
                    limit = f"max_cost={self.options.max_cost} is reached, or one more call could exceed it"
                    raise self._exceeded(limit)
                self._changed.wait(_PATIENCE)
            if self.options.max_calls is not None and self._counts["calls"] >= self.options.max_calls:
                raise self._exceeded(f"max_calls={self.options.max_calls} is reached")
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

    def answered(self, request: Request, reply: Reply, prompt: int) -> None:
        """Count the tokens of a reply to ``prompt`` tokens instead of the request's highest possible cost.

        If the provider's counts are missing or cannot be true, they are estimated.
        """
        reported, output, cached = (reply.tokens.get(name, 0) for name in ("input", "output", "cached"))
        reported += cached if cached > reported else 0  # some providers leave cached tokens out of their input
        received = tokens_in(reply.text)
        is_credible = reported * _LEAST_SHARE >= prompt and output * _LEAST_SHARE >= received
        counts = {"cached_tokens": cached, "estimated_calls": int(not is_credible)}
        counts["prompt_tokens"] = prompt = reported if is_credible else max(reported, prompt)
        counts["completion_tokens"] = output = output if is_credible else max(output, received)
        with self._changed:
            self._open.pop(request, None)
            self._underestimated = max(self._underestimated, prompt / max(1, request.prompt))
            self._counts.update(counts)
            self._changed.notify_all()
        cost = {} if self.prices is None else {"cost": self.prices.cost(prompt, output, cached)}
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


class ModelClient:
    """Gets replies from ``model``, a LangChain chat model, called with ``call_options``.

    Safe to use from many threads. ``usage`` counts requests and tokens. Requests are repeated after HTTP 429, 5xx and
    the other ``codes`` of the options, timeouts, connection errors and broken replies. Features that the model rejects
    (structured output, a system turn, a temperature) are left out of later requests. A ``Breaker`` stops repeated
    failures.
    """

    def __init__(self, name: str, model: Any, call_options: Mapping[str, Any], options: JudgeOptions) -> None:
        self.name = name
        self.usage = Usage(name, options)
        self._request_limiters: list[BaseRateLimiter] = []
        if isinstance(model, BaseChatModel) and model.rate_limiter is not None:
            # waiting for the model's own limiter inside a call would look like a slow reply
            self._request_limiters.append(model.rate_limiter)
            model = without(model, "rate_limiter")
        if options.requests_per_minute is not None:
            self._request_limiters.append(InMemoryRateLimiter(requests_per_second=options.requests_per_minute / 60))
        self.model = JudgeModel(model, call_options)
        self._call_options, self._options = call_options, options
        self._features: Set[str] = failures.FEATURES.keys() - (set() if options.structured else {"structured"})
        self._limiter = TokenLimiter(options.tokens_per_minute)
        self._breaker = Breaker(name)
        self._retries = options.retries
        self._warned = False

    def reply(self, messages: Sequence[ChatMessage], schema: Mapping[str, Any], **options: Any) -> Reply:
        """Return the reply to ``messages``; raise ``JudgeError`` without one, fatal if retrying cannot help."""
        window = self.model.window
        prompt = sum(tokens_in(text) for _, text in messages)
        if window is not None and prompt > window:
            message = f"{self.name}: the question has about {prompt:,} tokens, but the model accepts {window:,}; use a"
            raise JudgeReplyError(f"{message} model with a larger window, or shorter chunks", code="too_long")
        attempts = self._retries.attempts
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(attempts),
            retry=tenacity.retry_if_exception(self._is_worth_repeating),
            wait=self._wait_after,
            before_sleep=self._before_retry,
            sleep=self._sleep,
            reraise=True,
        )
        try:
            return retrying(self._attempt, messages, schema, options)
        except Exception as error:  # third-party clients may raise anything
            raise failures.failure_of(self.name, error, attempts if self._is_worth_repeating(error) else 1) from None

    def _is_worth_repeating(self, error: BaseException) -> bool:
        """Whether another attempt may succeed."""
        status, kind = failures.status_of(error), failures.kind_of(error)
        if isinstance(error, JudgeError) or kind is failures.QUOTA or status in failures.REFUSED_KEYS:
            return kind is failures.TIMEOUT
        if status is not None and (failures.retry_after(error) or 0.0) > self._retries.longest_ask:
            return False
        is_client_error = self._retries.on_client_errors and status is not None and 400 <= status < 500
        is_transient = kind in failures.TRANSIENT or status in self._retries.codes
        is_away = status in failures.ABSENT and self._breaker.has_answered
        return is_transient or is_client_error or is_away

    def _wait_after(self, state: Any) -> float:
        """Return the seconds to wait after a failed attempt: as requested, else exponential."""
        retries, requested = self._retries, failures.retry_after(state.outcome.exception())
        grown = min(retries.longest, retries.initial * retries.multiplier ** (state.attempt_number - 1))
        return grown * random.uniform(0.5, 1.0) if requested is None else requested

    def _attempt(self, messages: Sequence[ChatMessage], schema: Mapping[str, Any], options: Mapping[str, Any]) -> Reply:
        """Send a request; if the model rejects a feature, send it again without that feature.

        If that succeeds and the error named the feature, later requests omit it too.
        """
        features = self._features
        rejections: dict[tuple[str, bool], Exception] = {}
        while True:
            self._breaker.check()
            try:
                reply = self._sent(features, messages, schema, {**self._call_options, **options})
            except Exception as error:
                rejected = failures.rejected_feature(error, features)
                if rejected is None:
                    self._breaker.failed(error)
                    raise
                features = features - {rejected[0]}
                rejections[rejected] = error
                continue
            self._features = self._features - {name for name, is_stated in rejections if is_stated}
            self._breaker.succeeded()
            for (name, is_stated), rejection in rejections.items():
                often = "is left out of later requests" if is_stated else "was left out of a request"
                warn_caller(f"{self.name}: {failures.FEATURES[name]} {often}: {said_in(rejection)}")
            return reply

    def _sent(
        self, features: Set[str], messages: Sequence[ChatMessage], schema: Mapping[str, Any], options: Mapping[str, Any]
    ) -> Reply:
        messages = sendable(messages, features)
        prompt = sum(tokens_in(text) for _, text in messages)
        for limiter in self._request_limiters:
            while not limiter.acquire(blocking=False):
                self._sleep(_SLICE / 10)
        while (seconds := self._limiter.enter(prompt)) > 0:
            self._sleep(seconds)
        priced = most_tokens_in(messages) + tokens_in(to_json(schema).decode())  # the schema is charged too
        request = self.usage.begin_call(priced, self.model.most_tokens(options))
        try:
            model, arguments = self.model.for_call(features, messages, schema, options)

            def call() -> Any:
                with nullcontext() if self._options.trace else untraced():
                    return model.invoke(messages, **arguments)

            human_text = next((text for role, text in messages if role == "human"), "")
            reply = read_reply(run_in_thread(call, self._options.timeout), schema["properties"], human_text)
        except ThreadTimeoutError as error:
            self.usage.end_call(request, lost=True)
            raise JudgeError(str(error), code="timeout") from None
        except BaseException as error:
            ended = reply_in_error(error, schema["properties"])
            if ended is None:
                self.usage.end_call(request, lost=failures.may_be_charged(error))
                raise
            reply = ended
        self.usage.answered(request, reply, prompt)
        reported = reply.tokens.get("input", 0)
        if prompt > _LONG_PROMPT and 0 < reported < _TRUNCATED * prompt and not self._warned:
            self._warned = True
            message = f"{self.name}: the server counted {reported:,} of about {prompt:,} prompt tokens; it may truncate"
            warn_caller(f"{message} prompts silently: raise its context window")
        return reply

    def _sleep(self, seconds: float) -> None:
        """Wait before another attempt; raise if the run ended or the breaker has opened."""
        while seconds > 0:
            if (opened := self._breaker.opened) is not None:  # read once: another thread may close it
                raise opened
            pause(min(seconds, _SLICE))
            seconds -= _SLICE

    def _before_retry(self, state: Any) -> None:
        error = state.outcome.exception()
        self.usage.add(retries=1)
        if failures.status_of(error) == 429 or failures.retry_after(error) is not None:
            self._limiter.hold(state.upcoming_sleep)
