"""Several accepted answers: a metric is computed against each, and the best one counts."""

from __future__ import annotations

from dataclasses import replace

from mlflow_ragmetrics.core.language import say
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.question import Steps, together
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.errors import RagMetricsError

__all__ = ["start"]


def start(metric: Metric, sample: Sample) -> Steps[Score]:
    """The program of ``metric`` on ``sample``; with several references the best of one program a reference."""
    takes_reference = "reference" in (*metric.definition.required, *metric.definition.optional)
    references = sample.references or ()
    if len(references) < 2 or not takes_reference:
        return metric.start(sample)
    return _best(metric, sample, references)


def _best(metric: Metric, sample: Sample, references: tuple[str, ...]) -> Steps[Score]:
    programs = [_outcome(metric.start(replace(sample, references=(reference,)))) for reference in references]
    outcomes = yield from together(*programs)
    failures = [outcome for outcome in outcomes if isinstance(outcome, RagMetricsError)]
    scored = [(s.value, -i) for i, s in enumerate(outcomes) if isinstance(s, Score) and s.value is not None]
    if not scored:
        if failures:
            raise failures[0]
        return next(outcome for outcome in outcomes if isinstance(outcome, Score))
    value, position = max(scored)
    best = outcomes[-position]
    assert isinstance(best, Score)
    if failures:
        best = replace(best, warnings=(*best.warnings, ("reference_failed", say("reference.failed", n=len(failures)))))
    if all(other == value for other, _ in scored):
        return best
    matched = references[-position]
    best = best.with_details(matched_reference=matched)
    return replace(best, reason=say("joined", first=best.reason, second=say("reference.matched", reference=matched)))


def _outcome(program: Steps[Score]) -> Steps[Score | RagMetricsError]:
    try:
        return (yield from program)
    except RagMetricsError as error:
        return error
