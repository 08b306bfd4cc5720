"""A guardrail: scores each answer of an agent before it is sent."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from mlflow_ragmetrics.adapters.langchain.handler import untraced_suite
from mlflow_ragmetrics.adapters.langchain.recorder import read_text
from mlflow_ragmetrics.core.options import check_count
from mlflow_ragmetrics.core.safe_text import as_json, for_log, redact
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.threads import run_beside
from mlflow_ragmetrics.errors import InvalidOptionError, MissingExtraError
from mlflow_ragmetrics.judges.lexical.lexical_judge import LexicalJudge
from mlflow_ragmetrics.rows.chat_messages import fields_of, has_open_calls, sample_from_messages, tool_chunks
from mlflow_ragmetrics.suite import Suite, SuiteLike
from mlflow_ragmetrics.text.messages import render, say

try:
    from langchain.agents.middleware import AgentMiddleware
    from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
except ImportError as error:
    raise MissingExtraError(
        "RagMetricsMiddleware needs langchain: pip install 'mlflow_ragmetrics[langchain]'."
    ) from error

_RETRIES = "ragmetrics_retries"
_ANSWER_FIELDS = ("answer", "response", "output")
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
        answer: the field with the answer, for agents with structured output (``response_format``). Default: a field
            named ``answer``, ``response`` or ``output``, else the only text field.

    A structured answer is replaced in ``structured_response`` and in the messages. The result of a tool that ends the
    turn (``return_direct``) is an answer too; the documents in its artifact are passages. The model cannot answer
    again, so a failing one counts as exhausted. Any other message that calls tools is not an answer and is not scored.
    An answer is compared with the tool results for the last question, and with earlier ones if it is based on them.
    Each answer carries its scores:
    ``message.response_metadata["ragmetrics"]`` is ``{key: {"status", "score", "passed", "reason"}}``. A skipped metric
    does not fail an answer.

    Judging starts when the answer is complete. A caller that streams tokens (``stream_mode="messages"``) shows them
    earlier. To hide stopped answers, ``invoke`` the agent, or stream ``"updates"`` or ``"values"``.

    Raises:
        InvalidOptionError: if an option cannot be used, if no metric has a threshold, or for ``"retry"`` or ``"stop"``
            with the offline judge, which marks good paraphrases as unsupported. The agent's first call raises it if the
            field with the answer is unknown.
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
        answer: str | None = None,
    ) -> None:
        super().__init__()
        policies = {"on_failure": on_failure, "on_exhausted": on_exhausted, "on_judge_failure": on_judge_failure}
        for name, value in policies.items():
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
        self._field = answer

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Score the model's answer from ``handler(request)``; retry or replace it if it fails."""
        fields, tried = _answer_fields(request.response_format, self._field), _tried(request.messages)
        attempt = request
        while attempt is not None:
            response = handler(attempt)
            attempt, tried = self._judge(request, response, fields, tried), tried + 1
        return response

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Await ``handler(request)`` and continue as ``wrap_model_call``; scoring does not block the event loop."""
        fields, tried = _answer_fields(request.response_format, self._field), _tried(request.messages)
        attempt = request
        while attempt is not None:
            response = await handler(attempt)
            attempt = await run_beside(partial(self._judge, request, response, fields, tried))
            tried += 1
        return response

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Call ``handler(request)``; if the tool ends the turn, score its result, and replace it if it fails."""
        return self._checked_result(request, handler(request))

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Await ``handler(request)`` and continue as ``wrap_tool_call``."""
        result = await handler(request)
        return await run_beside(partial(self._checked_result, request, result)) if _ends_turn(request) else result

    def _scores(self, messages: Sequence[Any], answer: str | None) -> Mapping[str, Score]:
        if answer is None or not answer.strip():
            return {}
        (row,) = self._suite.score_samples([sample_from_messages([*messages, AIMessage(answer)])])
        return row.scores

    def _judge(self, request: Any, response: Any, fields: Mapping[str, str], tried: int) -> Any:
        """Score the answer in ``response``; return the request to answer again, or add the scores and return None."""
        scores, message = self._scores(request.messages, _answer_in(response, fields)), _message_of(response)
        if (failed := _failed(scores)) and tried < self._retries:
            reasons = "; ".join(f"{key}: {score.reason}" for key, score in failed.items())
            advice = HumanMessage(render(say("guardrail.advice", reasons=reasons), self._suite.language))
            return request.override(messages=[*request.messages, *response.result, advice])
        if message is None or not (scores or tried):
            return None
        notes = {"ragmetrics": _described(scores)} if scores else {_RETRIES: tried}
        changed: dict[str, Any] = {"response_metadata": {**message.response_metadata, **notes}}
        if self._is_stopped(scores):
            changed["content"] = self._instead
            if response.structured_response is not None:
                response.structured_response = self._stopped(response, fields)
                text = as_json(dict(fields_of(response.structured_response)))
                changed |= {"content": text, "tool_calls": [], "additional_kwargs": {}}
                response.result = [message]  # not the tool's message, which repeats the answer
        response.result[response.result.index(message)] = message.model_copy(update=changed)
        return None

    def _stopped(self, response: Any, fields: Mapping[str, str]) -> Any:
        """Return the structured response with the answer replaced."""
        structured, replaced = response.structured_response, {_field_in(response, fields): self._instead}
        if isinstance(structured, Mapping):
            return {**structured, **replaced}
        if hasattr(structured, "model_copy"):
            return structured.model_copy(update=replaced)
        return dataclasses.replace(structured, **replaced)

    def _checked_result(self, request: Any, result: Any) -> Any:
        if not _ends_turn(request) or getattr(result, "status", None) == "error":
            return result
        if not isinstance(result, ToolMessage):
            message = f"the tool {request.tool.name} ends the turn without a message, so its answer cannot be judged"
            raise InvalidOptionError(message, param="suite")
        messages = request.state["messages"] if isinstance(request.state, Mapping) else request.state
        emptied = result.model_copy(update={"content": ""})  # the documents in its artifact are passages
        scores = self._scores([*messages, *([emptied] if tool_chunks(emptied) else [])], read_text(str(result.text)))
        if not scores:
            return result
        noted = {**result.response_metadata, "ragmetrics": _described(scores)}
        stopped = {"content": self._instead, "artifact": None} if self._is_stopped(scores) else {}
        return result.model_copy(update={"response_metadata": noted, **stopped})

    def _is_stopped(self, scores: Mapping[str, Score]) -> bool:
        unjudged = [f"{key}: {score.error}" for key, score in scores.items() if score.status == "error"]
        if unjudged:
            goes = "is stopped" if self._stops_unjudged else "is sent unjudged"
            _logger.warning("an answer %s: %s", goes, for_log(redact("; ".join(unjudged))))
        return bool((self._stops and _failed(scores)) or (self._stops_unjudged and unjudged))


def _described(scores: Mapping[str, Score]) -> dict[str, dict[str, Any]]:
    return {
        key: {"status": each.status, "score": each.value, "passed": each.passed, "reason": each.error or each.reason}
        for key, each in scores.items()
    }


def _answer_fields(response_format: Any, name: str | None) -> dict[str, str]:
    """The field with the answer by schema of an agent's structured output; empty without one.

    Raises:
        InvalidOptionError: if it is unknown.
    """
    if response_format is None:
        return {}
    fields = {}
    is_strategy = isinstance(response_format, (AutoStrategy, ToolStrategy, ProviderStrategy))
    for spec in ToolStrategy(response_format.schema if is_strategy else response_format).schema_specs:
        properties = spec.json_schema.get("properties", {})
        texts = [field for field, schema in properties.items() if _is_text(schema)]
        known = [name] if name is not None else [field for field in _ANSWER_FIELDS if field in texts] or texts
        if not known or known[0] not in texts or (len(known) > 1 and known[0] not in _ANSWER_FIELDS):
            way_out = f"name one of its text fields with answer=: {texts}" if texts else "it has no text field"
            raise InvalidOptionError(f"the answer's field in {spec.name} is unknown; {way_out}", param="answer")
        fields[spec.name] = known[0]
    return fields


def _is_text(schema: Mapping[str, Any]) -> bool:
    kinds = [schema, *schema.get("anyOf", ())]
    return any("string" in str(kind.get("type")) and not {"enum", "const", "format"} & kind.keys() for kind in kinds)


def _field_in(response: Any, fields: Mapping[str, str]) -> str:
    """The name of the answer's field in a structured response; its schema may have an alias for it."""
    structured, calls = response.structured_response, _message_of(response).tool_calls
    alias = next((fields[call["name"]] for call in calls if call["name"] in fields), next(iter(fields.values())))
    names = list(fields_of(structured))
    is_model = hasattr(type(structured), "model_json_schema")
    aliases = type(structured).model_json_schema()["properties"] if is_model else names
    return str(dict(zip(aliases, names, strict=False)).get(alias, alias))


def _answer_in(response: Any, fields: Mapping[str, str]) -> str | None:
    """The answer in a model's response; ``None`` if it calls tools."""
    if response.structured_response is not None:
        value = fields_of(response.structured_response).get(_field_in(response, fields))
        return None if value is None else str(value)
    message = _message_of(response)
    if message is None or has_open_calls(message):
        return None
    return str(message.text)


def _ends_turn(request: Any) -> bool:
    return bool(getattr(request.tool, "return_direct", False))


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


def _message_of(response: Any) -> Any:
    return next((message for message in reversed(response.result) if isinstance(message, AIMessage)), None)


def _failed(scores: Mapping[str, Score]) -> dict[str, Score]:
    return {key: score for key, score in scores.items() if score.passed is False}
