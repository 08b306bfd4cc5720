"""Runs a chain over a data set, and scores and logs its answers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import ExitStack, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from statistics import fmean
from typing import Any, Union, cast
from uuid import uuid4
from warnings import warn

from langchain_core.messages import convert_to_messages
from langchain_core.runnables import Runnable
from langchain_core.runnables.base import coerce_to_runnable
from langchain_core.runnables.config import RunnableConfig, merge_configs

from mlflow_ragmetrics.adapters.langchain.exchange import Exchange, replied
from mlflow_ragmetrics.adapters.langchain.handler import untraced_suite
from mlflow_ragmetrics.adapters.langchain.recorder import WHY, Reading, Recorder
from mlflow_ragmetrics.core.options import check_count, shown
from mlflow_ragmetrics.core.safe_text import redact
from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.engine.threads import (
    LOOP,
    ThreadTimeoutError,
    awaited,
    event_loop,
    result_of,
    run_in_thread,
)
from mlflow_ragmetrics.errors import InvalidOptionError, MissingFieldError
from mlflow_ragmetrics.evaluation import Scored, drive, report_or_stop
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.rows import Data, read_samples
from mlflow_ragmetrics.rows.aliases import ALIASES_BY_NATURE
from mlflow_ragmetrics.rows.chat_messages import QUESTION_KEYS, is_turn
from mlflow_ragmetrics.selection import check_presence
from mlflow_ragmetrics.suite import Suite, SuiteLike
from mlflow_ragmetrics.text.messages import render, say

Target = Union[Runnable[Any, Any], Callable[[Any], Any]]
Answered = tuple[Sample, Union[str, None]]
"""A sample with the chain's answer and contexts, or with the error that it raised."""
Config = Union[Mapping[str, Any], Callable[[Sample], Mapping[str, Any]]]
"""LangChain's config of a call: one for all rows, or a function of a row's sample."""

_FIGURES = ("latency_seconds", "input_tokens", "output_tokens", "cost")
"""The figures of each call, if the models report them."""

_HISTORY = ("history", *ALIASES_BY_NATURE["history"])
_CHAIN_FAILED = "the chain failed"


