"""What stands between a judge and its model: limits, attempts, budget, and the request itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mlflow_ragmetrics.engine.threads import ThreadTimeoutError, run_in_thread
from mlflow_ragmetrics.errors import JudgeError
from mlflow_ragmetrics.judges.chat.limits import Budget, RateLimiter, Usage, tokens_in
from mlflow_ragmetrics.judges.chat.message import ChatMessage
from mlflow_ragmetrics.judges.chat.options import JudgeOptions
from mlflow_ragmetrics.judges.chat.reply import Reply, read_reply, reply_in_error
from mlflow_ragmetrics.judges.chat.retry import Retry, failure_of, status_of
from mlflow_ragmetrics.judges.chat.untraced import untraced

__all__ = ["ModelClient"]

_UNSUITED = {400, 404, 415, 422, 501}
_UNKNOWN_ARGUMENT = (TypeError, NotImplementedError, ValueError)


class ModelClient:
    """Gets replies from ``model``, a LangChain chat model, with ``call_options`` as arguments of each call.

    Safe in many threads at once. ``usage`` counts what it cost. A model that rejects structured output is asked
    without it, from then on.
    """

    def __init__(self, name: str, model: Any, call_options: Mapping[str, Any], options: JudgeOptions) -> None:
        self.name = name
        self.usage = Usage(options.prices)
        self._model = model
        self._call_options = call_options
        self._timeout, self._trace, self._structured = options.timeout, options.trace, options.structured
        self._bound: dict[str, Any] = {}
        self._limiter = RateLimiter(options.requests_per_minute, options.tokens_per_minute)
        self._retry = Retry(options.retries)
        self._budget = Budget(name, options.max_calls, options.max_cost)

    def reply(self, messages: Sequence[ChatMessage], schema: Mapping[str, Any], **options: Any) -> Reply:
        """The reply to ``messages``; a ``JudgeError`` where none came, fatal where none ever will."""
        prompt = sum(tokens_in(text) for _, text in messages)

        def attempt() -> Reply:
            self._wait_for_turn(prompt)
            self.usage.begin_call(self._budget, prompt)
            try:
                reply = self._received(messages, schema, options)
                self._count(reply, prompt)
                return reply
            finally:
                self.usage.end_call(prompt)

        try:
            return self._retry.run(attempt, before_retry=self._before_retry)
        except Exception as error:  # the client is somebody else's and may fail in any way
            raise self._failure(error) from None

    def _received(
        self, messages: Sequence[ChatMessage], schema: Mapping[str, Any], options: Mapping[str, Any]
    ) -> Reply:
        keys = schema["properties"]
        try:
            return read_reply(self._send(messages, schema, **options), keys)
        except Exception as error:
            ended = reply_in_error(error, keys)
            if ended is None:
                raise
            return ended

    def _send(self, messages: Sequence[ChatMessage], schema: Mapping[str, Any], **options: Any) -> Any:
        """The model's message; raises whatever the client raises, or the ``JudgeError`` of a timeout."""
        arguments = {**self._call_options, **options}
        bound = self._bound_to(schema) if self._structured else None
        if bound is None:
            return self._invoke(self._model, messages, arguments)
        try:
            return self._invoke(bound, messages, arguments)
        except Exception as error:
            if status_of(error) not in _UNSUITED:
                raise
        message = self._invoke(self._model, messages, arguments)
        self._structured = False
        return message

    def _invoke(self, model: Any, messages: Sequence[ChatMessage], arguments: Mapping[str, Any]) -> Any:
        config = None if self._trace else {"callbacks": [], "run_name": "ragmetrics judge"}
        call = partial(model.invoke, list(messages), config=config, **arguments)
        try:
            return run_in_thread(call if self._trace else partial(_untraced, call), self._timeout)
        except ThreadTimeoutError as error:
            raise JudgeError(str(error), code="timeout") from None

    def _bound_to(self, schema: Mapping[str, Any]) -> Any:
        key = ",".join(schema["properties"])
        if key not in self._bound:
            self._bound[key] = _with_structure(self._model, schema)
        return self._bound[key]

    def _failure(self, error: Exception) -> JudgeError:
        attempts = self._retry.options.attempts if self._retry.worth_it(error) else 1
        if isinstance(error, JudgeError) and error.code in ("timeout", "interrupted"):
            tries = f" in {attempts} attempts" if attempts > 1 else ""
            return JudgeError(f"{self.name}: {error}{tries}", code=error.code)
        return failure_of(self.name, error, attempts)

    def _wait_for_turn(self, tokens: int) -> None:
        while (seconds := self._limiter.enter(tokens)) > 0:
            if self._retry.sleep(seconds):
                raise JudgeError("the run was ended before the judge was asked", code="interrupted")

    def _before_retry(self, error: BaseException, seconds: float) -> None:
        self.usage.add(retries=1)
        if self._retry.asks_to_wait(error):
            self._limiter.hold(seconds)

    def _count(self, reply: Reply, prompt: int) -> None:
        tokens = reply.tokens
        self.usage.add(
            prompt_tokens=tokens.get("input", prompt),
            completion_tokens=tokens.get("output", tokens_in(reply.text)),
            cached_tokens=tokens.get("cached", 0),
            estimated_calls=0 if tokens else 1,
        )


def _with_structure(model: Any, schema: Mapping[str, Any]) -> Any:
    """The model bound to reply in the schema's form, without LangChain's parser behind it; ``None`` if it cannot."""
    try:
        accepted = inspect.signature(model.with_structured_output).parameters
        strict = {"strict": True} if "strict" in accepted else {}
        first = getattr(model.with_structured_output(dict(schema), **strict), "first", None)
    except _UNKNOWN_ARGUMENT:
        return None
    return first if hasattr(first, "bound") and hasattr(first, "invoke") else None


def _untraced(call: Callable[[], Any]) -> Any:
    with untraced():
        return call()
