"""From the runs of one sample to its final scores: several judges merged, failures made data, composites added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from mlflow_ragmetrics.core.aggregate import aggregate, agreement
from mlflow_ragmetrics.core.composite import Composite
from mlflow_ragmetrics.core.language import say
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.options import Aggregate
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.engine.program import Job, Run
from mlflow_ragmetrics.errors import AllJudgesFailedError, JudgeError, MissingFieldError, RagMetricsError

__all__ = ["ScoringRules", "merge_judges"]


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


def merge_judges(
    outcomes: Mapping[str, Score | JudgeError], how: Aggregate, tolerance: float, *, several: bool
) -> Score:
    """One score out of one score (or failure) per judge.

    Items, details and reason are those of the first judge that scored. A failed judge has no vote and is listed in
    ``excluded_models``. With one judge its own reply error is raised; with ``several``, ``AllJudgesFailedError``.
    """
    scores = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Score)}
    failures = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, JudgeError)}
    if not scores:
        raise _failure(failures, several)
    voted = {name: score.value for name, score in scores.items() if score.value is not None}
    if not voted:
        return next(iter(scores.values()))
    merged = scores[next(iter(voted))].changed(model_scores=voted, judge=", ".join(voted))
    if several:
        each = "; ".join(f"{name}: {value:.3f}" for name, value in voted.items())
        judges = say("judges.merged", n=len(voted), how=say(f"aggregate.{how}"), each=each)
        value = aggregate(list(voted.values()), how, tolerance)
        merged = merged.changed(value=value, reason=say("joined", first=merged.reason, second=judges))
        merged = merged.with_details(agreement=agreement(list(voted.values())), n_judges=len(voted))
    if not failures:
        return merged
    excluded = tuple((f"judge_failed:{name}", text) for name, text in zip(failures, _named(failures), strict=True))
    return merged.changed(
        excluded_models=(*merged.excluded_models, *failures),
        warnings=(*merged.warnings, *excluded),
    )


def _failure(failures: Mapping[str, JudgeError], several: bool) -> JudgeError:
    first = next(iter(failures.values()))
    if not several and type(first) is not JudgeError:
        return first
    return AllJudgesFailedError(f"no judge answered ({'; '.join(_named(failures))})")


def _named(failures: Mapping[str, JudgeError]) -> list[str]:
    said = {name: str(failure) for name, failure in failures.items()}
    return [text if text.startswith(f"{name}:") else f"{name}: {text}" for name, text in said.items()]
