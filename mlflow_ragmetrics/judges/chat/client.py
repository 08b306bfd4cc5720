"""What stands between a judge and its model: limits, attempts, budget, and the request itself."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from mlflow_ragmetrics.core.options import check_arguments, shown
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError
from mlflow_ragmetrics.judges.chat.isolation import run_apart
from mlflow_ragmetrics.judges.chat.limits import Budget, Gate, Prices, Usage, tokens_in
from mlflow_ragmetrics.judges.chat.reply import Reply, read_reply, reply_in_error
from mlflow_ragmetrics.judges.chat.retry import Retry, failure_of, status_of

__all__ = ["Line", "Turn", "Connection", "Terms"]

Turn = tuple[str, str]
"""Who speaks (``"system"``, ``"human"``, ``"ai"``) and what is said: a message as LangChain takes it."""

_UNSUITED = {400, 404, 415, 422, 501}
_UNKNOWN_ARGUMENT = (TypeError, NotImplementedError, ValueError)


@dataclass
class Line:
    """Sends turns to ``model``, a LangChain chat model, with ``options`` as arguments of the call.

    A model that rejects structured output is asked without it, from then on.
    """

    model: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    timeout: float | None = 60.0
    trace: bool = False
    structured: bool = True
    _bound: dict[str, Any] = field(default_factory=dict)

    def send(self, turns: Sequence[Turn], schema: Mapping[str, Any], **options: Any) -> Any:
        """The model's message; raises whatever the client raises, or the ``JudgeError`` of a timeout."""
        arguments = {**self.options, **options}
        bound = self._bound_to(schema) if self.structured else None
        if bound is None:
            return self._invoke(self.model, turns, arguments)
        try:
            return self._invoke(bound, turns, arguments)
        except Exception as error:
            if status_of(error) not in _UNSUITED:
                raise
        message = self._invoke(self.model, turns, arguments)
        self.structured = False
        return message

    def _invoke(self, model: Any, turns: Sequence[Turn], arguments: Mapping[str, Any]) -> Any:
        config = {"callbacks": [], "run_name": "ragmetrics judge"}
        call = partial(model.invoke, list(turns), config=None if self.trace else config, **arguments)
        return run_apart(call, self.timeout, trace=self.trace)

    def _bound_to(self, schema: Mapping[str, Any]) -> Any:
        key = ",".join(schema["properties"])
        if key not in self._bound:
            self._bound[key] = _with_structure(self.model, schema)
        return self._bound[key]


def _with_structure(model: Any, schema: Mapping[str, Any]) -> Any:
    """The model bound to reply in the schema's form, without LangChain's parser behind it; ``None`` if it cannot."""
    try:
        accepted = inspect.signature(model.with_structured_output).parameters
        strict = {"strict": True} if "strict" in accepted else {}
        first = getattr(model.with_structured_output(dict(schema), **strict), "first", None)
    except _UNKNOWN_ARGUMENT:
        return None
    return first if hasattr(first, "bound") and hasattr(first, "invoke") else None


_AtLeastOne = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """On which terms a model is called.

    ``timeout``: seconds that a request may take. ``attempts`` and ``retry``: how often and how patiently failed
    requests are tried again. ``requests_per_minute`` and ``tokens_per_minute``: the provider's limits. ``max_calls``
    and ``max_cost`` (dollars; needs ``prices={"input": …, "output": …}``, dollars a million tokens): where a
    ``BudgetExceededError`` ends the judge. ``trace``: let MLflow's autologging and LangSmith see the calls.
    ``structured=False``: never ask for structured output.
    """

    timeout: Annotated[float, Field(gt=0)] | None = 60.0
    attempts: _AtLeastOne | None = None
    retry: Retry | Mapping[str, Any] | None = None
    requests_per_minute: Annotated[float, Field(ge=1)] | None = None
    tokens_per_minute: Annotated[float, Field(ge=1)] | None = None
    max_calls: _AtLeastOne | None = None
    max_cost: Annotated[float, Field(ge=0)] | None = None
    prices: Prices | Mapping[str, Any] | None = None
    trace: bool = False
    structured: bool = True

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Terms:
        """Terms from keyword arguments; ``InvalidOptionError`` names what is unknown, no number or out of range."""
        return cls(**check_arguments("ChatJudge", cls, given))

    def __post_init__(self) -> None:
        if self.max_cost is not None and self.prices is None:
            message = f"max_cost={shown(self.max_cost)} needs prices={{'input': …, 'output': …}}"
            raise InvalidOptionError(message, param="max_cost")

    @property
    def retries(self) -> Retry:
        """``retry`` with ``attempts`` put in."""
        retry = self.retry if isinstance(self.retry, Retry) else Retry.of(self.retry or {})
        return retry if self.attempts is None else replace(retry, attempts=self.attempts)


class Connection:
    """Gets replies from a model, on terms; safe in many threads at once. ``usage`` counts what it cost."""

    def __init__(self, name: str, model: Any, options: Mapping[str, Any], terms: Terms) -> None:
        self.name = name
        self.usage = Usage(Prices.of(terms.prices))
        self._line = Line(model, options, terms.timeout, terms.trace, terms.structured)
        self._gate = Gate(terms.requests_per_minute, terms.tokens_per_minute)
        self._retry = terms.retries
        self._budget = Budget(name, terms.max_calls, terms.max_cost)

    def reply(self, turns: Sequence[Turn], schema: Mapping[str, Any], **options: Any) -> Reply:
        """The reply to ``turns``; a ``JudgeError`` where none came, fatal where none ever will."""
        prompt = sum(tokens_in(text) for _, text in turns)

        def attempt() -> Reply:
            self._wait_for_turn(prompt)
            self.usage.begin_call(self._budget, prompt)
            try:
                reply = self._received(turns, schema, options)
                self._count(reply, prompt)
                return reply
            finally:
                self.usage.end_call(prompt)

        try:
            return self._retry.run(attempt, before_retry=self._before_retry)
        except Exception as error:  # the client is somebody else's and may fail in any way
            raise self._failure(error) from None

    def _received(self, turns: Sequence[Turn], schema: Mapping[str, Any], options: Mapping[str, Any]) -> Reply:
        keys = schema["properties"]
        try:
            return read_reply(self._line.send(turns, schema, **options), keys)
        except Exception as error:
            ended = reply_in_error(error, keys)
            if ended is None:
                raise
            return ended

    def _failure(self, error: Exception) -> JudgeError:
        attempts = self._retry.attempts if self._retry.worth_it(error) else 1
        if isinstance(error, JudgeError) and error.code in ("timeout", "interrupted"):
            tries = f" in {attempts} attempts" if attempts > 1 else ""
            return JudgeError(f"{self.name}: {error}{tries}", code=error.code)
        return failure_of(self.name, error, attempts)

    def _wait_for_turn(self, tokens: int) -> None:
        while (seconds := self._gate.enter(tokens)) > 0:
            if self._retry.sleep(seconds):
                raise JudgeError("the run was ended before the judge was asked", code="interrupted")

    def _before_retry(self, error: BaseException, seconds: float) -> None:
        self.usage.add(retries=1)
        if self._retry.asks_to_wait(error):
            self._gate.hold(seconds)

    def _count(self, reply: Reply, prompt: int) -> None:
        tokens = reply.tokens
        self.usage.add(
            prompt_tokens=tokens.get("input", prompt),
            completion_tokens=tokens.get("output", tokens_in(reply.text)),
            cached_tokens=tokens.get("cached", 0),
            estimated_calls=0 if tokens else 1,
        )
