"""From the runs of one sample to its final scores: several judges merged, failures made data, composites added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from mlflow_ragmetrics.core.aggregate import merge_judges
from mlflow_ragmetrics.core.composite import Composite
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.options import Aggregate
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.engine.program import Job, Run
from mlflow_ragmetrics.errors import JudgeError, MissingFieldError, RagMetricsError

__all__ = ["ScoringRules"]


@dataclass(frozen=True)
class ScoringRules:
    """How runs become scores. ``strict``: what leaves a score missing or in error is raised instead.

    ``several``: a list of judges was given, so that a failure of all of them is an ``AllJudgesFailedError``.
    ``aggregate`` and ``tolerance`` are a panel's: they hold for metrics that were given none of their own.
    """

    metrics: Sequence[Metric]
    composites: Sequence[Composite] = ()
    language: str = "en"
    strict: bool = False
    several: bool = False
    prefix: str = ""
    aggregate: Aggregate = "mean"
    tolerance: float = 0.1

    def scores(self, job: Job) -> dict[str, Score]:
        """The scores of one sample by key, composites last."""
        scores = {m.key: self._score(m, runs, job) for m, runs in zip(self.metrics, job.runs, strict=True)}
        for composite in self.composites:
            scores[composite.key] = composite.score(scores, self._spans, self.language)
        return {self.prefix + key: score for key, score in scores.items()} if self.prefix else scores

    @cached_property
    def _spans(self) -> dict[str, tuple[float, float]]:
        return {metric.key: metric.definition.range for metric in self.metrics}

    def _score(self, metric: Metric, runs: list[Run], job: Job) -> Score:
        try:
            score = self._merged(metric, runs)
        except Exception as error:  # raised again in strict mode; else it is the score's own, the other scores go on
            if self._raises(metric, error):
                raise
            score = _unscored(error)
        return metric.finish(score, job.sample, self.language)

    def _merged(self, metric: Metric, runs: list[Run]) -> Score:
        for run in runs:
            if run.failure is not None and not isinstance(run.failure, JudgeError):
                raise run.failure
        outcomes = {run.judge: run.score or run.failure for run in runs}
        asked = [run for run in runs if run.has_asked]
        if not asked or runs[0].judge is None:
            return _only(runs[0])
        named = {str(name): outcome for name, outcome in outcomes.items() if isinstance(outcome, (Score, JudgeError))}
        how, tolerance = self._aggregation(metric)
        merged = merge_judges(named, how, tolerance, several=self.several)
        return merged.changed(duration_ms=max(run.score.duration_ms for run in runs if run.score))

    def _aggregation(self, metric: Metric) -> tuple[Aggregate, float]:
        settings, given = metric.settings, metric.given
        how = settings.aggregate if "aggregate" in given else self.aggregate
        return how, settings.tolerance if "tolerance" in given else self.tolerance

    def _raises(self, metric: Metric, error: Exception) -> bool:
        on_missing = metric.settings.on_missing
        if isinstance(error, MissingFieldError) and on_missing is not None:
            return on_missing == "raise"
        return self.strict and on_missing != "skip"


def _only(run: Run) -> Score:
    if run.failure is not None:
        raise run.failure
    assert run.score is not None
    return run.score


def _unscored(error: Exception) -> Score:
    if isinstance(error, MissingFieldError):
        return Score(status="skipped", reason=str(error))
    said = str(error) if isinstance(error, RagMetricsError) else redact(str(error))
    code = error.code if isinstance(error, JudgeError) else None
    warnings = ((f"judge_{code}", said),) if code else ()
    return Score(status="error", error=f"{type(error).__name__}: {said}", reason=said, warnings=warnings)
