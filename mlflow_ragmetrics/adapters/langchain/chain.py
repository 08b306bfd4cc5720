"""A chain run over a data set, its answers scored and logged."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Union

from langchain_core.runnables import Runnable

from mlflow_ragmetrics.adapters.langchain.calls import Answered, ask_all
from mlflow_ragmetrics.adapters.langchain.inputs import input_maker
from mlflow_ragmetrics.adapters.langchain.quiet import quietened
from mlflow_ragmetrics.adapters.langchain.reading import Reading
from mlflow_ragmetrics.adapters.langchain.scoring import ChainSuite
from mlflow_ragmetrics.core.run import Row
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.presence import check_presence
from mlflow_ragmetrics.progress import Progress, progress_of
from mlflow_ragmetrics.readers import Data, read_samples
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.suite import Suite

__all__ = ["evaluate_chain"]


def evaluate_chain(
    chain: Runnable[Any, Any],
    data: Data,
    suite: Suite,
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

    A row on which the chain fails has the status ``error`` for every metric. ``log`` writes into the active MLflow
    run, else into a new one; ``feedback`` puts the scores also on the chain's MLflow traces. Before anything is run:
    ``MissingFieldError`` for a named metric whose field no row has, ``InvalidDataError``, ``InvalidOptionError``.
    """
    _check(concurrency)
    samples = list(read_samples(data, columns))
    reading = Reading(output_key=output_key, answer=answer, contexts=contexts)
    asking = ask_all(chain, samples, make_input or input_maker(chain, input_key), reading, concurrency)
    with ExitStack() as stack:
        reduced, said = _reduced(suite, samples)
        run_id = stack.enter_context(_run(run_name)) if log else None
        bar = stack.enter_context(progress_of(progress, len(samples)))
        scored = _scored(stack.enter_context(asking), reduced, 4 * concurrency)
        report = _reported(suite, map(bar.advance, scored), said, data)
        _log(report, run_id, chain, feedback)
    return report


def _reported(suite: Suite, scored: Iterator[Row], said: tuple[str, ...], data: Data) -> Report:
    began, before = time.perf_counter(), suite.spent
    rows = list(scored)
    warnings, seconds = (*said, *_missing_retrieval(rows)), time.perf_counter() - began
    source = data if isinstance(data, (str, Path)) else None
    return suite.report(rows, warnings=warnings, source=source, seconds=seconds, before=before)


def _check(concurrency: int) -> None:
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise InvalidOptionError(f"concurrency={concurrency!r} must be a whole number from 1", param="concurrency")


def _reduced(suite: Suite, samples: Sequence[Sample]) -> tuple[Suite, tuple[str, ...]]:
    """The suite without what no row can have once the chain has answered."""
    answered = [replace(sample, answer="", contexts=(), retrieved_doc_ids=()) for sample in samples]
    reduced = copy.copy(suite)
    reduced.selection, said = check_presence(suite.selection, answered)
    return reduced, said


def _scored(answers: Iterator[Answered], suite: Suite, size: int) -> Iterator[Row]:
    """Rows in order, scored in groups while the chain goes on with the next ones."""
    scoring = ChainSuite(quietened(suite))
    group: list[Answered] = []
    position = 0
    for answered in answers:
        group.append(answered)
        if len(group) >= size:
            for row in _scored_group(group, scoring):
                yield replace(row, index=position)
                position += 1
            group = []
    for row in _scored_group(group, scoring):
        yield replace(row, index=position)
        position += 1


def _scored_group(group: Sequence[Answered], scoring: ChainSuite) -> Iterator[Row]:
    scored = iter(scoring.score([each.sample for each in group if each.error is None]))
    for each in group:
        yield next(scored) if each.error is None else Row(each.sample, _failed(each.error, scoring.suite.keys))


def _failed(error: str, keys: Sequence[str]) -> dict[str, Score]:
    score = Score(status="error", error=error, reason=f"the chain failed: {error}")
    return dict.fromkeys(keys, score)


def _missing_retrieval(rows: Sequence[Row]) -> tuple[str, ...]:
    answered = [row.sample for row in rows if row.sample.answer is not None]
    without = sum(sample.contexts is None and "contexts" not in sample.invalid for sample in answered)
    if not without:
        return ()
    return (f"{without} of {len(answered)} answers came without any retrieval: metrics on contexts skip them",)


def _run(run_name: str | None) -> Any:
    from mlflow_ragmetrics.tracking.run import target_run

    return target_run(None, run_name)


def _log(report: Report, run_id: str | None, chain: Runnable[Any, Any], feedback: bool) -> None:
    """Log the report; its scores go onto the chain's own traces where it has them, else onto traces of their own."""
    if run_id is None:
        return
    traced = any("trace_id" in row.sample.metadata for row in report.rows)
    if traced:
        import mlflow

        mlflow.flush_trace_async_logging()
    report.log(run_id=run_id, params={"chain": chain.get_name()}, feedback=traced and feedback, traces=not traced)
