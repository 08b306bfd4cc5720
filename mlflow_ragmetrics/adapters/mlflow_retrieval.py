"""Reads a model's contexts from its traces in the run of an MLflow evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import mlflow

from mlflow_ragmetrics.core.score import Sample
from mlflow_ragmetrics.rows.record import to_sample
from mlflow_ragmetrics.rows.trace_records import record_of_trace
from mlflow_ragmetrics.suite import Suite

_Key = tuple[str | None, str | None]


def with_traced_contexts(samples: Sequence[Sample], suite: Suite, run_id: str | None) -> list[Sample]:
    """The samples with contexts from the run's retriever spans, if no sample has contexts of its own.

    This is for chains that return only a text. A trace belongs to the samples with its question and answer, else to
    those with its answer. Traces without a retriever, and traces of a sample with different contexts, are ignored.
    """
    wanted = any("contexts" in (*each.definition.required, *each.definition.optional) for each in suite.metrics)
    known = any(sample.contexts is not None or "contexts" in sample.invalid for sample in samples)
    if run_id is None or known or not wanted:
        return list(samples)
    traced = _retrieved_in(run_id)
    return [_with_contexts(sample, traced) for sample in samples] if traced else list(samples)


def _retrieved_in(run_id: str) -> dict[_Key, list[Sample]]:
    """The traced calls with a retriever, by question and answer and by the answer alone."""
    mlflow.flush_trace_async_logging()
    experiment = mlflow.get_run(run_id).info.experiment_id
    found: dict[_Key, list[Sample]] = {}
    of_run = f"request_metadata.`mlflow.sourceRun` = '{run_id}'"
    for trace in mlflow.search_traces([experiment], of_run, return_type="list"):
        record = record_of_trace(trace)
        if record is None or "contexts" not in record:
            continue
        sample = to_sample(record)
        for key in {(sample.question, sample.answer), (None, sample.answer)}:
            found.setdefault(key, []).append(sample)
    return found


def _with_contexts(sample: Sample, traced: dict[_Key, list[Sample]]) -> Sample:
    if sample.answer is None:
        return sample
    calls = traced.get((sample.question, sample.answer)) or traced.get((None, sample.answer), [])
    if not calls or any(call.texts != calls[0].texts for call in calls):
        return sample
    ids = sample.retrieved_doc_ids if sample.retrieved_doc_ids is not None else calls[0].retrieved_doc_ids
    return replace(sample, contexts=calls[0].contexts, retrieved_doc_ids=ids)
