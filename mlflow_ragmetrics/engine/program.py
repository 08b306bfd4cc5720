"""The programs of one sample, one per metric and judge, the scores that come of them, and what they cost."""

from __future__ import annotations

import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from mlflow_ragmetrics.core.composite import Composite, aggregate, agreement
from mlflow_ragmetrics.core.document import cell
from mlflow_ragmetrics.core.marked import row_blocks
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.options import Aggregate
from mlflow_ragmetrics.core.question import Outcome, Question, Steps, together
from mlflow_ragmetrics.core.safe_text import redact
from mlflow_ragmetrics.core.score import BY_RULE, Sample, Score
from mlflow_ragmetrics.errors import AllJudgesFailedError, JudgeError, MissingFieldError, RagMetricsError
from mlflow_ragmetrics.text.messages import say


class Expenses:
    """What the judges cost one caller: counts by name, added up by the threads that work for it; and their warnings."""

    def __init__(self) -> None:
        self.warnings: dict[str, None] = {}
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def update(self, counts: Mapping[str, float]) -> None:
        """Add to the counts of these names."""
        with self._lock:
            self._counts.update(counts)

    def counts(self) -> Counter[str]:
        """All counts so far."""
        with self._lock:
            return Counter(self._counts)

    def usage(self, seconds: float) -> dict[str, float]:
        """What a report says that it cost: the counts that are not 0, answers of the cache, and the time."""
        counts = {"cached": 0.0, **self.counts()}
        return {name: count for name, count in counts.items() if count or name == "cached"} | {"wall_seconds": seconds}


_CALLER: ContextVar[Expenses | None] = ContextVar("ragmetrics_expenses", default=None)


@contextmanager
def charged_to(expenses: Expenses) -> Iterator[Expenses]:
    """While this lasts, what this context asks of judges is added to ``expenses``, and nothing that others ask."""
    charged = _CALLER.set(expenses)
    try:
        yield expenses
    finally:
        _CALLER.reset(charged)


def expenses_of_caller() -> Expenses:
    """Those of this context's caller; new ones where nobody asks what it costs."""
    return _CALLER.get() or Expenses()


def charge(counts: Mapping[str, float]) -> None:
    """Add to what the caller of this context has to pay, if there is one."""
    caller = _CALLER.get()
    if caller is not None:
        caller.update(counts)


def warn_caller(message: str) -> None:
    """Warn of how a judge is asked: as Python does, and in the report of this context's caller."""
    caller = _CALLER.get()
    if caller is not None:
        caller.warnings[message] = None
    warnings.warn(message, RuntimeWarning, stacklevel=3)


class ChargesCaller:
    """A judge's meter that charges each request to its caller as well, so that one caller's share of it is known."""


def start(metric: Metric, sample: Sample) -> Steps[Score]:
    """The program of ``metric`` on ``sample``; with several references the best of one program per reference."""
    return _best(metric, sample, sample.references or ()) if metric.is_best_of(sample) else metric.start(sample)


def _best(metric: Metric, sample: Sample, references: tuple[str, ...]) -> Steps[Score]:
    programs = [_outcome(metric.start(replace(sample, references=(reference,)))) for reference in references]
    outcomes = yield from together(*programs)
    failures = [outcome for outcome in outcomes if isinstance(outcome, RagMetricsError)]
    better = metric.definition.higher_is_better
    scored = [
        (-s.value if better is False else s.value, -i)
        for i, s in enumerate(outcomes)
        if isinstance(s, Score) and s.value is not None
    ]
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
    """A sample with its scores by metric key, in the suite's order; ``index`` is its place in the data, from 0."""

    sample: Sample
    scores: dict[str, Score]
    index: int = 0

    def __repr__(self) -> str:
        values = {
            key: score.status if score.value is None else f"{score.value:.3f}" for key, score in self.scores.items()
        }
        return f"<Row {self.sample.id!r}: {', '.join(f'{key} {value}' for key, value in values.items())}>"

    def _repr_html_(self) -> str:
        return cell(row_blocks(self.sample, self.scores))