def evaluate_chain(
    chain: Target,
    data: Data,
    suite: SuiteLike,
    *,
    columns: Mapping[str, str | None] | None = None,
    input_key: str | None = None,
    make_input: Callable[[Sample], Any] | None = None,
    answer: str | Callable[..., Any] | None = None,
    contexts: Callable[..., Any] | Collection[str] | None = None,
    concurrency: int = 4,
    config: Config | None = None,
    timeout: float | None = None,
    progress: bool | None = None,
    log: bool = False,
    run_name: str | None = None,
    feedback: bool = True,
) -> Report:
    """Run ``chain`` on every question of ``data``, and score the answers.

    ``aevaluate_chain`` awaits the chain in the running event loop.
    ``chain`` is anything that LangChain runs (a chain, a LangGraph graph, an agent), or a plain function of the
    question, sync or async. Questions, references and gold ids come from ``data``; answers and contexts come from the
    chain. Its input is the result of ``make_input`` for a sample, else the question under ``input_key``, else what its
    input schema requires. A question may be a list of messages: earlier turns, then the user's last one.

    Args:
        chain: the chain to evaluate.
        data: the rows: a file, a frame, a list of records.
        suite: the metrics, as ``Suite.of`` takes them.
        columns: maps fields to the data's columns.
        input_key, make_input: the chain's input, see above.
        answer, contexts: read unusual chains as in ``RagMetricsCallback``.
        concurrency: the number of calls at a time.
        config: LangChain's config, or a function from a sample to the row's config. Each row gets its own
            ``thread_id``.
        timeout: seconds per call (for retries, pass ``chain.with_retry()``).
        progress: as in ``Suite.evaluate``.
        log: log the report, to the active MLflow run or to a new one that also has the chain's traces. By default
            nothing is logged; ``report.log()`` logs the report, once, and ``report.run_id`` is its run.
        run_name: with ``log``, the name of a new run.
        feedback: with ``log``, put the scores on the chain's MLflow traces.

    Returns:
        A report. Its metrics include ``latency_seconds``, ``input_tokens``, ``output_tokens`` and ``cost`` (``/mean``,
        ``/p95``, ``/n``), if known. If the chain fails on a row, every metric has the status ``error`` there, and a
        warning counts these rows. If it fails on all rows, ``report.incomplete`` says so too, and a new run ends
        FAILED.

    Raises:
        MissingFieldError: if no row has a field that a named metric needs (before the chain runs), or if a metric needs
            contexts and no answer has any (after it ran, with the ``report``).
        InvalidDataError: if the data cannot be read.
        InvalidOptionError: if an option cannot be used.
        KeyboardInterrupt: at Ctrl-C, with the ``report`` of the scored rows.
    """
    _check(concurrency, timeout, config)
    suite = Suite.of(suite)
    samples = list(read_samples(data, columns))
    # the chain will provide these fields
    answered = [replace(sample, answer="", contexts=(), retrieved_doc_ids=()) for sample in samples]
    selection, warnings = check_presence(suite.selection, answered)
    reduced = suite.replace(metrics=selection)
    try:
        runnable = coerce_to_runnable(chain)
    except TypeError:
        raise InvalidOptionError(f"chain={shown(chain)} is neither a chain nor a function", param="chain") from None
    source = data if isinstance(data, (str, Path)) else None
    reading = Reading(answer=answer, contexts=contexts)
    caller = Caller(runnable, make_input or input_maker(runnable, input_key), reading, config, timeout, LOOP.get())

    def make_report(scored: Scored) -> Report:
        rows, stopped, notes = scored.rows, None, [*warnings, *_missing_retrieval(reduced, scored.rows)[0]]
        if failures := _failures(rows):
            notes.append(say("chain.failed", n=len(failures), rows=len(rows), error=failures[0]))
        if len(failures) == len(rows):
            whole = say("chain.failed_on_all", n=len(rows), error=failures[0])
            stopped = render(whole, suite.language)
        report = suite.report(scored, warnings=tuple(notes), source=source)
        return replace(report, figures=_timings(rows), stopped=stopped)

    with ExitStack() as stack:
        run_id: str | None = None
        if log:
            from mlflow_ragmetrics.tracking.run import target_run

            run_id = stack.enter_context(target_run(None, run_name))
        pool = ThreadPoolExecutor(concurrency, thread_name_prefix="ragmetrics-chain")
        try:
            tasks = [pool.submit(copy_context().run, caller.ask, sample) for sample in samples]
            scored = partial(_scored, map(result_of, tasks), reduced, 4 * concurrency)
            report, stop = drive(scored, len(samples), make_report, progress=progress)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # after an interruption, running calls are not awaited
        if stop is None and report.stopped is not None:
            warn(report.stopped, stacklevel=2)
        if run_id is not None:
            _log(report, run_id, runnable, feedback)
        if (refused := _missing_retrieval(reduced, report.rows)[1]) is not None:
            refused.report = report
            raise refused
    return report_or_stop(report, stop)


aevaluate_chain = awaited(evaluate_chain)


def _check(concurrency: int, timeout: float | None, config: Config | None) -> None:
    check_count("concurrency", concurrency)
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0):
        raise InvalidOptionError(f"timeout={timeout!r} must be a number of seconds above 0", param="timeout")
    if config is not None and not callable(config) and not isinstance(config, Mapping):
        raise InvalidOptionError(f"config={config!r} must be a mapping or a function of a row", param="config")
    if not callable(config) and "thread_id" in ((config or {}).get("configurable") or {}):
        message = "config= gives all rows the same thread_id, so they share state; make it a function of a row"
        raise InvalidOptionError(message, param="config")
    with suppress(RuntimeError):  # no loop runs in this thread
        if asyncio.get_running_loop() is LOOP.get():
            message = "evaluate_chain would block the event loop that runs this chain; await aevaluate_chain instead"
            raise InvalidOptionError(message, param="chain")


def _failures(rows: Sequence[Row]) -> list[str]:
    """Return the errors of the rows on which the chain failed."""
    firsts = [next(iter(row.scores.values())) for row in rows]
    return [score.error or "" for score in firsts if score.reason.startswith(_CHAIN_FAILED)]


