"""A guardrail from metrics: each answer of an agent is scored before it is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from langchain_core.messages import AIMessage, HumanMessage

from mlflow_ragmetrics.adapters.langchain.untraced import untraced_suite
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.threads import run_beside
from mlflow_ragmetrics.errors import InvalidOptionError, MissingExtraError
from mlflow_ragmetrics.rows.chat_messages import has_open_calls, sample_from_messages
from mlflow_ragmetrics.suite import Suite, SuiteLike
from mlflow_ragmetrics.text.messages import render, say

try:
    from langchain.agents.middleware import AgentMiddleware
except ImportError as error:
    raise MissingExtraError(
        "RagMetricsMiddleware needs langchain: pip install 'mlflow_ragmetrics[langchain]'."
    ) from error

_RETRIES = "ragmetrics_retries"


class RagMetricsMiddleware(AgentMiddleware):
    """For ``create_agent(middleware=[…])``: scores each answer, and says, retries or stops where it fails.

    Args:
        suite: the metrics: what ``Suite.of`` takes, such as ``"faithfulness(threshold=0.8)"``. An answer fails where a
            metric falls below its threshold.
        on_failure: ``"annotate"``: the answer goes out with its scores; ``"retry"``: the model is told why it failed
            and answers anew, at most ``retries`` times; ``"stop"``: ``instead`` goes out in its place.
        retries: how often the model answers anew.
        instead: the text in place of an answer that failed; by default a sentence in the suite's language.

    A message that calls tools is no answer and is not scored. What the tools gave is what the answer is held against.
    Each answer carries its scores: ``message.response_metadata["ragmetrics"]`` is ``{key: {"score", "passed",
    "reason"}}``. A metric that is skipped or in error fails no answer.

    Raises:
        InvalidOptionError: for an option that cannot be used, and where no metric has a threshold.
    """

    def __init__(
        self,
        suite: SuiteLike,
        *,
        on_failure: Literal["annotate", "retry", "stop"] = "annotate",
        retries: int = 1,
        instead: str | None = None,
    ) -> None:
        super().__init__()
        if on_failure not in ("annotate", "retry", "stop"):
            message = f"on_failure={on_failure!r} is not one of annotate, retry, stop"
            raise InvalidOptionError(message, param="on_failure")
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 1:
            raise InvalidOptionError(f"retries={retries!r} must be a whole number from 1", param="retries")
        self._suite = untraced_suite(Suite.of(suite))
        if on_failure != "annotate" and all(metric.threshold is None for metric in self._suite.metrics):
            message = f"on_failure={on_failure!r} needs a metric with a threshold: none of {self._suite.keys} has one"
            raise InvalidOptionError(message, param="suite")
        self._on_failure = on_failure
        self._retries = retries if on_failure == "retry" else 0
        self._instead = render(say("guardrail.instead"), self._suite.language) if instead is None else instead

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Score what the model answers to ``request`` by way of ``handler``; retry or replace it where it fails."""
        response = handler(request)
        tried = _tried(request.messages)
        while _failed(scores := self._scores(request.messages, response)) and tried < self._retries:
            tried += 1
            response = handler(self._asked_again(request, response, scores))
        return self._given(response, scores, tried)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The same where ``handler`` of ``request`` is awaited; scoring does not hold up the event loop."""
        response = await handler(request)
        tried = _tried(request.messages)
        while (
            _failed(scores := await run_beside(partial(self._scores, request.messages, response)))
            and tried < self._retries
        ):
            tried += 1
            response = await handler(self._asked_again(request, response, scores))
        return self._given(response, scores, tried)

    def _scores(self, messages: Sequence[Any], response: Any) -> Mapping[str, Score]:
        answer = _answer_of(response)
        if answer is None or has_open_calls(answer) or not str(answer.content).strip():
            return {}
        (row,) = self._suite.score_samples([sample_from_messages([*messages, answer])])
        return row.scores

    def _given(self, response: Any, scores: Mapping[str, Score], tried: int) -> Any:
        answer = _answer_of(response)
        if answer is None or not (scores or tried):
            return response
        said = {
            key: {"score": score.value, "passed": score.passed, "reason": score.error or score.reason}
            for key, score in scores.items()
        }
        noted = {"ragmetrics": said} if scores else {_RETRIES: tried}
        changed: dict[str, Any] = {"response_metadata": {**answer.response_metadata, **noted}}
        if self._on_failure == "stop" and _failed(scores):
            changed["content"] = self._instead
        place = response.result.index(answer)
        response.result[place] = answer.model_copy(update=changed)
        return response

    def _asked_again(self, request: Any, response: Any, scores: Mapping[str, Score]) -> Any:
        reasons = "; ".join(f"{key}: {score.reason}" for key, score in _failed(scores).items())
        advice = HumanMessage(render(say("guardrail.advice", reasons=reasons), self._suite.language))
        return request.override(messages=[*request.messages, _answer_of(response), advice])


def _tried(messages: Sequence[Any]) -> int:
    """How often the model was told in this turn, where it went on to ask its tools instead of answering."""
    for message in reversed(messages):
        if message.type == "human":
            break
        if _RETRIES in getattr(message, "response_metadata", ()):
            return int(message.response_metadata[_RETRIES])
    return 0


def _answer_of(response: Any) -> Any:
    return next((message for message in reversed(response.result) if isinstance(message, AIMessage)), None)


def _failed(scores: Mapping[str, Score]) -> dict[str, Score]:
    return {key: score for key, score in scores.items() if score.passed is False}
