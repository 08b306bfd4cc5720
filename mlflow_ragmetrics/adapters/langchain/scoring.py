"""Samples of chains scored by a suite; where a chain ran no retriever, nothing is said about contexts."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.run import Row
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.suite import Suite

__all__ = ["ChainSuite"]


def _without_retrieval(suite: Suite) -> Suite:
    """The suite for answers of a chain without retriever: metrics on contexts are skipped, not given a vacuous 1.0.

    A metric whose ``no_context`` was given keeps it.
    """
    other = copy.copy(suite)
    other.selection = replace(suite.selection, metrics=tuple(map(_skipping, suite.selection.metrics)))
    return other


def _skipping(metric: Metric) -> Metric:
    takes = "no_context" in metric.definition.options.model_fields
    return metric(no_context="skip") if takes and "no_context" not in metric.given else metric


class ChainSuite:
    """A suite together with its variant for answers without retrieval."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self._unretrieved = _without_retrieval(suite)

    def score(self, samples: Sequence[Sample]) -> list[Row]:
        """One row a sample, in order; questions that several of them ask are asked once."""
        groups = {True: self.suite, False: self._unretrieved}
        rows: dict[int, Row] = {}
        for retrieved, suite in groups.items():
            chosen = [i for i, sample in enumerate(samples) if _retrieved(sample) is retrieved]
            scored = suite.score_samples([samples[i] for i in chosen])
            rows.update(zip(chosen, scored, strict=True))
        return [replace(rows[i], index=i) for i in range(len(samples))]


def _retrieved(sample: Sample) -> bool:
    return sample.contexts is not None or "contexts" in sample.invalid