@dataclass(eq=False, slots=True)
class Run:
    """Drives one program: holds what was answered of what it asked until all of it is.

    A run that was given a ``score`` has ended, and needs no program.
    """

    program: Steps[Score] | None
    judge: str | None
    score: Score | None = None
    duration_ms: float = 0.0
    failure: Exception | None = None
    asked: tuple[Question[Any], ...] = ()
    _began: float = field(default_factory=time.perf_counter)
    _outcomes: list[Outcome] | None = None
    _open: int = 0

    def advance(self) -> None:
        """Go on to the next questions, or to the end: then ``score`` or ``failure`` is set."""
        assert self.program is not None
        try:
            given = self._outcomes
            self.asked = next(self.program) if given is None else self.program.send(tuple(given))
            self._open = len(self.asked)
            self._outcomes = [None] * self._open
        except StopIteration as end:
            self.score, self.asked = end.value, ()
            self.duration_ms = 1000.0 * (time.perf_counter() - self._began)
        except Exception as error:  # a metric's own bug fails its one score; the other scores go on
            self.failure, self.asked = error, ()

    def fill(self, place: int, outcome: Outcome) -> bool:
        """Take the outcome of the question at this place; True when everything that was asked is now answered."""
        assert self._outcomes is not None
        self._outcomes[place] = outcome
        self._open -= 1
        return not self._open

    @property
    def has_asked(self) -> bool:
        """Whether the program asked anything so far."""
        return self._outcomes is not None

    @property
    def done(self) -> bool:
        """Whether the program has ended."""
        return self.score is not None or self.failure is not None


@dataclass(eq=False, slots=True)
class Job:
    """One sample: by metric its runs; which questions wait or are in flight to remote judges."""

    index: int
    sample: Sample
    runs: list[list[Run]]
    pending: dict[str, dict[Question[Any], None]] = field(default_factory=dict)
    in_flight: dict[str, dict[Question[Any], None]] = field(default_factory=dict)
    open_runs: int = 0


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
            error.__traceback__ = None  # its frames hold the run that holds it: memory that only the collector frees
        return metric.finish(score, job.sample, self.language, max([run.duration_ms for run in runs]))

    def _merged(self, metric: Metric, runs: list[Run]) -> Score:
        for run in runs:
            if run.failure is not None and not isinstance(run.failure, JudgeError):
                raise run.failure
        if runs[0].judge is None or not any(run.has_asked for run in runs):
            return _only(runs[0])
        outcomes = {str(run.judge): run.score or run.failure for run in runs}
        named = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, (Score, JudgeError))}
        how, tolerance = self._aggregation(metric)
        return merge_judges(named, how, tolerance, several=self.several)

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
        cause = {} if error.field is None else {"unmeasured": say("unmeasured.missing", field=error.field)}
        return Score(status="skipped", reason=str(error), details=cause)
    said = str(error) if isinstance(error, RagMetricsError) else redact(str(error))
    code = error.code if isinstance(error, JudgeError) else None
    warnings = ((f"judge_{code}", said),) if code else ()
    return Score(status="error", error=f"{type(error).__name__}: {said}", reason=said, warnings=warnings)


def merge_judges(
    outcomes: Mapping[str, Score | JudgeError], how: Aggregate, tolerance: float, *, several: bool
) -> Score:
    """One score out of one score (or failure) per judge.

    Details and reason are those of the first judge that scored; with ``several``, items are those of all. A failed
    judge has no vote and is listed in ``excluded_models``. With one judge its own reply error is raised; with
    ``several``, ``AllJudgesFailedError``.
    """
    scores = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Score)}
    failures = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, JudgeError)}
    if not scores:
        raise _failure(failures, several)
    voted = {name: score.value for name, score in scores.items() if score.value is not None}
    measured = {name: value for name, value in voted.items() if scores[name].details.get("rule") not in BY_RULE}
    voted = measured or voted  # a judge that found no claims has no vote if another one did
    if not voted:
        return next(iter(scores.values()))
    first = scores[next(iter(voted))]
    merged = first.changed(model_scores=voted, judge=", ".join(voted))
    if several:
        each = "; ".join(f"{name}: {value:.3f}" for name, value in voted.items())
        judges = say("judges.merged", n=len(voted), how=say(f"aggregate.{how}"), each=each)
        value = aggregate(list(voted.values()), how, tolerance)
        merged = merged.changed(value=value, reason=say("joined", first=merged.reason, second=judges))
        merged = merged.changed(
            items=tuple(item.changed(judge=name) for name in voted for item in scores[name].items)
        ).with_details(
            agreement=agreement(list(voted.values())),
            n_judges=len(voted),
            judges_asked=len(outcomes),
            within_tolerance=max(voted.values()) - min(voted.values()) <= tolerance + 1e-9,
        )
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
