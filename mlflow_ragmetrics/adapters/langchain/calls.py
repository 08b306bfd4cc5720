"""Calls a chain for each row of a data set: its inputs, the calls and the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, replace
from typing import Any, Union
from uuid import uuid4

from langchain_core.messages import convert_to_messages
from langchain_core.runnables import Runnable

from mlflow_ragmetrics.adapters.langchain.recorder import Exchange, Recorder
from mlflow_ragmetrics.adapters.langchain.sample import Reading
from mlflow_ragmetrics.adapters.langchain.seen import replied
from mlflow_ragmetrics.core.safe_text import redact
from mlflow_ragmetrics.core.score import Sample
from mlflow_ragmetrics.engine.threads import ThreadTimeoutError, event_loop, result_of, run_in_thread
from mlflow_ragmetrics.rows.aliases import ALIASES_BY_NATURE
from mlflow_ragmetrics.rows.chat_messages import QUESTION_KEYS, is_turn

Config = Union[Mapping[str, Any], Callable[[Sample], Mapping[str, Any]]]
"""LangChain's config of a call: one for all rows, or a function of a row's sample."""

FIGURES = ("latency_seconds", "input_tokens", "output_tokens", "cost")
"""The figures of each call, if the models report them."""

LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("ragmetrics_loop", default=None)
"""The event loop that chains run in: that of the caller of ``aevaluate_chain``, or in a call, the loop it runs in."""

_HISTORY = ("history", *ALIASES_BY_NATURE["history"])


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
        asked: Any = sample.question or ""
        if input_key == "messages":
            asked = [*turns, {"role": "user", "content": asked}]
        known = {**dict.fromkeys(_HISTORY if turns else (), convert_to_messages(turns)), **sample.metadata}
        return {**{name: value for name, value in known.items() if name in names}, input_key: asked}

    return input_of


def _input_names(chain: Runnable[Any, Any]) -> Mapping[str, Any]:
    try:
        schema = chain.get_input_jsonschema()
    except (TypeError, ValueError, AttributeError, RuntimeError):  # input types without a schema
        channels = getattr(chain, "channels", None)  # the names in a LangGraph graph's state
        return channels if isinstance(channels, Mapping) else {}
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) and schema.get("type") == "object" else {}


@dataclass(frozen=True)
class Answered:
    """A sample with the chain's answer and contexts, or with the error that it raised."""

    sample: Sample
    error: str | None = None


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
            found = self.reading.sample(exchange)
        except Exception as error:  # application code: one failure must not stop the other rows
            message = redact(" ".join(f"{type(error).__name__}: {error}".split()))
            trace_id = recorder.exchange.trace_id if recorder.exchange is not None else None
            link = {} if trace_id is None else {"trace_id": trace_id}
            return Answered(replace(sample, metadata={**sample.metadata, **link}), message)
        answered = _with_answer(sample, found, _figures_of(exchange), self.reading.question is not None)
        return Answered(answered, "it was interrupted before it gave an answer" if exchange.left else None)

    def _config_of(self, sample: Sample, recorder: Recorder) -> dict[str, Any]:
        given = self.config(sample) if callable(self.config) else self.config
        config = dict(given or {})
        callbacks = config.get("callbacks") or []
        if not isinstance(callbacks, list):
            callbacks = callbacks.copy()
            callbacks.add_handler(recorder, inherit=True)
        config["callbacks"] = [*callbacks, recorder] if isinstance(callbacks, list) else callbacks
        named = config.get("configurable") or {}
        if getattr(self.chain, "checkpointer", None) and "thread_id" not in named:
            config["configurable"] = {**named, "thread_id": f"{sample.id}-{uuid4().hex[:12]}"}
        return config

    def _call(self, inputs: Any, config: Any) -> Any:
        if self.loop is None:
            context = copy_context()

            def invoke() -> Any:
                return context.run(self.chain.invoke, inputs, config)

            return invoke() if self.timeout is None else run_in_thread(invoke, self.timeout)
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
    said = ("coroutine function synchronously", "No synchronous function provided")  # LangChain and LangGraph
    return isinstance(error, NotImplementedError) or any(each in str(error) for each in said)


@contextmanager
def ask_all(caller: Caller, samples: Sequence[Sample], concurrency: int) -> Iterator[Iterator[Answered]]:
    """Yield the answers in the order of ``samples``; leaving the block drops calls that have not begun."""
    pool = ThreadPoolExecutor(concurrency, thread_name_prefix="ragmetrics-chain")
    try:
        tasks = [pool.submit(copy_context().run, caller.ask, each) for each in samples]
        yield map(result_of, tasks)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # after an interruption, running calls are not awaited


def _with_answer(sample: Sample, found: Sample, figures: Mapping[str, float], ask_anew: bool) -> Sample:
    """Return the sample with the chain's answer; references, gold ids and (unless ``ask_anew``) question are kept."""
    invalid = {name: reason for name, reason in found.invalid.items() if name in ("answer", "contexts")}
    return replace(
        sample,
        question=found.question if ask_anew else sample.question,
        answer=found.answer,
        contexts=found.contexts,
        retrieved_doc_ids=found.retrieved_doc_ids,
        history=sample.history if sample.history is not None else found.history,
        metadata={**sample.metadata, **found.metadata, **figures},
        invalid={**sample.invalid, **invalid},
    )


def _figures_of(exchange: Exchange) -> dict[str, float]:
    """Return the duration of the call and the usage that its models report."""
    figures: dict[str, float] = {"latency_seconds": round(exchange.seconds, 6)} if exchange.seconds else {}
    for step in exchange.steps:
        for message in replied(step.reply):
            said = dict(getattr(message, "usage_metadata", None) or {})
            billed = (getattr(message, "response_metadata", None) or {}).get("token_usage") or {}
            said["cost"] = billed.get("cost") if isinstance(billed, Mapping) else None
            for name in ("input_tokens", "output_tokens", "cost"):
                if isinstance(said.get(name), (int, float)):
                    figures[name] = figures.get(name, 0) + said[name]
    return figures