def _timings(rows: Sequence[Row]) -> dict[str, float]:
    """Return mean, 95th percentile and count of each figure of the calls."""
    figures: dict[str, float] = {}
    for name in _FIGURES:
        values = [float(row.sample.metadata[name]) for row in rows if name in row.sample.metadata]
        if values:
            figures[f"{name}/mean"] = fmean(values)
            figures[f"{name}/p95"] = sorted(values)[math.ceil(0.95 * len(values)) - 1]
            figures[f"{name}/n"] = len(values)
    return figures


def _scored(answers: Iterator[Answered], suite: Suite, size: int) -> Iterator[Row]:
    """Yield rows in order, scored in groups while the chain answers the next ones."""
    scoring = untraced_suite(suite)
    places = count()
    while group := list(islice(answers, size)):
        scored = scoring.score_samples([sample for sample, error in group if error is None])
        for sample, error in group:
            if error is None:
                yield replace(next(scored), index=next(places))
            else:
                failure = Score(status="error", error=error, reason=f"{_CHAIN_FAILED}: {error}")
                yield Row(sample, dict.fromkeys(scoring.keys, failure), next(places))


def _missing_retrieval(suite: Suite, rows: Sequence[Row]) -> tuple[tuple[str, ...], MissingFieldError | None]:
    """Return a warning if answers came without retrieval, and an error if none had the contexts a metric needs."""
    answered = [row.sample for row in rows if row.sample.answer is not None]
    without = sum(sample.contexts is None and "contexts" not in sample.invalid for sample in answered)
    keys = [metric.key for metric in suite.metrics if "contexts" in metric.required]
    if not without or not keys:
        return (), None
    warning = say("chain.without_retrieval", n=without, answers=len(answered), keys=", ".join(keys))
    named = [key for key in keys if key not in suite.selection.optional]
    if without < len(answered) or not named:
        return (warning,), None
    why = answered[0].metadata.get(WHY, "contexts= returned none")
    message = f"{named[0]} needs 'contexts', but no answer had any retrieval: {why}; name them with contexts="
    return (warning,), MissingFieldError(message, field="contexts", metric=named[0])


def _log(report: Report, run_id: str, chain: Runnable[Any, Any], feedback: bool) -> None:
    """Log the report; its scores go onto the chain's own traces if there are any, else onto new ones."""
    traced = any("trace_id" in row.sample.metadata for row in report.rows)
    if traced:
        import mlflow

        mlflow.flush_trace_async_logging()
    report.log(run_id=run_id, params={"chain": chain.get_name()}, feedback=traced and feedback, traces=not traced)


def input_maker(chain: Runnable[Any, Any], input_key: str | None = None) -> Callable[[Sample], Any]:
    """Return a function from a sample to the chain's input.

    With ``input_key``, the input is a dict with the question under that key. Otherwise the chain's input schema
    decides: a dict if it has a name for questions (its other names are filled from the sample's metadata),
    ``{"messages": […]}`` if it has messages, else the bare question. Earlier turns go into the messages, or under
    their own name in the schema.
    """
    names = _input_names(chain)
    wanted = (*QUESTION_KEYS, "messages", *(names if len(names) == 1 else ()))
    input_key = input_key or next((key for key in wanted if key in names), None)
    if input_key is None:
        return lambda sample: sample.question or ""

    def input_of(sample: Sample) -> dict[str, Any]:
        turns = [{"role": turn.role, "content": turn.content} for turn in sample.history or () if is_turn(turn)]
        prompt: Any = sample.question or ""
        if input_key == "messages":
            prompt = [*turns, {"role": "user", "content": prompt}]
        known = {**dict.fromkeys(_HISTORY if turns else (), convert_to_messages(turns)), **sample.metadata}
        return {**{name: value for name, value in known.items() if name in names}, input_key: prompt}

    return input_of


def _input_names(chain: Runnable[Any, Any]) -> Mapping[str, Any]:
    try:
        schema = chain.get_input_jsonschema()
    except (TypeError, ValueError, AttributeError, RuntimeError):  # input types without a schema
        channels = getattr(chain, "channels", None)  # the names in a LangGraph graph's state
        return channels if isinstance(channels, Mapping) else {}
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) and schema.get("type") == "object" else {}


