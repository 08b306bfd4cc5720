"""Runs a chain over a data set, and scores and logs its answers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial, wraps
from inspect import cleandoc
from itertools import count, islice
from pathlib import Path
from statistics import fmean
from typing import Any, ParamSpec, Union
from warnings import warn

from langchain_core.runnables import Runnable
from langchain_core.runnables.base import coerce_to_runnable

from mlflow_ragmetrics.adapters.langchain.calls import FIGURES, LOOP, Answered, Caller, Config, ask_all, input_maker
from mlflow_ragmetrics.adapters.langchain.handler import untraced_suite
from mlflow_ragmetrics.adapters.langchain.sample import WHY, Reading
from mlflow_ragmetrics.core.options import check_count, shown
from mlflow_ragmetrics.core.score import Sample, Score
from mlflow_ragmetrics.engine.program import Expenses, Row
from mlflow_ragmetrics.engine.threads import TO_HAND_OVER, run_beside
from mlflow_ragmetrics.errors import InvalidOptionError, MissingFieldError
from mlflow_ragmetrics.evaluation import WorstRows, drive, report_or_stop
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.rows import Data, read_samples
from mlflow_ragmetrics.selection import check_presence
from mlflow_ragmetrics.suite import Suite, SuiteLike
from mlflow_ragmetrics.text.messages import render, say

Target = Union[Runnable[Any, Any], Callable[[Any], Any]]


_CHAIN_FAILED = "the chain failed"
P = ParamSpec("P")


def evaluate_chain(
    chain: Target,
    data: Data,
    suite: SuiteLike,
    *,
    columns: Mapping[str, str | None] | None = None,
    input_key: str | None = None,
    make_input: Callable[[Sample], Any] | None = None,
    question: str | Callable[..., Any] | None = None,
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
        question, answer, contexts: read unusual chains as in ``RagMetricsCallback``.
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
    reading = Reading(question, answer, contexts)
    caller = Caller(runnable, make_input or input_maker(runnable, input_key), reading, config, timeout, LOOP.get())
    with ExitStack() as stack:
        run_id: str | None = None
        if log:
            from mlflow_ragmetrics.tracking.run import target_run

            run_id = stack.enter_context(target_run(None, run_name))

        def make_report(kept: WorstRows, seconds: float, expenses: Expenses) -> Report:
            failures = _failures(kept.rows)
            said = (say("chain.failed", n=len(failures), rows=len(kept.rows), error=failures[0]),) if failures else ()
            found = (*warnings, *_missing_retrieval(reduced, kept.rows)[0], *said)
            report = suite.report(kept.rows, warnings=found, source=source, seconds=seconds, expenses=expenses)
            return replace(report, figures=_timings(kept.rows), stopped=_failed_on_all(kept.rows, suite.language))

        with ask_all(caller, samples, concurrency) as answers:
            scored = partial(_scored, answers, reduced, 4 * concurrency)
            report, stop = drive(scored, len(samples), make_report, progress=progress)
        if (failed := _failed_on_all(report.rows, suite.language)) is not None:
            warn(failed, stacklevel=2)
        if run_id is not None:
            _log(report, run_id, runnable, feedback)
        if (refused := _missing_retrieval(reduced, report.rows)[1]) is not None:
            refused.report = report
            raise refused
    return report_or_stop(report, stop)


def _awaited(evaluate: Callable[P, Report]) -> Callable[P, Coroutine[Any, Any, Report]]:
    @wraps(evaluate)
    async def aevaluate_chain(*given: P.args, **options: P.kwargs) -> Report:
        loop = asyncio.get_running_loop()

        def work() -> Report:
            LOOP.set(loop)
            return evaluate(*given, **options)

        return await run_beside(work, patience=TO_HAND_OVER)

    return aevaluate_chain


aevaluate_chain = _awaited(evaluate_chain)
aevaluate_chain.__name__ = aevaluate_chain.__qualname__ = "aevaluate_chain"
aevaluate_chain.__doc__ = f"""Like ``evaluate_chain``, but awaits the chain in the running event loop.

