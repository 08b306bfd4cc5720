"""A guardrail: scores each answer of an agent before it is sent."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from langchain_core.messages import AIMessage, HumanMessage

from mlflow_ragmetrics.adapters.langchain.handler import untraced_suite
from mlflow_ragmetrics.core.options import check_count
from mlflow_ragmetrics.core.safe_text import for_log, redact
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.threads import run_beside
from mlflow_ragmetrics.errors import InvalidOptionError, MissingExtraError
from mlflow_ragmetrics.judges.lexical.lexical_judge import LexicalJudge
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
_logger = logging.getLogger(__name__)


class RagMetricsMiddleware(AgentMiddleware):
    """For ``create_agent(middleware=[…])``: scores each answer, and annotates, retries or stops a failing one.

    Args:
        suite: the metrics, as ``Suite.of`` takes them, such as ``"faithfulness(threshold=0.8)"``. An answer fails if a
            metric is below its threshold.
        on_failure: ``"annotate"``: the answer is sent with its scores; ``"retry"``: the model gets the reasons and
            answers again, at most ``retries`` times; ``"stop"``: ``instead`` replaces the answer.
        retries: how often the model may answer again.
        on_exhausted: if an answer still fails after the last retry, ``"stop"`` replaces it with ``instead`` and
            ``"pass"`` sends it.
        on_judge_failure: if an answer cannot be judged, for example because the judge is down, ``"pass"`` sends it
            and ``"stop"`` replaces it with ``instead``. Both are logged.
        instead: the text that replaces a failing answer; by default a sentence in the suite's language.

    A message that calls tools is not an answer and is not scored. An answer is compared with the tool results for the
    last question, and with earlier ones if it is based on them. Each answer carries its scores:
    ``message.response_metadata["ragmetrics"]`` is ``{key: {"status", "score", "passed", "reason"}}``. A skipped metric
    does not fail an answer.

    Judging starts when the answer is complete. A caller that streams tokens (``stream_mode="messages"``) shows them
    earlier. To hide stopped answers, ``invoke`` the agent, or stream ``"updates"`` or ``"values"``.

    Raises:
        InvalidOptionError: if an option cannot be used, if no metric has a threshold, or for ``"retry"`` or ``"stop"``
            with the offline judge, which marks good paraphrases as unsupported.
    """

    def __init__(
        self,
        suite: SuiteLike,
        *,
        on_failure: Literal["annotate", "retry", "stop"] = "annotate",
        retries: int = 1,
        on_exhausted: Literal["pass", "stop"] = "stop",
        on_judge_failure: Literal["pass", "stop"] = "pass",
        instead: str | None = None,
    ) -> None:
        super().__init__()
        given = {"on_failure": on_failure, "on_exhausted": on_exhausted, "on_judge_failure": on_judge_failure}
        for name, value in given.items():
            choices = ("annotate", "retry", "stop") if name == "on_failure" else ("pass", "stop")
            if value not in choices:
                raise InvalidOptionError(f"{name}={value!r} is not one of {', '.join(choices)}", param=name)
        check_count("retries", retries)
        self._suite = untraced_suite(Suite.of(suite))
        if on_failure != "annotate":
            _check_suite(self._suite, f"on_failure={on_failure!r}")
        self._retries = retries if on_failure == "retry" else 0
        self._stops = on_failure == "stop" or (on_failure == "retry" and on_exhausted == "stop")
        self._stops_unjudged = on_judge_failure == "stop"
        self._instead = render(say("guardrail.instead"), self._suite.language) if instead is None else instead

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Score the model's answer from ``handler(request)``; retry or replace it if it fails."""
        response = handler(request)
        tried = _tried(request.messages)
        while _failed(scores := self._scores(request.messages, response)) and tried < self._retries:
            tried += 1
            response = handler(self._asked_again(request, response, scores))
        return self._given(response, scores, tried)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Await ``handler(request)`` and continue as ``wrap_model_call``; scoring does not block the event loop."""
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
            key: {
                "status": score.status,
                "score": score.value,
                "passed": score.passed,
                "reason": score.error or score.reason,
            }
            for key, score in scores.items()
        }
        noted = {"ragmetrics": said} if scores else {_RETRIES: tried}
        changed: dict[str, Any] = {"response_metadata": {**answer.response_metadata, **noted}}
        unjudged = [f"{key}: {score.error}" for key, score in scores.items() if score.status == "error"]
        if unjudged:
            goes = "is stopped" if self._stops_unjudged else "is sent unjudged"
            _logger.warning("an answer %s: %s", goes, for_log(redact("; ".join(unjudged))))
        if (self._stops and _failed(scores)) or (self._stops_unjudged and unjudged):
            changed["content"] = self._instead
        place = response.result.index(answer)
        response.result[place] = answer.model_copy(update=changed)
        return response

    def _asked_again(self, request: Any, response: Any, scores: Mapping[str, Score]) -> Any:
        reasons = "; ".join(f"{key}: {score.reason}" for key, score in _failed(scores).items())
        advice = HumanMessage(render(say("guardrail.advice", reasons=reasons), self._suite.language))
        return request.override(messages=[*request.messages, _answer_of(response), advice])


def _check_suite(suite: Suite, option: str) -> None:
    bars = [metric for metric in suite.metrics if metric.threshold is not None]
    if not bars:
        message = f"{option} needs a metric with a threshold: none of {suite.keys} has one"
        raise InvalidOptionError(message, param="suite")
    judged = [metric.key for metric in bars if "judge" in metric.definition.asks]
    if judged and any(isinstance(judge, LexicalJudge) for judge in suite.judges):
        message = (
            f"{option} cannot rely on the offline judge for {', '.join(judged)}: it compares words and marks good "
            'paraphrases as unsupported; give the suite a language model, such as judge="openai:/gpt-4o-mini", or use '
            'on_failure="annotate"'
        )
        raise InvalidOptionError(message, param="on_failure")


def _tried(messages: Sequence[Any]) -> int:
    """Return the retries so far in this turn, also if the model called tools instead of answering."""
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