@dataclass
class Caller:
    """Calls ``chain`` with ``config``, within ``timeout`` seconds.

    An async-only chain runs in ``loop``, the caller's event loop or this process's own. If the chain stores state by
    ``thread_id``, each call gets a new one unless ``config`` sets it.
    """

    chain: Runnable[Any, Any]
    make: Callable[[Sample], Any]
    reading: Reading
    config: Config | None = None
    timeout: float | None = None
    loop: asyncio.AbstractEventLoop | None = None

    def ask(self, sample: Sample) -> Answered:
        """Return the chain's answer to a sample; a failure becomes the row's result."""
        recorder = Recorder()
        try:
            inputs, awaits = self.make(sample), self.loop is not None
            try:
                outputs = self._call(inputs, self._config_of(sample, recorder))
            except (NotImplementedError, TypeError) as error:
                if awaits or not _is_for_async(error):
                    raise
                self.loop = self.loop or event_loop("chains")
                recorder = Recorder()
                outputs = self._call(inputs, self._config_of(sample, recorder))
            # a lone model or retriever reports no chain
            exchange = recorder.exchange or Exchange(uuid4(), inputs=None, metadata={}, outputs=outputs)
            call = self.reading.sample(exchange)
        except Exception as error:  # application code: one failure must not stop the other rows
            message = redact(" ".join(f"{type(error).__name__}: {error}".split()))
            trace_id = recorder.exchange and recorder.exchange.trace_id
            link = {} if trace_id is None else {"trace_id": trace_id}
            return replace(sample, metadata={**sample.metadata, **link}), message
        invalid = {name: reason for name, reason in call.invalid.items() if name in ("answer", "contexts")}
        answered = replace(
            sample,
            answer=call.answer,
            contexts=call.contexts,
            retrieved_doc_ids=call.retrieved_doc_ids,
            history=sample.history if sample.history is not None else call.history,
            metadata={**sample.metadata, **call.metadata, **_figures_of(exchange)},
            invalid={**sample.invalid, **invalid},
        )
        return answered, "it was interrupted before it gave an answer" if exchange.left else None

    def _config_of(self, sample: Sample, recorder: Recorder) -> RunnableConfig:
        config_of_row = self.config(sample) if callable(self.config) else self.config
        config = merge_configs(cast(Any, config_of_row), {"callbacks": [recorder]})
        named = config.get("configurable") or {}
        if getattr(self.chain, "checkpointer", None) and "thread_id" not in named:
            config["configurable"] = {**named, "thread_id": f"{sample.id}-{uuid4().hex[:12]}"}
        return config

    def _call(self, inputs: Any, config: Any) -> Any:
        if self.loop is None:
            if self.timeout is None:
                return self.chain.invoke(inputs, config)
            context = copy_context()
            return run_in_thread(lambda: context.run(self.chain.invoke, inputs, config), self.timeout)
        LOOP.set(self.loop)
        running = asyncio.run_coroutine_threadsafe(self.chain.ainvoke(inputs, config), self.loop)
        try:
            return running.result(self.timeout)
        except FutureTimeoutError:
            if running.done():
                raise
            running.cancel()
            raise ThreadTimeoutError(f"no answer within {self.timeout:g} s") from None


def _is_for_async(error: Exception) -> bool:
    phrases = ("coroutine function synchronously", "No synchronous function provided")  # LangChain and LangGraph
    return isinstance(error, NotImplementedError) or any(phrase in str(error) for phrase in phrases)


def _figures_of(exchange: Exchange) -> dict[str, float]:
    """Return the duration of the call and the usage that its models report."""
    figures: dict[str, float] = {"latency_seconds": round(exchange.seconds, 6)} if exchange.seconds else {}
    for step in exchange.steps:
        for message in replied(step.reply):
            billed = (getattr(message, "response_metadata", None) or {}).get("token_usage") or {}
            cost = billed.get("cost") if isinstance(billed, Mapping) else None
            usage = {**(getattr(message, "usage_metadata", None) or {}), "cost": cost}
            for name in ("input_tokens", "output_tokens", "cost"):
                if isinstance(usage.get(name), (int, float)):
                    figures[name] = figures.get(name, 0) + usage[name]
    return figures
