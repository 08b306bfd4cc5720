"""A chain run over a data set, its answers scored and logged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, Union
from uuid import uuid4
from warnings import warn

from langchain_core.runnables import Runnable

from mlflow_ragmetrics.adapters.langchain.recorder import Exchange, Recorder
from mlflow_ragmetrics.adapters.langchain.sample import Reading
from mlflow_ragmetrics.adapters.langchain.scoring import untraced_suite
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.engine.questions import Expenses, charged_to
from mlflow_ragmetrics.errors import InvalidOptionError, MissingFieldError
from mlflow_ragmetrics.readers import Data, read_samples
from mlflow_ragmetrics.records.aliases import ALIASES
from mlflow_ragmetrics.report.report import Report
from mlflow_ragmetrics.selection import check_presence
from mlflow_ragmetrics.suite import Suite, SuiteLike
from mlflow_ragmetrics.views.progress import Progress, progress_of

__all__ = ["input_maker", "Answered", "ask_all", "evaluate_chain"]

_KEYS = ("question", "query", "input", *ALIASES["question"])
_MESSAGES = "messages"
_CHAIN_FAILED = "the chain failed"


def input_maker(chain: Runnable[Any, Any], input_key: str | None = None) -> Callable[[Sample], Any]:
    """A function from a sample to the chain's input.

    With ``input_key``: a dict with the question under it. Else a dict where the chain's input schema has a name for
    questions (further names that the schema has are filled from the sample's metadata), ``{"messages": […]}`` where
    it has messages, and the bare question otherwise.
    """
    names = _input_names(chain)
    if input_key is None:
        input_key = next((key for key in _KEYS if key in names), None)
    if input_key is None and _MESSAGES in names:
        input_key = _MESSAGES
    if input_key is None and len(names) == 1:
        input_key = next(iter(names))
    if input_key is None:
        return lambda sample: sample.question or ""

    def input_of(sample: Sample) -> dict[str, Any]:
        question = sample.question or ""
        asked: Any = [{"role": "user", "content": question}] if input_key == _MESSAGES else question
        return {**{name: value for name, value in sample.metadata.items() if name in names}, input_key: asked}

    return input_of


def _input_names(chain: Runnable[Any, Any]) -> Mapping[str, Any]:
    try:
        schema = chain.get_input_jsonschema()
    except (TypeError, ValueError, AttributeError, RuntimeError):  # input types that have no schema
        channels = getattr(chain, "channels", None)  # a LangGraph graph has its state's names here all the same
        return channels if isinstance(channels, Mapping) else {}
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) and schema.get("type") == "object" else {}


@dataclass(frozen=True)
class Answered:
    """A sample with the chain's answer and contexts, or with the error that the chain raised."""

    sample: Sample
    error: str | None = None


class _CallRecorder(Recorder):
    """Keeps the one exchange of one call."""

    def __init__(self) -> None:
        super().__init__()
        self.exchange: Exchange | None = None

    def answered(self, exchange: Exchange) -> None:
        """Keep it."""
        self.exchange = self.exchange or exchange

    def failed(self, exchange: Exchange) -> None:
        """Keep it: it leads to the trace of the failure."""
        self.exchange = self.exchange or exchange


@contextmanager
def ask_all(
    chain: Runnable[Any, Any],
    samples: Sequence[Sample],
    make: Callable[[Sample], Any],
    reading: Reading,
    concurrency: int,
) -> Iterator[Iterator[Answered]]:
    """The answers in the order of ``samples``; what has not begun is dropped when the block is left."""
    pool = ThreadPoolExecutor(concurrency, thread_name_prefix="ragmetrics-chain")
    try:
        tasks = [pool.submit(copy_context().run, partial(_ask, chain, each, make, reading)) for each in samples]
        yield (task.result() for task in tasks)
    finally:
        pool.shutdown(cancel_futures=True)


def _ask(chain: Runnable[Any, Any], sample: Sample, make: Callable[[Sample], Any], reading: Reading) -> Answered:
    recorder = _CallRecorder()
    try:
        outputs = chain.invoke(make(sample), config={"callbacks": [recorder]})
        exchange = recorder.exchange
        if exchange is None:  # a model or a retriever by itself reports no chain
            exchange = Exchange(uuid4(), inputs=None, metadata={}, outputs=outputs)
        found = reading.sample(exchange)
    except Exception as error:  # the chain is the application's: one row's failure is that row's result
        message = redact(" ".join(f"{type(error).__name__}: {error}".split()))
        trace_id = recorder.exchange.trace_id if recorder.exchange is not None else None
        link = {} if trace_id is None else {"trace_id": trace_id}
        return Answered(replace(sample, metadata={**sample.metadata, **link}), message)
    return Answered(_with_answer(sample, found))


def _with_answer(sample: Sample, found: Sample) -> Sample:
    """The sample with what the chain found; references, gold ids and the question are those of the data."""
    invalid = {name: reason for name, reason in found.invalid.items() if name in ("answer", "contexts")}
    return replace(
        sample,
        answer=found.answer,
        contexts=found.contexts,
        retrieved_doc_ids=found.retrieved_doc_ids,
        history=sample.history if sample.history is not None else found.history,
        metadata={**sample.metadata, **found.metadata},
        invalid={**sample.invalid, **invalid},
    )


def evaluate_chain(
    chain: Runnable[Any, Any],
    data: Data,
    suite: SuiteLike,
    *,
    columns: Mapping[str, str] | None = None,
    input_key: str | None = None,
    output_key: str | None = None,
    make_input: Callable[[Sample], Any] | None = None,
    answer: Callable[..., Any] | None = None,
    contexts: Callable[..., Any] | None = None,
    concurrency: int = 4,
    progress: Union[bool, Progress, None] = None,
    log: bool = True,
    run_name: str | None = None,
    feedback: bool = True,
) -> Report:
    """Run ``chain`` on every question of ``data``, score the answers, and log them.

    Questions, references and gold ids come from ``data`` (``columns`` maps fields to its columns), answers and
    contexts from the chain, which gets what ``make_input`` makes of a sample, else the question under ``input_key``,
    else what its input schema asks for. ``output_key``, ``answer`` and ``contexts`` read odd outputs as in
    ``RagMetricsCallback``. At most ``concurrency`` calls of the chain are in flight; scoring goes on meanwhile.

    A row on which the chain fails has the status ``error`` for every metric; where it fails on all, a warning
    and ``report.incomplete`` say so, and a run made here ends FAILED. ``log`` writes into the active MLflow
    run, else into a new one; ``feedback`` puts the scores also on the chain's MLflow traces. Before anything is run:
    ``MissingFieldError`` for a named metric whose field no row has, ``InvalidDataError``, ``InvalidOptionError``. After
    it: ``MissingFieldError``, with the ``report``, for one that needs contexts where no answer came with any.
    """
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise InvalidOptionError(f"concurrency={concurrency!r} must be a whole number from 1", param="concurrency")
    suite = Suite.of(suite)
    samples = list(read_samples(data, columns))
    reading = Reading(output_key=output_key, answer=answer, contexts=contexts)
    asking = ask_all(chain, samples, make_input or input_maker(chain, input_key), reading, concurrency)
    with ExitStack() as stack:
        reduced, warnings = _reduced(suite, samples)
        run_id: str | None = None
        if log:
            from mlflow_ragmetrics.tracking.run import target_run

            run_id = stack.enter_context(target_run(None, run_name))
        bar = stack.enter_context(progress_of(progress, len(samples)))
        began, expenses = time.perf_counter(), stack.enter_context(charged_to(Expenses()))
        rows = [bar.advance(row) for row in _scored(stack.enter_context(asking), reduced, 4 * concurrency)]
        without, refused = _missing_retrieval(reduced, rows)
        report = suite.report(
            rows,
            warnings=(*warnings, *without),
            source=data if isinstance(data, (str, Path)) else None,
            seconds=time.perf_counter() - began,
            expenses=expenses,
        )
        failed = _failed_on_all(report)
        if failed is not None:
            warn(failed, stacklevel=2)
            report = replace(report, stopped=failed)
        if run_id is not None:
            _log(report, run_id, chain, feedback)
        if refused is not None:
            refused.report = report
            raise refused
    return report


def _failed_on_all(report: Report) -> str | None:
    """What to say where the chain failed on every row, so that there is nothing to read in the report."""
    failures = [next(iter(row.scores.values())) for row in report.rows]
    if not all(score.reason.startswith(_CHAIN_FAILED) for score in failures):
        return None
    return f"{_CHAIN_FAILED} on all {len(failures)} rows; the first: {failures[0].error}"


def _reduced(suite: Suite, samples: Sequence[Sample]) -> tuple[Suite, tuple[str, ...]]:
    """The suite without what no row can have once the chain has answered."""
    answered = [replace(sample, answer="", contexts=(), retrieved_doc_ids=()) for sample in samples]
    selection, said = check_presence(suite.selection, answered)
    return suite.replace(metrics=selection), said


def _scored(answers: Iterator[Answered], suite: Suite, size: int) -> Iterator[Row]:
    """Rows in order, scored in groups while the chain goes on with the next ones."""
    scoring = untraced_suite(suite)
    places = count()
    while group := list(islice(answers, size)):
        for row in _scored_group(group, scoring):
            yield replace(row, index=next(places))


def _scored_group(group: Sequence[Answered], scoring: Suite) -> Iterator[Row]:
    scored = iter(scoring.score_samples([each.sample for each in group if each.error is None]))
    for each in group:
        if each.error is None:
            yield next(scored)
        else:
            failure = Score(status="error", error=each.error, reason=f"{_CHAIN_FAILED}: {each.error}")
            yield Row(each.sample, dict.fromkeys(scoring.keys, failure))


def _missing_retrieval(suite: Suite, rows: Sequence[Row]) -> tuple[tuple[str, ...], MissingFieldError | None]:
    """What to say where answers came without any retrieval, and the error where all did that a named metric needs."""
    answered = [row.sample for row in rows if row.sample.answer is not None]
    without = sum(sample.contexts is None and "contexts" not in sample.invalid for sample in answered)
    keys = [metric.key for metric in suite.metrics if "contexts" in metric.required]
    if not without or not keys:
        return (), None
    said = f"{without} of {len(answered)} answers came without any retrieval: {', '.join(keys)} skip them"
    named = [key for key in keys if key not in suite.selection.optional]
    if without < len(answered) or not named:
        return (said,), None
    message = f"{named[0]} needs 'contexts' and no answer came with any retrieval; name them with contexts="
    return (said,), MissingFieldError(message, field="contexts", metric=named[0])


def _log(report: Report, run_id: str, chain: Runnable[Any, Any], feedback: bool) -> None:
    """Log the report; its scores go onto the chain's own traces where it has them, else onto traces of their own."""
    traced = any("trace_id" in row.sample.metadata for row in report.rows)
    if traced:
        import mlflow

        mlflow.flush_trace_async_logging()
    report.log(run_id=run_id, params={"chain": chain.get_name()}, feedback=traced and feedback, traces=not traced)
