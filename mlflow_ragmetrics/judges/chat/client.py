"""What stands between a judge and its model: limits, attempts, budget, and the request itself."""

from __future__ import annotations

import asyncio
import os
import threading
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import copy_context
from functools import cached_property, partial
from typing import Any, TypeVar

from langchain_core.rate_limiters import InMemoryRateLimiter
from pydantic_core import to_json

from mlflow_ragmetrics.engine.threads import ThreadTimeoutError, pause, run_in_thread
from mlflow_ragmetrics.errors import JudgeError, JudgeReplyError
from mlflow_ragmetrics.judges.chat.capabilities import (
    OLLAMA_NAMES,
    FurtherRequests,
    Manner,
    is_ollama,
    rate_limiter_of,
    untraced_context,
    with_structure,
    without,
)
from mlflow_ragmetrics.judges.chat.failures import failure_of, may_be_charged
from mlflow_ragmetrics.judges.chat.limits import Budget, Request, TokenLimiter, Usage, tokens_in
from mlflow_ragmetrics.judges.chat.message import ChatMessage
from mlflow_ragmetrics.judges.chat.options import JudgeOptions
from mlflow_ragmetrics.judges.chat.reply import Reply, read_reply, reply_in_error
from mlflow_ragmetrics.judges.chat.retry import Breaker, Retry

T = TypeVar("T")
_LOOP_LOCK = threading.Lock()
_LOOPS: dict[int, asyncio.AbstractEventLoop] = {}

_USUAL_MOST_TOKENS = 1000
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict")
_SLICE = 0.25
_LONG_PROMPT = 1000
_TRUNCATED = 0.4
_SMALLEST_WINDOW = 4096


