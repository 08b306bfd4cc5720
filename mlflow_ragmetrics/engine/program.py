"""One metric's program on one sample for one judge, and all programs of one sample."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

from mlflow_ragmetrics.core.language import say
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.question import Outcome, Question, Steps, together
from mlflow_ragmetrics.core.sample import Sample
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.errors import RagMetricsError

__all__ = ["start", "Job", "Row", "Run"]


def start(metric: Metric, sample: Sample) -> Steps[Score]:
    """The program of ``metric`` on ``sample``; with several references the best of one program per reference."""
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


@dataclass(frozen=True)
class Row:
    """A sample with its scores by metric key, in the suite's order."""

    sample: Sample
    scores: dict[str, Score]
    index: int = 0


class Run:
    """Drives one program: holds what it asked until all of it is answered."""

    def __init__(self, metric: Metric, sample: Sample, judge: str | None) -> None:
        self.metric = metric
        self.judge = judge
        self.asked: tuple[Question[Any], ...] = ()
        self.wanted: dict[Question[Any], None] = {}
        self.has_asked = False
        self.score: Score | None = None
        self.failure: Exception | None = None
        self.began = time.perf_counter()
        self._answers: dict[Question[Any], Outcome] = {}
        self._program: Steps[Score] = start(metric, sample)

    def advance(self) -> None:
        """Go on to the next questions, or to the end: then ``score`` or ``failure`` is set."""
        outcomes = tuple([self._answers[question] for question in self.asked])
        try:
            self.asked = self._program.send(outcomes if self.has_asked else None)  # type: ignore[arg-type]
            self.has_asked, self._answers, self.wanted = True, {}, dict.fromkeys(self.asked)
        except StopIteration as end:
            score: Score = end.value
            took = 1000.0 * (time.perf_counter() - self.began)
            self.score, self.asked = score.changed(duration_ms=took), ()
        except Exception as error:  # a metric's own bug fails its one score; the other scores go on
            self.failure, self.asked = error, ()

    def fill(self, question: Question[Any], outcome: Outcome) -> bool:
        """Take an outcome; True when everything that was asked is now answered."""
        self._answers[question] = outcome
        return len(self._answers) == len(self.wanted)

    @property
    def done(self) -> bool:
        """Whether the program has ended."""
        return self.score is not None or self.failure is not None


@dataclass(eq=False)
class Job:
    """All runs of one sample, metric by metric, and by judge which of its questions wait or are in flight."""

    index: int
    sample: Sample
    runs: list[list[Run]]
    pending: dict[str, dict[Question[Any], None]] = field(default_factory=dict)
    in_flight: dict[str, dict[Question[Any], None]] = field(default_factory=dict)
    open_runs: int = 0