If the task is cancelled, the ``CancelledError`` has the ``report`` of the scored rows. On Python 3.10
the report is on the exception's ``__context__`` instead.

{cleandoc(evaluate_chain.__doc__ or "")}
"""


def _check(concurrency: int, timeout: float | None, config: Config | None) -> None:
    check_count("concurrency", concurrency)
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0):
        raise InvalidOptionError(f"timeout={timeout!r} must be a number of seconds above 0", param="timeout")
    shared = config.get("configurable") if isinstance(config, Mapping) else None
    if isinstance(shared, Mapping) and "thread_id" in shared:
        message = "config= gives all rows the same thread_id, so they share state; make it a function of a row"
        raise InvalidOptionError(message, param="config")
    if config is not None and not callable(config) and not isinstance(config, Mapping):
        raise InvalidOptionError(f"config={config!r} must be a mapping or a function of a row", param="config")
    with suppress(RuntimeError):  # no loop runs in this thread
        if asyncio.get_running_loop() is LOOP.get():
            message = "evaluate_chain would block the event loop that runs this chain; await aevaluate_chain instead"
            raise InvalidOptionError(message, param="chain")


def _failures(rows: Sequence[Row]) -> list[str]:
    """Return the errors of the rows on which the chain failed."""
    firsts = [next(iter(row.scores.values())) for row in rows]
    return [score.error or "" for score in firsts if score.reason.startswith(_CHAIN_FAILED)]


def _failed_on_all(rows: Sequence[Row], language: str) -> str | None:
    """Return why the evaluation is incomplete, if the chain failed on all rows."""
    failures = _failures(rows)
    whole = say("chain.failed_on_all", n=len(rows), error=failures[0]) if len(failures) == len(rows) else None
    return whole and render(whole, language)


def _timings(rows: Sequence[Row]) -> dict[str, float]:
    """Return mean, 95th percentile and count of each figure of the calls."""
    figures: dict[str, float] = {}
    for name in FIGURES:
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
        scored = scoring.score_samples([each.sample for each in group if each.error is None])
        for each in group:
            if each.error is None:
                yield replace(next(scored), index=next(places))
            else:
                failure = Score(status="error", error=each.error, reason=f"{_CHAIN_FAILED}: {each.error}")
                yield Row(each.sample, dict.fromkeys(scoring.keys, failure), next(places))


def _missing_retrieval(suite: Suite, rows: Sequence[Row]) -> tuple[tuple[str, ...], MissingFieldError | None]:
    """Return a warning if answers came without retrieval, and an error if none had the contexts a metric needs."""
    answered = [row.sample for row in rows if row.sample.answer is not None]
    without = sum(sample.contexts is None and "contexts" not in sample.invalid for sample in answered)
    keys = [metric.key for metric in suite.metrics if "contexts" in metric.required]
    if not without or not keys:
        return (), None
    said = say("chain.without_retrieval", n=without, answers=len(answered), keys=", ".join(keys))
    named = [key for key in keys if key not in suite.selection.optional]
    if without < len(answered) or not named:
        return (said,), None
    why = answered[0].metadata.get(WHY, "contexts= returned none")
    message = f"{named[0]} needs 'contexts', but no answer had any retrieval: {why}; name them with contexts="
    return (said,), MissingFieldError(message, field="contexts", metric=named[0])


def _log(report: Report, run_id: str, chain: Runnable[Any, Any], feedback: bool) -> None:
    """Log the report; its scores go onto the chain's own traces if there are any, else onto new ones."""
    traced = any("trace_id" in row.sample.metadata for row in report.rows)
    if traced:
        import mlflow

        mlflow.flush_trace_async_logging()
    report.log(run_id=run_id, params={"chain": chain.get_name()}, feedback=traced and feedback, traces=not traced)