class ModelClient:
    """Gets replies from ``model``, a LangChain chat model, with ``call_options`` as arguments of each call.

    Safe in many threads at once. ``usage`` counts what it cost. What a model rejects (structured output, a system turn,
    a temperature) is left out from then on. A ``Breaker`` ends the asking where nothing answers.
    """

    def __init__(self, name: str, model: Any, call_options: Mapping[str, Any], options: JudgeOptions) -> None:
        self.name = name
        self.usage = Usage(options.prices)
        own_limiter = rate_limiter_of(model)
        self._request_limiters = [] if own_limiter is None else [own_limiter]
        self._model = model if own_limiter is None else without(model, "rate_limiter")
        self._call_options = call_options
        self._timeout, self._trace = options.timeout, options.trace
        self._manner = Manner(structured=options.structured)
        self._made: dict[tuple[object, ...], Any] = {}
        if options.requests_per_minute is not None:
            self._request_limiters.append(InMemoryRateLimiter(requests_per_second=options.requests_per_minute / 60))
        self._limiter = TokenLimiter(options.tokens_per_minute)
        self._breaker = Breaker(name)
        self._retry = Retry(options.retries, sleep=self._sleep)
        self._budget = Budget(name, options.max_calls, options.max_cost)
        self._warned = False
        self._is_ollama = is_ollama(model)
        self.longest_reply = longest_reply_of(model, call_options)
        self._window = _SMALLEST_WINDOW

    @cached_property
    def window(self) -> int | None:
        """The tokens of the longest prompt that the model takes, where it says so."""
        window = getattr(self._model, "num_ctx", None)
        window = window or (getattr(self._model, "profile", None) or {}).get("max_input_tokens")
        return window if isinstance(window, int) and window > 0 else None

    def reply(self, messages: Sequence[ChatMessage], schema: Mapping[str, Any], **options: Any) -> Reply:
        """The reply to ``messages``; a ``JudgeError`` where none came, fatal where none ever will."""
        self._check_window(messages)
        try:
            return self._retry.run(lambda: self._attempt(messages, schema, options), before_retry=self._before_retry)
        except Exception as error:  # the client is somebody else's and may fail in any way
            raise self._failure(error) from None

    def _attempt(self, messages: Sequence[ChatMessage], schema: Mapping[str, Any], options: Mapping[str, Any]) -> Reply:
        """One request, and others in place of it as long as the model rejects something that can be left out."""
        manner = self._manner
        while True:
            self._breaker.check()
            try:
                reply = self._sent(manner, messages, schema, {**self._call_options, **options})
            except Exception as error:
                other = manner.after(error)
                if other is None:
                    self._breaker.failed(error)
                    raise
                manner = other
                continue
            self._manner = self._manner.both(manner)
            self._breaker.succeeded()
            return reply

    def _sent(
        self, manner: Manner, messages: Sequence[ChatMessage], schema: Mapping[str, Any], arguments: Mapping[str, Any]
    ) -> Reply:
        said = manner.messages(messages)
        prompt = sum(tokens_in(text) for _, text in said)
        self._wait_for_turn(prompt)
        # written in other alphabets a token has fewer characters, and the schema is paid for too
        priced = sum(len(text.encode()) for _, text in said) // 3 + tokens_in(to_json(schema).decode())
        most = _limit_in(arguments) or self.longest_reply or _USUAL_MOST_TOKENS
        begin = partial(self.usage.begin_call, self._budget, priced, most)
        request, context = begin(), copy_context()
        further: list[Request] = []
        try:
            reply = self._received(manner, said, schema, arguments, lambda: further.append(context.run(begin)))
        except BaseException as error:
            for each in (request, *further):
                self.usage.end_call(each, lost=may_be_charged(error))
            raise
        for each in further:
            self.usage.end_call(each, lost=False)
        self._count(request, reply, prompt)
        return reply

    def _received(
        self,
        manner: Manner,
        messages: Sequence[ChatMessage],
        schema: Mapping[str, Any],
        arguments: Mapping[str, Any],
        begin_another: Callable[[], None],
    ) -> Reply:
        keys = schema["properties"]
        sent = manner.arguments(arguments)
        settings = self._settings_for(messages, sent) if self._is_ollama else {}
        if settings:
            sent = {name: value for name, value in sent.items() if name not in OLLAMA_NAMES}
        model = self._model_for(manner, schema, settings)
        config: dict[str, Any] = {"callbacks": [FurtherRequests(begin_another)]}
        if not self._trace:
            config["run_name"] = "ragmetrics judge"

        def call() -> Any:
            if manner.sync:
                return model.invoke(list(messages), config=config, **sent)
            return _awaited(model.ainvoke(list(messages), config=config, **sent))

        try:
            context = None if self._trace else untraced_context()
            return read_reply(run_in_thread(call, self._timeout, context), keys)
        except ThreadTimeoutError as error:
            raise JudgeError(str(error), code="timeout") from None
        except Exception as error:
            ended = reply_in_error(error, keys)
            if ended is None:
                raise
            return ended

    def _model_for(self, manner: Manner, schema: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
        key = (to_json(schema) if manner.structured else b"", manner, *settings.items())
        if key not in self._made:
            model = self._model if manner.temperature else without(self._model, "temperature")
            model = model.model_copy(update=settings) if settings else model
            self._made[key] = (with_structure(model, schema) or model) if manner.structured else model
        return self._made[key]

    def _settings_for(self, messages: Sequence[ChatMessage], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What Ollama's model takes as fields: the options of the call, and a context window that holds the prompt.

        Left to itself Ollama cuts long prompts short in silence. The window grows by doubling and never shrinks, as the
        model is loaded anew whenever it changes.
        """
        settings = {field: arguments[name] for name, field in OLLAMA_NAMES.items() if name in arguments}
        if self._model.num_ctx is not None:
            return settings
        most = _limit_in(arguments) or self.longest_reply or _USUAL_MOST_TOKENS
        wanted = sum(len(text.encode()) for _, text in messages) // 3 + most
        while self._window < wanted:
            self._window *= 2
        return {**settings, "num_ctx": self._window}

    def _check_window(self, messages: Sequence[ChatMessage]) -> None:
        window = self.window
        prompt = sum(tokens_in(text) for _, text in messages)
        if window is not None and prompt > window:
            message = f"{self.name}: the question has about {prompt:,} tokens and the model takes {window:,}; use one"
            raise JudgeReplyError(f"{message} with a larger window, or shorter chunks", code="too_long")

    def _failure(self, error: Exception) -> JudgeError:
        attempts = self._retry.options.attempts if self._retry.worth_it(error) else 1
        if isinstance(error, JudgeError) and error.code in ("timeout", "interrupted") and not error.fatal:
            tries = f" in {attempts} attempts" if attempts > 1 else ""
            return JudgeError(f"{self.name}: {error}{tries}", code=error.code)
        return failure_of(self.name, error, attempts)

    def _sleep(self, seconds: float) -> bool:
        """Wait before another attempt; ends at once where the run did, or where meanwhile the breaker has opened."""
        while seconds > 0:
            if self._breaker.opened is not None:
                raise self._breaker.opened
            if pause(min(seconds, _SLICE)):
                return True
            seconds -= _SLICE
        return False

    def _wait_for_turn(self, tokens: int) -> None:
        for limiter in self._request_limiters:
            while not limiter.acquire(blocking=False):
                self._wait(_SLICE / 10)
        while (seconds := self._limiter.enter(tokens)) > 0:
            self._wait(seconds)

    def _wait(self, seconds: float) -> None:
        if self._sleep(seconds):
            raise JudgeError("the run was ended before the judge was asked", code="interrupted")

    def _before_retry(self, error: BaseException, seconds: float) -> None:
        self.usage.add(retries=1)
        if self._retry.asks_to_wait(error):
            self._limiter.hold(seconds)

    def _count(self, request: Request, reply: Reply, prompt: int) -> None:
        tokens = reply.tokens
        reported = tokens.get("input", prompt)
        self.usage.answered(
            request,
            prompt=reported,
            completion=tokens.get("output", tokens_in(reply.text)),
            cached=tokens.get("cached", 0),
            estimated=not tokens,
        )
        if prompt > _LONG_PROMPT and 0 < reported < _TRUNCATED * prompt and not self._warned:
            self._warned = True
            message = f"{self.name}: the server counted {reported:,} prompt tokens where about {prompt:,} were sent; it"
            warnings.warn(f"{message} may cut prompts short in silence: raise its context window", RuntimeWarning, 2)


def longest_reply_of(model: Any, arguments: Mapping[str, Any]) -> int | None:
    """The longest reply that a call allows, in tokens; ``None`` where it sets no limit."""
    return _limit_in(arguments) or _limit_in({name: getattr(model, name, None) for name in _LIMITS})


def _limit_in(settings: Mapping[str, Any]) -> int | None:
    given = [settings.get(name) for name in _LIMITS]
    return next((limit for limit in given if isinstance(limit, int) and limit > 0), None)


def _awaited(coroutine: Coroutine[Any, Any, T]) -> T:
    """What the coroutine returns; always on the same loop, to which asynchronous clients are bound."""
    with _LOOP_LOCK:
        loop = _LOOPS.get(os.getpid())
        if loop is None:
            loop = _LOOPS[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="ragmetrics-loop", daemon=True).start()
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()
